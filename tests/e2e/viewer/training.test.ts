// The training page in a real browser: two runs over each other, and a run that grows.
// @module-tag full
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { built } from "../../built.ts";
import { newFolder } from "../../rollout/folder.ts";
import { start } from "../serve-process.ts";
import { open, picture } from "./browser.ts";
import { startViewing } from "./viewing.ts";

beforeAll(() => built());

const line = (iteration: number, reward: number): string =>
  `${JSON.stringify({ iteration, reward, loss: 1 / iteration, seconds: { sampling: iteration, environment: 0.1, update: reward } })}\n`;

test("the curves of two training runs are drawn over each other, and follow a run in progress", async () => {
  const folder = newFolder();
  const runs = ["outcome", "steps"].map((name) => join(folder, name));
  for (const [at, run] of runs.entries()) {
    mkdirSync(run);
    writeFileSync(join(run, "metrics.jsonl"), [1, 2, 3, 4].map((n) => line(n, (n * (at + 1)) / 8)).join(""));
  }
  const { url } = await startViewing(runs);
  const page = await open(`${url}/view/#at=training`);
  const reward = page.getByRole("img", { name: /^reward/ });
  await expect.poll(() => reward.locator("polyline").count()).toBe(2);
  expect(await reward.getAttribute("aria-label")).toContain("outcome: 0.125 at 1");
  for (const name of ["loss", "seconds.sampling", "seconds.update"]) {
    expect(await page.getByRole("img", { name: new RegExp(`^${name}\\.`) }).count(), name).toBe(1);
  }
  expect(await page.getByText("Equal in all iterations: seconds.environment 0.1.").count()).toBe(1);
  expect(await page.getByText("npx holdfast view --store sqlite:outcome/sessions.db").count()).toBe(1);
  expect(await page.locator("figcaption").first().textContent()).toBe("reward maximum 1");
  expect(await page.getByRole("row").count()).toBe(3);
  await picture(page, "training");
  appendFileSync(join(runs[1] as string, "metrics.jsonl"), line(5, 1));
  await expect.poll(() => page.getByRole("cell", { name: "5", exact: true }).count(), { timeout: 15_000 }).toBe(1);
  await expect(page.getByRole("link", { name: "Training" }).getAttribute("aria-current")).resolves.toBe("page");
});

test("without collections, the start page links to the training runs, which fit on a telephone", async () => {
  const run = join(newFolder(), "a-run-whose-long-name-leaves-no-room-for-the-other-columns-of-the-table");
  mkdirSync(run);
  writeFileSync(join(run, "metrics.jsonl"), [1, 2, 3].map((n) => line(n, n / 4)).join(""));
  const running = await start(["view", run, "--no-open"]);
  await expect.poll(running.printed).toContain("viewer at ");
  const url = /viewer at (http:[^#]+)/.exec(running.printed())?.[1] ?? "";
  const page = await open(url, { viewport: { width: 320, height: 800 } });
  await page.getByRole("main").getByRole("link", { name: "Training" }).click();
  await expect.poll(() => page.locator("polyline").count()).toBeGreaterThan(1);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(320);
  await picture(page, "training-narrow");
});
