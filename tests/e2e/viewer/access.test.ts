// Accessibility of the viewer: no serious finding of axe, in light and dark, and no page wider than its window.
// @module-tag full
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { built } from "../../built.ts";
import { startServing } from "../serve-process.ts";
import { open, picture } from "./browser.ts";
import { collect, newFolder, tally } from "./collected.ts";
import { startViewing } from "./viewing.ts";

let file = "";

beforeAll(async () => {
  await built();
  file = await collect(await newFolder(), "small", { repeats: 2 });
}, 120_000);

const axe = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

interface Found {
  violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[];
}

test("axe finds no serious problem on any page, and no page is wider than a phone", async () => {
  const { url } = await startViewing([file, file]);
  const agent = await startServing(["examples/session-state", "--port", "0"]);
  const headers = { "content-type": "application/json" };
  const opened = await fetch(`${agent.url}/v1/sessions`, { method: "POST", body: "{}", headers });
  const { session } = (await opened.json()) as { session: string };
  await fetch(`${agent.url}/v1/sessions/${session}/run`, { method: "POST", body: '{"message":"hello"}', headers });
  const { sessions } = (await (await fetch(`${url}/v1/sessions?limit=1`)).json()) as {
    sessions: { session: string }[];
  };
  const pages = [
    ...["", "runs/0", "runs/0&group=task", "runs/0/3", "compare/0/1", "live", "sessions/tally"].map(
      (at) => `${url}/view/#at=${at}`,
    ),
    `${url}/view/#at=sessions/tally/${sessions[0]?.session}`,
    `${url}/docs`,
    ...["", "agents/root_agent", `agents/root_agent/${session}`].map((at) => `${agent.url}/view/#at=${at}`),
  ];
  const found: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    const page = await open("about:blank", { colorScheme });
    for (const [at, address] of pages.entries()) {
      await page.setViewportSize({ width: 1280, height: 860 });
      await page.goto("about:blank");
      await page.goto(address);
      await expect.poll(() => page.getByText("Loading…").count()).toBe(0);
      await page.evaluate(axe);
      const { violations } = await page.evaluate<Found>("axe.run({ resultTypes: ['violations'] })");
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      for (const { id, nodes } of serious) {
        found.push(
          ...nodes.map(({ html, failureSummary }) => `${address} ${colorScheme}: ${id}: ${html} ${failureSummary}`),
        );
      }
      for (const width of [400, 3840]) {
        await page.setViewportSize({ width, height: 800 });
        // Charts follow the width of the window in the next frame.
        const excess = () => page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
        await expect.poll(excess, { message: `${address} at ${width} pixels` }).toBeLessThanOrEqual(0);
        if (colorScheme === "dark") await picture(page, `page-${at}-${width}`);
      }
    }
  }
  expect(found).toEqual([]);
}, 180_000);

test("several environments are menus of the header, which fit a phone", async () => {
  const { url } = await startServing([tally, "examples/counter", "--port", "0"]);
  const page = await open(`${url}/view/`, { viewport: { width: 400, height: 800 } });
  await page.getByText("API", { exact: true }).click();
  await expect.poll(() => page.getByRole("link", { name: "counter", exact: true }).first().isVisible()).toBe(true);
  expect(await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
  await page.keyboard.press("Escape");
  await page.getByText("Sessions", { exact: true }).click();
  await page.getByRole("navigation").getByRole("link", { name: "counter" }).first().click();
  await expect.poll(() => page.getByRole("heading", { name: "Sessions of counter" }).isVisible()).toBe(true);
});

test("from a run to a fork by keyboard alone", async () => {
  const { url } = await startViewing([file]);
  const page = await open(`${url}/view/#at=runs/0`);
  await expect.poll(() => page.locator("output.run-count").textContent()).toBe("200 of 200");
  const reach = async (what: () => Promise<boolean>): Promise<void> => {
    for (let presses = 0; presses < 80; presses++) {
      await page.keyboard.press("Tab");
      if (await what()) return;
    }
    expect.fail("it cannot be reached with the Tab key");
  };
  const focused = (test: string) => () => page.evaluate<boolean>(`(({ activeElement: it }) => ${test})(document)`);
  await reach(focused("it.getAttribute('role') === 'grid'"));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toMatch(/at=runs\/small\/task-\d+-repeat-\d+/);
  await expect.poll(() => page.getByRole("slider", { name: "Version" }).count()).toBe(1);
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.url()).toMatch(/v=\d+/);
  await reach(focused("it.textContent.startsWith('Fork from')"));
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toContain("at=sessions/tally/");
});
