// The list of sessions, loaded page by page and refreshed by its last page, and sample tasks.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SourceError } from "../../viewer/src/data/source.ts";
import { createSessionList, withText, type SessionRow } from "../../viewer/src/pages/sessions/session-list.ts";
import { sampleTask } from "../../viewer/src/pages/sessions/task-sample.ts";
import { relativeTime } from "../../viewer/src/pages/sessions/relative-time.ts";

const row = (session: string, version = 1): SessionRow => ({ session, version, opened: 0, touched: 0 });

/** A server with sessions in opening order, and the requests it received. */
function server(size: number) {
  const sessions: SessionRow[] = [];
  const asked: (string | undefined)[] = [];
  const ask = async (after: string | undefined) => {
    asked.push(after);
    const at = after === undefined ? 0 : sessions.findIndex(({ session }) => session === after) + 1;
    if (after !== undefined && at === 0) throw new SourceError(404, "session_not_found", `there is no ${after}`);
    const page = sessions.slice(at, at + size);
    const isMore = sessions.length > at + size;
    return { sessions: page.map((known) => ({ ...known })), next: isMore ? (page.at(-1)?.session ?? null) : null };
  };
  return { sessions, asked, ask };
}

const idsOf = (rows: SessionRow[]): string[] => rows.map(({ session }) => session);

describe("a list of sessions", () => {
  test("has the newest first, and knows whether it is complete", async () => {
    const { sessions, ask } = server(2);
    sessions.push(row("a"), row("b"), row("c"));
    const list = createSessionList(ask);
    expect(list.isComplete()).toBe(false);
    await list.read();
    expect([idsOf(list.newest()), list.isComplete()]).toEqual([["b", "a"], false]);
    await list.read();
    expect([idsOf(list.newest()), list.isComplete()]).toEqual([["c", "b", "a"], true]);
  });

  test("reloads only its last page and finds new sessions there", async () => {
    const { sessions, asked, ask } = server(2);
    sessions.push(row("a"), row("b"), row("c"));
    const list = createSessionList(ask);
    await list.read();
    await list.read();
    sessions[2] = row("c", 9);
    sessions.push(row("d"), row("e"));
    await list.read();
    expect(list.newest()[1]).toEqual(row("c", 9));
    await list.read();
    expect(idsOf(list.newest())).toEqual(["e", "d", "c", "b", "a"]);
    expect(asked).toEqual([undefined, "b", "b", "d"]);
  });

  test("keeps only the newest pages if limited, and continues from there", async () => {
    const { sessions, asked, ask } = server(2);
    sessions.push(row("a"), row("b"), row("c"), row("d"), row("e"));
    const list = createSessionList(ask, 2);
    for (let page = 0; page < 3; page++) await list.read();
    sessions.push(row("f"));
    await list.read();
    expect([idsOf(list.newest()), asked]).toEqual([
      ["f", "e", "d", "c"],
      [undefined, "b", "d", "d"],
    ]);
  });

  test("starts over if the store has deleted the session it continues after", async () => {
    const { sessions, ask } = server(2);
    sessions.push(row("a"), row("b"), row("c"));
    const list = createSessionList(ask);
    await list.read();
    sessions.splice(0, 2);
    await list.read();
    expect([idsOf(list.newest()), list.isComplete()]).toEqual([["c"], true]);
  });

  test("has every session once, in any order of arrival while it loads", async () => {
    const opened = fc.array(fc.nat({ max: 5 }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(opened, fc.integer({ min: 1, max: 4 }), async (steps, size) => {
        const { sessions, ask } = server(size);
        const list = createSessionList(ask);
        for (const more of steps) {
          for (let one = 0; one < more; one++) sessions.push(row(String(sessions.length)));
          await list.read();
        }
        do await list.read();
        while (!list.isComplete());
        expect(idsOf(list.newest())).toEqual(idsOf(sessions).reverse());
      }),
    );
  });
});

test("sessions are found by a part of their id, of their parent's id, or of their user", () => {
  const rows = [row("Abc"), { ...row("x"), parent: { session: "zABq", version: 2 } }, { ...row("y"), user: "Gabe" }];
  expect(idsOf(withText(rows, " ab "))).toEqual(["Abc", "x", "y"]);
  expect(idsOf(withText(rows, "bc"))).toEqual(["Abc"]);
  expect(withText(rows, "")).toBe(rows);
});

test("a sample task has the required fields, with their defaults", () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string" },
      size: { type: "integer", minimum: 3 },
      kind: { enum: ["a", "b"] },
      open: { type: "boolean", default: true },
      item: { $ref: "#/$defs/item" },
      note: { type: "string" },
      either: { anyOf: [{ type: "null" }, { type: "string" }] },
    },
    required: ["name", "size", "kind", "open", "item", "either", "unknown"],
    $defs: { item: { type: "object", properties: { inner: { $ref: "#/$defs/item" } }, required: ["inner"] } },
  };
  const sample = sampleTask(schema) as { item: object };
  expect({ ...sample, item: undefined }).toEqual({
    name: "text",
    size: 3,
    kind: "a",
    open: true,
    item: undefined,
    either: null,
    unknown: {},
  });
  // The schema contains itself, and the sample is finite.
  expect(JSON.stringify(sample.item)).toContain('{"inner":{"inner":');
  expect(sampleTask(undefined)).toEqual({});
});

test("a sample task has every field if none is required, with readable numbers", () => {
  const whole = { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
  const schema = { type: "object", properties: { initial: { ...whole, default: 3 }, expected: whole } };
  expect(sampleTask(schema)).toEqual({ initial: 3, expected: 1 });
});

test("times are shown relative to now", () => {
  const now = Date.UTC(2026, 4, 10, 12);
  const said = [0, 2, 50, 600, 5 * 3600, 10 * 86400].map((seconds) => relativeTime(now - seconds * 1000, now));
  expect(said).toEqual(["just now", "just now", "50 s ago", "10 min ago", "5 h ago", "2026-04-30"]);
  expect(relativeTime(now + 5000, now)).toBe("just now");
});
