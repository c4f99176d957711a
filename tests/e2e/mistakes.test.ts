// Every mistake of the table gets its message, and a failing exit code where nothing was done.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { root } from "../files.ts";
import { authors, project, users, type Mistake } from "./mistakes.ts";
import { start } from "./serve-process.ts";

/** A server that answers with the status that its path names, as a model's API does. */
let address: string;
beforeAll(async () => {
  const server = createServer((request, response) => {
    const status = Number(/\/(\d{3})\//.exec(request.url ?? "")?.[1] ?? 404);
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: { message: status === 401 ? "Incorrect API key" : "unknown model m" } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return () => server.close();
});

async function make({ edit, files, command, model = "" }: Mistake): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-mistake-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const texts = { ...project, ...files };
  if (edit) {
    const [from, to] = edit;
    expect(texts["environment.ts"]).toContain(from);
    texts["environment.ts"] = texts["environment.ts"]!.replace(from, to);
  }
  for (const [name, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const port = new URL(address).port;
  const filled = (text: string): string => text.replace("SERVER", address).replace("PORT", port);
  const env = { OPENAI_BASE_URL: filled(model), OPENAI_API_KEY: "wrong" };
  const { code, stdout, stderr } = await (await start(command.map(filled), { cwd: folder, env })).ended;
  return `${stdout}${stderr}exit ${code}`;
}

describe.each([
  ["authors", authors],
  ["users", users],
])("mistakes of %s", { tags: ["full"] }, (_, mistakes) => {
  test.each(mistakes)("$mistake", async (mistake) => {
    const printed = await make(mistake);
    for (const part of mistake.says) expect(printed).toContain(part);
  });
});

test("an unchanged project has no mistakes", { tags: ["full"] }, async () => {
  const printed = await make({
    mistake: "none",
    command: ["collect", ".", "--model", "scripted", "--out", "o.jsonl"],
    says: [],
  });
  expect(printed).toContain("exit 0");
});
