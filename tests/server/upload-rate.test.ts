// The rate of a body counts only while the server reads it.
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
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
