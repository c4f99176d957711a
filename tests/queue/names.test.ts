// The names of workers and queues, in Redis and in messages.
import { expect, test } from "vitest";
import { queueAddress } from "../../src/queue/connection.ts";
import { formatName, parseName, shownName } from "../../src/queue/worker-name.ts";

test.each([
  ["redis://:geheim@h:1/2?prefix=x&expire=9", "'redis://:PASSWORD@h:1/2?prefix=x&expire=9'"],
  ["rediss://me:geheim%40@h", "rediss://USER:PASSWORD@h"],
  ["redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2"],
])("%s is printed without its password", (url, typed) => {
  expect(queueAddress(url).typed).toBe(typed);
});

test("the name of a worker is parsed as it was written", () => {
  const worker = { host: "gpu-1.lab", pid: 42, since: 1_700_000_000_000, concurrency: 32 };
  expect(parseName(`{x}:cm9s:w:${formatName(worker)}`)).toEqual(worker);
  expect(parseName(formatName({ ...worker, host: "a b/c:d" }))?.host).toBe("a_b_c_d");
  expect(shownName(formatName(worker))).toBe("gpu-1.lab:42");
  expect(parseName("{x}:cm9s")).toBeUndefined();
});
