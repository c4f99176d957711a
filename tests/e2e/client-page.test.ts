// A web page of another origin that uses the client: twenty lines, run in a real browser.
// @module-tag full
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { built } from "../built.ts";
import { root } from "../files.ts";
import { startServing } from "./serve-process.ts";
import { open } from "./viewer/browser.ts";

beforeAll(() => built(), 120_000);

const page = (server: string): string => `<!doctype html>
<meta charset="utf-8" /><title>Counter</title><link rel="icon" href="data:," />
<button>Add 2</button> <output></output>
<script type="module">
  import { createClient } from "/dist/client/client.js";
  const client = createClient(${JSON.stringify(server)});
  const output = document.querySelector("output");
  const { session } = await client.open({ task: { initial_count: 3, expected_count: 7 } });
  document.querySelector("button").onclick = () => client.call(session, "increment_counter", { count: 2 });
  output.value = "ready";
  for await (const { type } of client.follow(session)) {
    if (type !== "tool.called") continue;
    const { count } = await client.state(session);
    const { reward } = await client.verify(session);
    output.value = count + ", reward " + reward;
  }
</script>`;

/** Serves the page and the built client. */
async function startSite(): Promise<{ url: string; show(html: string): void }> {
  let html = "";
  const site = createServer((request, response) => {
    const path = request.url ?? "";
    if (!path.startsWith("/dist/")) return response.setHeader("content-type", "text/html").end(html);
    void readFile(join(root, path)).then((file) => response.setHeader("content-type", "text/javascript").end(file));
  });
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void site.close());
  const { port } = site.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, show: (given) => (html = given) };
}

test("a page of an allowed origin plays an episode and follows its events", async () => {
  const site = await startSite();
  const { url } = await startServing(["examples/counter", "--port", "0", "--allow-origin", site.url]);
  site.show(page(url));
  const shown = await open(site.url);
  const output = shown.locator("output");
  await expect.poll(() => output.textContent()).toBe("ready");
  await shown.getByRole("button").click();
  await expect.poll(() => output.textContent()).toBe("5, reward 0");
  await shown.getByRole("button").click();
  await expect.poll(() => output.textContent()).toBe("7, reward 1");
});
