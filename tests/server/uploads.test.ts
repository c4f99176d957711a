// Large request bodies: their rate while they wait, and how many parsed ones are in memory.
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { limitsWith } from "../../src/server/limits.ts";
import { createUploads } from "../../src/server/uploads.ts";

test("a large body that waits for its turn is not cut as slow, and one that sends nothing is", async () => {
  const uploads = createUploads({ limits: limitsWith(), tick: 1_000, metrics: { arriving: 0 } });
  const incoming = new IncomingMessage(new Socket());
  incoming.headers["content-length"] = "1000000";
  const upload = uploads.begin(incoming, () => expect.fail("it never arrives"));
  for (let second = 0; second < 100; second++) expect(upload.tick()).toBeUndefined();
  for (let turn = 0; turn < 3; turn++) await nextTurn();
  const faults = Array.from({ length: 5 }, () => upload.tick()?.code);
  expect(faults).toEqual([undefined, undefined, undefined, undefined, "request_timeout"]);
  upload.end();
});

test("of many large bodies, one is handed over before the next is parsed", async () => {
  const uploads = createUploads({ limits: limitsWith(), tick: 1_000, metrics: { arriving: 0 } });
  const body = JSON.stringify({ text: "x".repeat(70_000) });
  let [parsed, done] = [0, 0];
  const most: number[] = [];
  const parse = vi.spyOn(JSON, "parse").mockImplementation((text: string) => {
    most.push(++parsed - done);
    return text;
  });
  onTestFinished(() => parse.mockRestore());
  for (let sent = 0; sent < 20; sent++) {
    const incoming = new IncomingMessage(new Socket());
    incoming.headers["content-length"] = String(body.length);
    uploads.begin(incoming, () => void done++);
    incoming.push(body);
    incoming.push(null);
  }
  await vi.waitFor(() => expect(done).toBe(20));
  expect(Math.max(...most)).toBe(1);
});
