// What two changes to a state cost with a delta to show for it: our drafts, mutative's, and a clone of the state.
// This is the measurement behind docs/decisions/002.
import { create } from "mutative";
import { interleave } from "./measure.mjs";
import { costRow } from "./table.mjs";

// Not a public name: the only bench that looks inside.
const { createDraft } = await import(new URL("../dist/core/draft.js", import.meta.url).href);

/** @typedef {Record<string, { state: () => any, change: (state: any, value: number) => void }>} States */

/** @type {States} */
const states = {
  "a small state": {
    state: () => ({ count: 0, name: "a", items: [{ done: false }, { done: true }], user: { age: 3 } }),
    change(state, value) {
      state.count = value;
      state.user.age = value;
    },
  },
  "500 rows": {
    state: () => ({ rows: Array.from({ length: 500 }, (_, id) => ({ id, name: `row ${id}`, value: 0, tags: ["a"] })) }),
    change(state, value) {
      state.rows[value % 500].value = value;
      state.rows[(value * 7) % 500].name = "changed";
    },
  },
  "50,000 keys": {
    state: () => ({ cells: Object.fromEntries(Array.from({ length: 50_000 }, (_, id) => [`cell${id}`, id])) }),
    change(state, value) {
      state.cells[`cell${value % 50_000}`] = value;
      state.cells[`cell${(value * 7) % 50_000}`] = -value;
    },
  },
};

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  /** @type {import("./table.mjs").Row[]} */
  const rows = [];
  for (const [name, { state: make, change }] of Object.entries(states)) {
    progress(name);
    const state = make();
    let value = 1;
    let seen = 0;
    const repeated = (/** @type {number} */ count, /** @type {() => number} */ once) => ({
      run: () => {
        for (let index = 0; index < count; index++) {
          value++;
          seen += once();
        }
        return count;
      },
    });
    const large = name === "50,000 keys";
    const measured = await interleave(
      {
        ours: repeated(2000, () => {
          const draft = createDraft(state);
          change(draft.state, value);
          return draft.delta().length;
        }),
        mutative: repeated(large ? 3 : 1000, () => {
          const [, patches] = create(state, (draft) => change(draft, value), { enablePatches: true });
          return patches.length;
        }),
        // Gives no delta: the cheapest way to leave the state untouched if the handler throws.
        clone: repeated(large ? 1 : 100, () => {
          const copy = structuredClone(state);
          change(copy, value);
          return 1;
        }),
      },
      { rounds: quick ? 10 : 60 },
    );
    if (seen === 0) throw new Error("nothing was changed");
    const compared = { to: "our draft", reference: measured.ours };
    rows.push(
      costRow(`${name}: our draft`, measured.ours),
      costRow(`${name}: mutative`, measured.mutative, compared),
      costRow(`${name}: structuredClone, no delta`, measured.clone, compared),
    );
  }
  return { rows };
}
