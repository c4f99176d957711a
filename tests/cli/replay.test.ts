// holdfast replay: runs episodes again and compares them.
import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../e2e/serve-process.ts";
import { serveStore } from "../stores/http-server.ts";
import { collectCounter, collectTally, linesOf, newFolder, writeTally } from "./rollout-files.ts";

test("equal episodes are counted, from a file and from a store", async () => {
  const folder = await newFolder();
  const file = await collectCounter(folder, "random");
  const { code, stdout } = await run("replay", file, "--environment", "examples/counter");
  expect({ code, stdout }).toEqual({ code: 0, stdout: "10 episodes replayed: 10 identical\n" });
  const store = `sqlite:${join(folder, "random.db")}`;
  const all = await run("replay", "--store", store, "--environment", "examples/counter", "--json");
  expect(linesOf(all.stdout).at(-1)).toEqual({ same: 10, differs: 0, missing: 0 });
});

test("the first different event is named, and the exit code is 1", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  const file = await collectTally(folder, target);
  await writeTally(folder, { add: "state.count += by > 2 ? 30 : by" });
  const { code, stdout } = await run("replay", file, "--environment", target);
  expect(code).toBe(1);
  expect(stdout).toMatch(
    /^task 0, repeat 0, session \S+: event 4 \(tool.called add\) has a different outcome: recorded .*5.*, replayed .*32/m,
  );
  expect(stdout).toMatch(/\n2 episodes replayed: 0 identical, 2 differ\n$/);
});

test("missing sessions are reported, and so is a command without file or store", async () => {
  const folder = await newFolder();
  const file = await collectCounter(folder, "scripted");
  const { code, stdout } = await run("replay", file, "--environment", "examples/weather");
  expect(code).toBe(1);
  expect(stdout).toMatch(/: it belongs to counter, not to weather; choose another --environment or --store\n/);
  expect(stdout).toMatch(/0 identical, 10 missing from the store\n$/);
  const service = await serveStore();
  const store = service.url.replace("//", "//hidden@");
  const empty = await run("replay", "--store", store, "--environment", "examples/counter");
  await service.dispose();
  expect(empty.stderr).toBe(
    `cannot_load: ${service.url} has no episodes of counter; check the file, --store and --environment\n`,
  );
  expect((await run("replay", "--environment", "examples/counter")).stderr).toBe(
    "invalid_option: name a rollout file, or a store with --store\n",
  );
});
