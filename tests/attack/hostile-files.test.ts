// Damaged database files: a session is read, or refused with a code; nothing else is thrown. tests/stores/sqlite.test.ts has files of
// other programs and versions, tests/rollout/output*.test.ts torn collections.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSessions, isHoldfastError } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";
import { expect, onTestFailed, onTestFinished, test } from "vitest";
import { between, pick, randomStream } from "../../src/core/random.ts";
import { counter } from "../session/counter.ts";
import { attacks, lasting, report } from "./size.ts";

test("a damaged SQLite file gives the session or a coded refusal", lasting(30), async () => {
  const seed = Math.floor(Math.random() * 1e9);
  onTestFailed(() => console.log(`seed ${seed}`));
  const random = randomStream(seed, 0);
  const folder = await mkdtemp(join(tmpdir(), "holdfast-attack-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "whole.db");
  const store = sqliteStore({ file });
  const sessions = createSessions({ environment: counter, store });
  const { session } = await sessions.open({ task: { start: 0, goal: 40 } });
  for (let n = 0; n < 40; n++) await sessions.call(session, "add", { by: 1 }, { call: `call ${n}` });
  await sessions.stop();
  await store.close();
  const whole = await readFile(file);

  const counts = { files: 0, refused: 0, read: 0 };
  for (; counts.files < attacks(2_000); counts.files++) {
    const damaged = Buffer.from(whole);
    const kind = pick(random, ["cut", "zeros", "noise", "head"] as const);
    const at = kind === "head" ? between(random, 0, 99) : between(random, 0, damaged.length - 1);
    const end = Math.min(damaged.length, at + between(random, 1, kind === "head" ? 4 : 4_096));
    for (let n = at; n < end; n++) damaged[n] = kind === "zeros" ? 0 : between(random, 0, 255);
    const path = join(folder, `damaged-${counts.files}.db`);
    await writeFile(path, kind === "cut" ? whole.subarray(0, at) : damaged);
    try {
      const broken = sqliteStore({ file: path });
      const reader = createSessions({ environment: counter, store: broken });
      try {
        await reader.state(session);
        await reader.call(session, "add", { by: 1 }, { call: "call 3" });
        counts.read++;
      } finally {
        await reader.stop();
        await broken.close();
      }
    } catch (thrown) {
      if (!isHoldfastError(thrown)) throw thrown;
      expect(thrown.code, thrown.message).not.toBe("internal");
      counts.refused++;
    }
    await rm(path, { force: true });
  }
  report("hostile files", counts);
});
