// The viewer on a running server, in a real browser: a live episode, its actions, the live page, and chat.
// @module-tag full
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { freePort } from "../../../tools/servers/ports.mjs";
import { built } from "../../built.ts";
import { startServing } from "../serve-process.ts";
import { open, picture } from "./browser.ts";
import { tally } from "./collected.ts";

beforeAll(() => built());

async function storeFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-viewer-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return `sqlite:${join(folder, "sessions.db")}`;
}

async function post<T>(url: string, body: unknown = {}): Promise<T> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  expect(response.ok).toBe(true);
  return (await response.json()) as T;
}

const task = { start: 1, goal: 4, plan: "win" };
const newSession = async (url: string): Promise<string> =>
  (await post<{ session: string }>(`${url}/v1/sessions`, { task })).session;
const add = (url: string, session: string, by: number) =>
  post(`${url}/v1/sessions/${session}/call`, { tool: "add", input: { by } });
const versions = (page: Page) => page.getByRole("slider", { name: "Version" }).getAttribute("max");

test("an episode updates while it runs; a lost connection is shown, and nothing is missed", async () => {
  const store = await storeFile();
  const first = await startServing([tally, "--port", String(await freePort()), "--store", store]);
  const session = await newSession(first.url);
  const page = await open(`${first.url}/view/#at=sessions/tally/${session}`);
  await expect.poll(() => versions(page)).toBe("2");
  await add(first.url, session, 1);
  await expect.poll(() => versions(page)).toBe("3");
  await expect.poll(() => page.getByRole("tree").textContent()).toContain("count2");

  first.process.kill("SIGKILL");
  await expect.poll(() => page.getByText(/connection was lost/i).isVisible()).toBe(true);
  const second = await startServing([tally, "--port", new URL(first.url).port, "--store", store]);
  for (const by of [1, 1]) await add(second.url, session, by);
  await expect.poll(() => versions(page)).toBe("5");
  await expect.poll(() => page.getByRole("tree").textContent()).toContain("count4");
  await expect.poll(() => page.getByText(/connection was lost/i).count()).toBe(0);
});

test("a session shows the reward at every version, is continued by a model, rewound and closed", async () => {
  const { url } = await startServing([tally, "--port", "0"]);
  const session = await newSession(url);
  await add(url, session, 3);
  await add(url, session, 3);
  const page = await open(`${url}/view/#at=sessions/tally/${session}`);
  await page.getByRole("button", { name: "Compute the reward at every version" }).click();
  await expect.poll(() => page.getByText("3 versions, 0 to 1").isVisible()).toBe(true);
  await picture(page, "acts");

  await page.getByRole("button", { name: "Previous version" }).click();
  await page.getByRole("button", { name: "Rewind to version 3" }).click();
  await expect.poll(() => versions(page)).toBe("5");
  await expect.poll(() => page.getByRole("tree").textContent()).toContain("count4");

  // The server refuses invalid arguments with its own message.
  await page.getByLabel("Tool").selectOption("add");
  await page.getByLabel("as JSON").check();
  await page.getByRole("textbox", { name: /JSON/ }).fill('{"by": "three"}');
  await page.getByRole("button", { name: "Call add" }).click();
  await expect.poll(() => page.locator(".playground-answer").textContent()).toContain("invalid_input");

  await page.getByRole("combobox", { name: /^Model/ }).selectOption("scripted");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await expect.poll(() => page.getByText(/after \d+ steps?, at version/).isVisible()).toBe(true);

  await page.getByRole("button", { name: "Close the session" }).click();
  await page.getByRole("button", { name: "Close it" }).click();
  await expect
    .poll(() =>
      page
        .getByText(/This session has ended/)
        .first()
        .isVisible(),
    )
    .toBe(true);
  expect(await page.getByRole("button", { name: "Call add" }).count()).toBe(0);
});

test("the live page shows calls per second while they are made", async () => {
  const { url } = await startServing([tally, "--port", "0"]);
  const page = await open(`${url}/view/#at=live`);
  const session = await newSession(url);
  const until = Date.now() + 5_000;
  while (Date.now() < until) await add(url, session, 1);
  await expect.poll(() => page.getByRole("link", { name: session }).isVisible()).toBe(true);
  const most = page.getByRole("row").filter({ hasText: "tally" }).first().getByRole("cell").last();
  await expect.poll(async () => Number(await most.textContent())).toBeGreaterThan(0);
  await picture(page, "live");
});

test("chat: an agent answers, writes of callbacks appear where they were stored, and a turn is undone", async () => {
  const { url } = await startServing(["examples/session-state", "--port", "0"]);
  const page = await open(`${url}/view/#at=agents/root_agent`);
  await page.getByRole("button", { name: /new conversation/i }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("hello");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.getByText("How can I help you verify").first().isVisible()).toBe(true);
  await page.getByText(/^Log: \d+ commits/).click();
  const commits = page.getByRole("list", { name: "Commits" });
  for (const key of ["before_agent", "after_model", "after_agent"]) {
    await expect.poll(() => commits.textContent()).toContain(`${key}_callback_state_key`);
  }
  await picture(page, "chat");

  await page.getByRole("textbox", { name: "Message" }).fill("again");
  await page.getByRole("button", { name: "Send" }).click();
  await expect.poll(() => page.getByText("I can only reply once").first().isVisible()).toBe(true);
  await page.getByRole("button", { name: "Rewind to before this turn" }).first().click();
  await page.getByRole("button", { name: "Rewind", exact: true }).click();
  await expect.poll(() => page.getByText(/^Undone:/).count()).toBe(2);
  await page.getByRole("textbox", { name: "Message" }).fill("once more");
  await page.getByRole("button", { name: "Send" }).click();
  // The answer is gone.
  await expect.poll(() => page.getByText("How can I help you verify").last().isVisible()).toBe(true);
});

test("chat shows shared keys that another conversation wrote, and lists conversations by their first message", async () => {
  const { url } = await startServing(["examples/session-state", "--port", "0"]);
  await post(`${url}/v1/sessions`, { user: "ann", state: { "user:name": "Ann", "app:company": "Acme" } });
  const { session } = await post<{ session: string }>(`${url}/v1/sessions`, { user: "ann" });
  await post(`${url}/v1/sessions/${session}/run`, { message: "Good morning" });
  const page = await open(`${url}/view/#at=agents/root_agent`);
  await page.getByRole("link", { name: "Good morning" }).click();
  const state = page.getByRole("tree");
  for (const text of ["user:name", "Ann", "app:company", "Acme"]) {
    await expect.poll(() => state.textContent()).toContain(text);
  }
});

test("a server with a token: the page asks for it, and continues when it is right", async () => {
  const { url } = await startServing([tally, "--port", "0", "--token", "open-sesame"]);
  const page = await open(`${url}/view/`);
  const field = page.getByLabel("Token", { exact: true });
  await field.fill("not-this-one");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect.poll(() => page.getByText("The token is wrong.").isVisible()).toBe(true);
  await field.fill("open-sesame");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect.poll(() => page.getByRole("link", { name: "Sessions", exact: true }).isVisible()).toBe(true);
});
