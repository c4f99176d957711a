// A step's writes, merged with those of calls that ran beside them.
import { expect, test } from "vitest";
import { WorkingState } from "../../src/session/working-state.ts";

const never = (): boolean => false;

test("SERIAL: a change to an object that another call replaced is refused, if it did not see the new object", () => {
  const order = { order: { id: 1, paid: false } };
  const working = new WorkingState(order, 0);
  const blind = working.draft();
  const replacing = working.draft();
  replacing.state["order"] = { id: 2, paid: false };
  working.keep(replacing, { call: "replace", needs: true });
  const seeing = working.draft();
  seeing.state["order"].sent = true;
  const counting = working.draft();
  counting.state["order"].count = 1;
  blind.state["order"].paid = true;
  working.keep(blind, { call: "blind", needs: true });
  working.keep(counting, { call: "count", needs: true });
  working.keep(seeing, { call: "see", needs: true });
  const { failed, delta } = working.placeOn(order, never);
  expect([...failed]).toEqual([["blind", "/order"]]);
  expect(delta.map(({ path }) => path)).toEqual(["/order", "/order/count", "/order/sent"]);
});
