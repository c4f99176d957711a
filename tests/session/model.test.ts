// Random programs on the engine and on a trivial model at once, on every store: after every step they agree.
import fc from "fast-check";
import { createSessions, HoldfastError, memoryStore, type Sessions, type Store } from "holdfast";
import { describe, expect, test } from "vitest";
import { everyStore } from "../every-store.ts";
import { runs } from "../runs.ts";
import { ledger } from "./model-environment.ts";
import { programs, runProgram, type Program } from "./model-program.ts";

for (const kind of everyStore) {
  const often = kind.persistent ? 12 : 150;

  describe(kind.name, { tags: kind.tags }, () => {
    test.each([
      ["large", undefined],
      ["of one session", { sessions: 1 }],
      ["of no session", { sessions: 0 }],
      ["of one byte", { bytes: 1 }],
    ])(
      "ISOLATION, SERIAL, ONCE, SEED, FORK, PURE-VERIFY, REPLAY: any program, by three engines with a cache %s, agrees with the model",
      async (_, cache) => {
        await fc.assert(
          fc.asyncProperty(programs(20), (program) => runProgram(program, kind, cache)),
          { numRuns: runs(often) },
        );
      },
    );

    test("FORK, ISOLATION: in any tree of forks, parents and children never affect each other", async () => {
      const tree = programs(25, { fork: 5, call: 6, rewind: 1, seed: 1, close: 1 });
      await fc.assert(
        fc.asyncProperty(tree, (program) => runProgram(program, kind, undefined)),
        { numRuns: runs(often) },
      );
    });
  });
}

test("ONCE, SERIAL: calls that are retried until they are answered are applied once each, however the store fails", async () => {
  const fault = fc.constantFrom("none", "before", "after");
  await fc.assert(
    fc.asyncProperty(
      fc.infiniteStream(fault),
      fc.array(fc.nat(1), { minLength: 1, maxLength: 8 }),
      async (faults, who) => {
        const inner = memoryStore();
        const fail = (): never => {
          throw new HoldfastError("store_failed", "on purpose");
        };
        const append: Store["append"] = async (commit) => {
          const { value } = faults.next();
          if (value === "before") fail();
          const result = await inner.append(commit);
          return value === "after" ? fail() : result;
        };
        const [one, two] = [
          { ...inner, append },
          { ...inner, append },
        ].map((store) => createSessions({ environment: ledger, store })) as [
          Sessions<typeof ledger>,
          Sessions<typeof ledger>,
        ];
        const { session } = await createSessions({ environment: ledger, store: inner }).open({ task: { start: 0 } });
        await Promise.all(
          who.map(async (engine, index) => {
            const call = async (): Promise<boolean> => {
              const tool = index % 3 === 0 ? "gather" : "add";
              const calling = (engine === 0 ? one : two).call(
                session,
                tool,
                { by: 100 ** (index % 4) },
                { call: `${index}` },
              );
              return calling.then(
                ({ ok }) => ok,
                () => false,
              );
            };
            while (!(await call()));
          }),
        );
        const sum = who.reduce((sum, _, index) => sum + 100 ** (index % 4), 0);
        expect(await one.state(session)).toMatchObject({ count: sum });
        expect(await two.replay(session)).toEqual({ same: true, events: who.length + 2 });
      },
    ),
    { numRuns: runs(50) },
  );
});

describe("a broken store is found by a short program", () => {
  /** The smallest program that fails. */
  async function smallest(wrap: (store: Store) => Store): Promise<Program["turns"]> {
    const kind = { ...everyStore[0]! };
    const property = fc.asyncProperty(programs(20), (program) => runProgram(program, kind, undefined, wrap));
    const { failed, counterexample } = await fc.check(property, { numRuns: 2000, seed: 1 });
    expect(failed).toBe(true);
    return counterexample![0].turns;
  }

  test("if it says ok to a commit it refused", async () => {
    const turns = await smallest((store) => ({
      ...store,
      append: async (commit) => {
        const result = await store.append(commit);
        return result === "conflict" ? "ok" : result;
      },
    }));
    expect(turns.flat().length, JSON.stringify(turns)).toBeLessThanOrEqual(3);
  });

  test("if it forgets the call ids it has seen", async () => {
    const turns = await smallest((store) => ({
      ...store,
      append: (commit) =>
        store.append({
          ...commit,
          entries: commit.entries.map(({ body, at }) => ({ body, at })) as typeof commit.entries,
        }),
      find: async () => undefined,
    }));
    expect(turns.flat().length, JSON.stringify(turns)).toBeLessThanOrEqual(3);
  });
});
