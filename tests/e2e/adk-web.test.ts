// ADK's own web UI, unmodified, in a real browser on a served agent: chat, streaming, calls, state, traces, reload.
// @module-tag full
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { built } from "../built.ts";
import { startServing } from "./serve-process.ts";
import { open, picture } from "./viewer/browser.ts";

const command = promisify(execFile);
let folder = "";

beforeAll(async () => {
  await built();
  folder = await mkdtemp(join(tmpdir(), "holdfast-adk-"));
  // Only the package: the page needs none of its dependencies.
  await command("npm", ["pack", "@google/adk-devtools@2.0.0", "--silent"], { cwd: folder });
  await command("tar", ["xzf", "google-adk-devtools-2.0.0.tgz", "package/dist/browser"], { cwd: folder });
  return () => rm(folder, { recursive: true, force: true });
}, 180_000);

/** The UI asks for pictures of the agent and for evaluations, and logs that there are none. It asks for fonts too. */
const ofTheUi = /^$|^_o$|graphs: _o|ERR_NAME_NOT_RESOLVED/;

const shown = (page: Page): Promise<string> => page.locator("body").innerText();

async function say(page: Page, text: string): Promise<void> {
  await page.locator("textarea").fill(text);
  await page.keyboard.press("Enter");
}

test("chat, streaming, calls, state, traces and sessions work, also after the server was killed", async () => {
  const args = ["examples/concierge", "--store", `sqlite:${join(folder, "concierge.db")}`];
  const web = ["--adk-web", join(folder, "package/dist/browser")];
  const first = await startServing([...args, ...web, "--port", "0"]);
  const page = await open(`${first.url}/v1/adk/dev-ui/`, {}, ofTheUi);
  await page.locator("textarea").waitFor();
  await say(page, "book a table for 2");
  await expect.poll(() => shown(page)).toContain("A table for 2 is booked; 20 was paid to hold it.");
  // The call, its result, and the state that it changed.
  expect(await shown(page)).toMatch(/book_table\(2\)[\s\S]*book_table\n[\s\S]*State: booked[\s\S]*State: last_answer/);
  await expect.poll(() => page.url()).toContain("app=concierge&userId=user&session=");
  await picture(page, "adk-chat");

  await page.getByRole("tab", { name: "State" }).click();
  await expect.poll(() => shown(page)).toMatch(/booked[\s:]*\[\s*0[\s:]*guests[\s:]*2\s*paid[\s:]*20/);
  await picture(page, "adk-state");
  await page.getByText("Traces", { exact: true }).click();
  await expect.poll(() => shown(page)).toMatch(/INVOCATION ID:[\s\S]*call_llm[\s\S]*book_table[\s\S]*call_llm/);
  await picture(page, "adk-traces");
  await page.getByText("Events", { exact: true }).click();

  // The same address on a new process: everything comes from the store.
  const { port } = new URL(first.url);
  first.process.kill("SIGKILL");
  await first.ended;
  await startServing([...args, ...web, "--port", port]);
  await page.reload();
  await expect.poll(() => shown(page)).toMatch(/book_table\(2\)[\s\S]*20 was paid to hold it/);

  await page.getByText("more_vert").first().click();
  const [request] = await Promise.all([
    page.waitForRequest(/run_sse/),
    (async () => {
      await page.getByText("Streaming", { exact: true }).click();
      await page.keyboard.press("Escape");
      await say(page, "I like figs");
    })(),
  ]);
  expect(request.postDataJSON()).toMatchObject({ streaming: true });
  await expect.poll(() => shown(page)).toMatch(/remember[\s\S]*State: user:likes[\s\S]*I will remember: figs\./);
  // The pieces and the whole answer are one message. In quotation marks, it is part of the state.
  const messages = async (): Promise<number> =>
    [...(await shown(page)).matchAll(/(?<!")I will remember: figs\./g)].length;
  await expect.poll(messages).toBe(1);
  await picture(page, "adk-streamed");

  await page.getByRole("button", { name: "New Session" }).click();
  await say(page, "what do you know?");
  await expect.poll(() => shown(page)).toContain("recall");
  const sessions = (await (await fetch(`${first.url}/v1/adk/apps/concierge/users/user/sessions`)).json()) as {
    state: { [key: string]: unknown };
  }[];
  const names = sessions.map(({ state }) => state["__session_metadata__"]);
  expect(names).toEqual([{ displayName: "book a table for 2" }, { displayName: "what do you know?" }]);
  // The session picker lists both, and opens the first one.
  await page.getByText("what do you know?").first().click();
  await page.getByText("book a table for 2").last().click();
  await expect.poll(() => shown(page)).toContain("20 was paid to hold it");
  await picture(page, "adk-sessions");
}, 120_000);
