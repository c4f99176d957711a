// The viewer as a folder of files, in a real browser, from disk and from any web server.
// @module-tag full
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { built } from "../../built.ts";
import { run } from "../serve-process.ts";
import { open, picture } from "./browser.ts";
import { collect, newFolder } from "./collected.ts";

let [folder, one, two] = ["", "", ""];

beforeAll(async () => {
  await built();
  folder = await newFolder();
  one = await collect(folder, "one", { repeats: 2 });
  two = await collect(folder, "two", { tasks: ["hostile", "win", "lose"], repeats: 1 });
}, 120_000);

/** A plain web server that knows nothing of the files it serves. */
async function served(site: string): Promise<string> {
  const types: { [ending: string]: string } = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const file = join(site, pathname === "/" ? "index.html" : pathname);
    readFile(file).then(
      (text) => response.setHeader("content-type", types[extname(file)] ?? "image/svg+xml").end(text),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

test.each(["from disk", "from a web server"])(
  "%s: runs, filters, an episode, its states, two runs compared",
  async (how) => {
    const site = join(folder, how.replaceAll(" ", "-"));
    const { code, stderr } = await run("view", "--bundle", site, one, two);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const url = how === "from disk" ? pathToFileURL(join(site, "index.html")).href : await served(site);

    const page = await open(url);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.getByRole("link", { name: "one", exact: true }).click();
    await expect.poll(() => page.locator("output.run-count").textContent()).toBe("200 of 200");
    await page.getByLabel("Outcome").selectOption("failed");
    await expect.poll(() => page.locator("output.run-count").textContent()).toBe("20 of 200");
    await page.getByRole("grid").focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByText("the model went away").first().isVisible()).toBe(true);
    const slider = page.getByRole("slider", { name: "Version" });
    await expect.poll(() => slider.getAttribute("max")).toBe("3");
    const newest = await page.getByRole("tree").textContent();
    await page.getByRole("button", { name: "Previous version" }).click();
    await expect.poll(() => page.getByRole("tree").textContent()).not.toBe(newest);
    expect(await page.getByRole("button", { name: /^Fork/ }).count()).toBe(0);
    await picture(page, `bundle-${how.replaceAll(" ", "-")}`);

    // Reopens a link to a version.
    await expect.poll(() => page.url()).toContain("v=2");
    const other = await open(page.url());
    await expect.poll(() => other.getByRole("slider", { name: "Version" }).inputValue()).toBe("2");

    await page.getByRole("link", { name: "Runs" }).click();
    for (const name of ["one", "two"]) await page.getByRole("checkbox", { name: new RegExp(name) }).check();
    await page.getByRole("link", { name: "Compare the two runs" }).click();
    await expect
      .poll(() =>
        page
          .getByText(/better/i)
          .first()
          .isVisible(),
      )
      .toBe(true);

    await page.getByRole("link", { name: "two", exact: true }).first().click();
    await page.getByRole("link", { name: "0", exact: true }).click();
    await expect.poll(() => page.getByText("<img src=x onerror=").count()).toBeGreaterThan(0);
    expect(await page.title()).not.toContain("taken over");
    expect(asked.filter((address) => !address.startsWith(new URL(".", url).href))).toEqual([]);
  },
);
