// The viewer in a real browser, on collections made by the command: from a run to a fork that wins.
// @module-tag full
import { beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { built } from "../../built.ts";
import { open, picture } from "./browser.ts";
import { collect, newFolder, taskAt } from "./collected.ts";
import { startViewing } from "./viewing.ts";

let [many, strange, before] = ["", "", ""];

beforeAll(async () => {
  await built();
  const folder = await newFolder();
  many = await collect(folder, "many", { repeats: 20 });
  strange = await collect(folder, "strange", { tasks: ["hostile", "large"], repeats: 1 });
  before = await collect(folder, "before", { repeats: 2, model: "random" });
}, 240_000);

const rowsShown = (page: Page) => page.locator("output.run-count");

test("a run of 2,000: filter to failures, open one, scrub, fork, call a tool, verify with reward 1, see the fork", async () => {
  const { url } = await startViewing([many]);
  const page = await open(`${url}/view/#at=runs/0`);
  await expect.poll(() => rowsShown(page).textContent()).toBe("2,000 of 2,000");
  await picture(page, "run");
  await page.getByLabel("Outcome").selectOption("failed");
  await expect.poll(() => rowsShown(page).textContent()).toBe("200 of 2,000");
  await picture(page, "run-failures");

  await page.getByRole("grid").focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => page.getByText("the model went away").first().isVisible()).toBe(true);
  const [, index] = /at=runs\/many\/task-(\d+)-repeat-\d+$/.exec(page.url()) ?? [];
  const row = taskAt(Number(index));

  // The log: opened and seeded, then one call. Back and forth by keyboard, and by the address.
  const slider = page.getByRole("slider", { name: "Version" });
  const last = Number(await slider.getAttribute("max"));
  await slider.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("End");
  await expect.poll(() => page.getByRole("tree").textContent()).toContain(`count${row.start + 1}`);
  await page.getByRole("button", { name: "Previous version" }).click();
  await expect.poll(() => page.url()).toContain(`v=${last - 1}`);
  await expect.poll(() => page.getByRole("tree").textContent()).toContain(`count${row.start}`);
  await picture(page, "episode");
  await page.reload();
  await expect.poll(() => page.getByRole("slider", { name: "Version" }).inputValue()).toBe(String(last - 1));

  await page.getByRole("button", { name: `Fork from version ${last - 1}` }).click();
  await expect.poll(() => page.url()).toContain("at=sessions/tally/");
  const [, fork = ""] = /at=sessions\/tally\/([^&]+)/.exec(page.url()) ?? [];
  await page.getByLabel("Tool").selectOption("add");
  await page.getByRole("spinbutton", { name: /by/ }).fill(String(row.goal - row.start));
  await page.getByRole("button", { name: "Call add" }).click();
  await expect.poll(() => page.locator(".playground-answer").textContent()).toContain(`"count": ${row.goal}`);
  await page.getByRole("button", { name: "Verify version 2" }).click();
  await expect.poll(() => page.getByText("reward 1").first().isVisible()).toBe(true);
  await picture(page, "fork");

  await page.getByRole("link", { name: "Sessions", exact: true }).click();
  const forked = page.getByRole("row").filter({ has: page.getByRole("link", { name: fork, exact: true }) });
  await expect.poll(() => forked.count()).toBe(1);
  await expect.poll(() => forked.textContent()).toMatch(/open/);
  await expect.poll(() => forked.getByRole("link").count()).toBe(2);
  await picture(page, "sessions");
});

test("a run is searched, sorted and grouped; a bar leads to its rows; back leads back; colours are kept", async () => {
  const { url } = await startViewing([many]);
  const page = await open(`${url}/view/#at=runs/0`);
  const shown = () => rowsShown(page).textContent();
  await expect.poll(shown).toBe("2,000 of 2,000");
  await page.getByRole("link", { name: "Reward 0: 400 rows" }).click();
  await expect.poll(shown).toBe("400 of 2,000");
  await page.getByRole("button", { name: "Clear" }).click();
  // The links are made anew with the rows.
  await expect.poll(shown).toBe("2,000 of 2,000");
  await page.getByRole("link", { name: /^200 model: / }).click();
  await expect.poll(shown).toBe("200 of 2,000");
  await page.goBack();
  await expect.poll(shown).toBe("2,000 of 2,000");

  await page.getByRole("searchbox").fill("from 42 to");
  await expect.poll(shown).toBe("20 of 2,000");
  // The metrics are those of the shown rows.
  expect(await page.locator(".run-metric").first().textContent()).toContain("of 2,000");
  // Every row has this text, but only in the outputs of its tools.
  await page.getByRole("searchbox").fill('"count":');
  await expect.poll(shown).toBe("2,000 of 2,000");
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByRole("combobox", { name: /^Tool/ }).selectOption("add");
  await expect.poll(shown).toBe("2,000 of 2,000");
  await page.getByRole("button", { name: "Task", exact: true }).click();
  const first = () => page.locator(".grid-row[data-index='0']").textContent();
  await expect.poll(first).toMatch(/^0/);
  await page.getByRole("button", { name: /^Task/ }).click();
  await expect.poll(first).toMatch(/^99/);

  await page.getByRole("checkbox", { name: "by task" }).check();
  const grid = page.getByRole("treegrid");
  await expect.poll(() => grid.getAttribute("aria-rowcount")).toBe("101");
  await grid.focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => grid.getAttribute("aria-rowcount")).toBe("121");

  await page.getByRole("combobox", { name: /^Theme/ }).selectOption("dark");
  await page.reload();
  await expect.poll(() => page.evaluate<string>("document.documentElement.dataset.theme")).toBe("dark");
  await expect.poll(() => grid.getAttribute("aria-rowcount")).toBe("101");
  await picture(page, "run-dark");
});

test("the output of a tool is shown as text, however hostile or long", async () => {
  const { url } = await startViewing([strange]);
  const page = await open(`${url}/view/#at=runs/0`);
  await expect.poll(() => rowsShown(page).textContent()).toBe("2 of 2");
  await page.getByRole("link", { name: "0", exact: true }).click();
  await expect.poll(() => page.getByText("<img src=x onerror=").count()).toBeGreaterThan(0);
  await picture(page, "hostile");
  await page.goBack();
  await page.getByRole("link", { name: "1", exact: true }).click();
  await expect.poll(() => page.getByText("0123456789".repeat(10)).count()).toBeGreaterThan(0);
  await page
    .getByRole("button", { name: /all.*2 MB/i })
    .first()
    .click();
  await expect.poll(() => page.evaluate<number>("document.body.textContent.length")).toBeGreaterThan(2_000_000);
  expect(await page.title()).not.toContain("taken over");
  expect(await page.locator("img").count()).toBe(0);
});

test("two runs are compared", async () => {
  const { url } = await startViewing([before, many]);
  const page = await open(`${url}/view/`);
  for (const name of ["before", "many"]) await page.getByRole("checkbox", { name: new RegExp(name) }).check();
  await page.getByRole("link", { name: "Compare the two runs" }).click();
  await expect
    .poll(() =>
      page
        .getByText(/better/i)
        .first()
        .isVisible(),
    )
    .toBe(true);
  await expect.poll(() => page.getByRole("grid").getAttribute("aria-rowcount")).toBe("101");
  await picture(page, "compare");
});

test("a file without its store is shown without states, and says so", async () => {
  const { url } = await startViewing([many], "--store", "memory:");
  const page = await open(`${url}/view/#at=runs/0/0`);
  await expect.poll(() => page.getByText(/was not found/).isVisible()).toBe(true);
});
