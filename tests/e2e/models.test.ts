// Models in separate processes: a process can exit, and processes can share a file.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { answerText } from "../../src/core/model.ts";
import { recordedModel } from "../../src/models/recorded.ts";
import { built } from "../built.ts";
import { json, play, stream } from "../models/server.ts";
import { apis } from "../models/wire-apis.ts";

test("a process exits after its last request", async () => {
  const [played] = apis;
  const server = await play(json(played?.whole), json({ error: "busy" }, 500), stream(played?.stream ?? ""));
  const source = await built();
  const script = `
    const { openaiModel } = await import(${JSON.stringify(`${source}/models/openai.js`)});
    const model = openaiModel({ model: "m", baseUrl: ${JSON.stringify(server.url)} });
    const request = { input: [{ type: "message", role: "user", content: "Hello" }] };
    await model.respond(request);
    const { output } = await model.respond(request, { onPiece() {} });
    await new Promise((resolve) => setImmediate(resolve));
    // Those that keep the process: an idle connection is there, and does not.
    const kept = process.getActiveResourcesInfo().filter((kind) => /TCP|Timeout/.test(kind));
    console.log(JSON.stringify([output[0].content[0].text, kept]));
  `;
  const args = ["--input-type=module", "-e", script];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 30_000 });
  expect(JSON.parse(stdout)).toEqual(["Hi", []]);
  expect(server.asked).toHaveLength(3);
}, 90_000);

test("a recorded file can be shared by concurrently recording processes: no line is torn", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-models-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "recorded.jsonl");
  const script = `
    const { recordedModel } = await import(${JSON.stringify(join(await built(), "models/recorded.js"))});
    const respond = async ({ input }) => ({ status: "completed", output: [{ type: "message", role: "assistant", content: input[0].content + "x".repeat(50000) }] });
    const model = recordedModel({ file: ${JSON.stringify(file)}, model: { name: "m", respond } });
    await Promise.all(Array.from({ length: 40 }, (_, n) => model.respond({ input: [{ type: "message", role: "user", content: process.argv[1] + n }] })));
  `;
  const runner = ["--input-type=module", "-e", script];
  await Promise.all(["a", "b", "c"].map((name) => promisify(execFile)(process.execPath, [...runner, name])));
  const replay = recordedModel({ file });
  for (const name of ["a", "b", "c"]) {
    for (let n = 0; n < 40; n++) {
      const { output } = await replay.respond({ input: [{ type: "message", role: "user", content: `${name}${n}` }] });
      expect(answerText(output).startsWith(`${name}${n}x`)).toBe(true);
    }
  }
  // A process that saw another one in the middle of a write leaves a mark on its own line.
  const lines = (await readFile(file, "utf8")).split("\n").filter((line) => line !== "" && line !== "\u0018");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toHaveLength(120);
});
