// A collection is killed repeatedly and resumes each time: nothing is lost, repeated or asked twice.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { TaskRow } from "../../src/core/rollout.ts";
import { randomStream } from "../../src/core/random.ts";
import { newWorld, taskLine, type World } from "../cli/collect-process.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { runs } from "../runs.ts";

const [repeats, concurrency] = [4, 8];

const flags = (name: string): string[] => [
  "--out",
  `${name}.jsonl`,
  "--repeats",
  String(repeats),
  "--concurrency",
  String(concurrency),
  "--seed",
  "7",
  "--json",
  "--resume",
];

const outcomesOf = (rows: TaskRow[]): string[] =>
  rows.map((row) => `${keysOf([row])[0]}: ${String(row["reward"])} ${String(row["total"])}`).sort();

/** Starts it, waits for a number of questions and a moment more, and kills it. */
async function killAfter(world: World, name: string, asked: number, moment: number): Promise<void> {
  const before = world.calls().length;
  const child = await world.start(flags(name), { PAUSE: "6" });
  await child.printed('"started"');
  while (child.process.exitCode === null && world.calls().length - before < asked) await sleep(5);
  await sleep(moment);
  child.process.kill("SIGKILL");
  const { code, stderr } = await child.ended;
  if (code !== null) throw new Error(`it ended before it was killed: ${stderr}`);
}

// `most` is the number of questions before a kill. All kills together take about half of the questions.
for (const { tasks, kills, most, tags } of [
  { tasks: 10, kills: 3, most: 30, tags: [] },
  { tasks: 100, kills: 20, most: 100, tags: ["full"] },
]) {
  const rollouts = tasks * repeats;
  const answers = rollouts * 5;
  const slowTest = { tags, timeout: 180_000 * runs(1) };
  test(
    `RESUME: after ${kills} kills at random moments, ${rollouts} rollouts give the same rows, and no answer is requested again`,
    slowTest,
    async () => {
      const world = newWorld(Array.from({ length: tasks }, (_, n) => taskLine(n)));
      const whole = await (await world.start(flags("whole"))).ended;
      expect(whole).toMatchObject({ code: 0 });
      expect(world.calls()).toHaveLength(answers);
      for (let round = 0; round < runs(1); round++) {
        const seed = Date.now();
        console.log(`seed of the kills: ${seed}`);
        const name = `killed-${round}`;
        const before = world.calls().length;
        const random = randomStream(seed, 0);
        for (let kill = 0; kill < kills; kill++) {
          await killAfter(world, name, Math.floor(random() * most), random() * 12);
        }
        const last = await (await world.start(flags(name))).ended;
        expect(last).toMatchObject({ code: 0 });
        const rows = rowsOf(world.at(`${name}.jsonl`));
        expect(rows).toHaveLength(rollouts);
        expect(new Set(keysOf(rows)).size).toBe(rollouts);
        expect(outcomesOf(rows)).toEqual(outcomesOf(rowsOf(world.at("whole.jsonl"))));
        expect(new Set(rows.map((row) => row["reward"]))).toEqual(new Set([0, 1]));
        expect(keysOf(rowsOf(world.at(`${name}_materialized_inputs.jsonl`)))).toEqual(keysOf(rows));
        expect(rowsOf(world.at(`${name}_failures.jsonl`))).toEqual([]);
        const again = world.calls().length - before - answers;
        console.log(`${again} questions were asked again, after ${kills} kills with up to ${concurrency} under way`);
        expect(again).toBeGreaterThanOrEqual(0);
        expect(again).toBeLessThanOrEqual(kills * concurrency);
      }
    },
  );
}
