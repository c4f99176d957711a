// A real browser for the viewer tests: Debian's Chromium, driven by Playwright, with access to loopback only.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { afterAll, expect, onTestFinished } from "vitest";
import { findBinary } from "../../../tools/binaries.mjs";
import { root } from "../../files.ts";

let launched: Promise<Browser> | undefined;

function browser(): Promise<Browser> {
  launched ??= chromium.launch({
    executablePath: findBinary("chromium"),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  return launched;
}

afterAll(async () => {
  await (await launched)?.close();
  launched = undefined;
});

/**
 * Opens a page. A test fails if the page reports an error: a script that threw, or a policy violation. `known` matches
 * errors of a page that is not ours.
 */
export async function open(url: string, options: BrowserContextOptions = {}, known?: RegExp): Promise<Page> {
  const context = await (await browser()).newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints: string[] = [];
  page.on("pageerror", ({ message }) => complaints.push(message));
  page.on("console", (message) => {
    // The server may refuse a request, and the page shows that.
    const isRefusal = /Failed to load resource/.test(message.text());
    if (message.type() === "error" && !isRefusal) complaints.push(message.text());
  });
  onTestFinished(async () => {
    await context.close();
    expect(complaints.filter((complaint) => !known?.test(complaint))).toEqual([]);
  });
  await page.goto(url);
  return page;
}

/** Saves a screenshot for a later look at the run. Some are copied to docs/pictures. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = join(root, "test-output/pictures");
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
