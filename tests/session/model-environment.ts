// The environment of the random programs: one tool of each kind, each with a way to fail.
import { setImmediate as soon } from "node:timers/promises";
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

/** Adding this number fails after the change. */
export const unlucky = 13;

/** How often the external tool has run, by session. */
export const sent = new Map<string, number>();

const by = z.object({ by: z.number().int() });

function complain(amount: number): void {
  if (amount === unlucky) throw new Error("unlucky");
}

function ledgerOf(unseeded: "defaults" | "reject") {
  return defineEnvironment({
    name: "ledger",
    unseeded,
    state: z.object({
      count: z.number().int().default(0),
      notes: z.array(z.string()).default([]),
      items: z.record(z.string(), z.object({ n: z.number() })).default({}),
    }),
    task: z.object({ start: z.number().int() }),
    seed: async ({ task }) => {
      await soon();
      return { count: task.start };
    },
    tools: {
      add: tool({
        description: "Add to the count.",
        input: by,
        run: ({ state }, { by }) => {
          state.count += by;
          complain(by);
          return state.count;
        },
      }),
      note: tool({
        description: "Write the count down, with an await between reading and writing.",
        input: by,
        run: async ({ state }, { by }) => {
          const { count, notes } = state;
          await soon();
          state.notes.push(`${count} ${by}`);
          complain(by);
          return notes.length;
        },
      }),
      put: tool({
        description: "Put an item under a key that is there already, is new, or goes away.",
        input: by,
        run: ({ state }, { by }) => {
          const key = by === 5 ? "__proto__" : `k${by}`;
          const before = Object.hasOwn(state.items, key) ? state.items[key]?.n : undefined;
          if (before === undefined) {
            Object.defineProperty(state.items, key, {
              value: { n: 1 },
              enumerable: true,
              writable: true,
              configurable: true,
            });
          } else if (before === 1) (state.items[key] as { n: number }).n++;
          else delete state.items[key];
          complain(by);
          return Object.keys(state.items).length;
        },
      }),
      say: tool({ description: "Say enough to make a snapshot due.", input: by, run: () => "x".repeat(9000) }),
      keep: tool({
        description: "Keep something that is not JSON.",
        input: by,
        run: ({ state }) => {
          state.count = -1;
          state.items["when"] = new Date() as never;
        },
      }),
      gather: tool({
        description: "Add to the count, beside others.",
        input: by,
        concurrent: true,
        run: async ({ state, update }, { by }) => {
          const seen = state.count;
          await soon();
          update((draft) => {
            draft.count += by;
            draft.notes.push("gathered");
            complain(by);
          });
          // The held value must not have changed.
          return seen === state.count ? seen : "moved";
        },
      }),
      send: tool({
        description: "Add to the count, and touch the world.",
        input: by,
        effects: "external",
        run: async ({ session, update }, { by }) => {
          sent.set(session, (sent.get(session) ?? 0) + 1);
          await soon();
          update((draft) => {
            draft.count += by;
          });
          complain(by);
          return "sent";
        },
      }),
    },
    verify: ({ state, task }) => state.count - task.start,
  });
}

export const ledger = ledgerOf("defaults");
export const strictLedger = ledgerOf("reject");
