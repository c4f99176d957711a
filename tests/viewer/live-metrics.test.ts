// How the live page reads /metrics: text to samples, and two readings to rates.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMetrics } from "../../src/server/metrics.ts";
import { parseMetrics } from "../../viewer/src/data/metrics-text.ts";
import { computeServerMetrics, openSessions, type Reading } from "../../viewer/src/pages/live/server-metrics.ts";

describe("the text of /metrics", () => {
  test("reads everything the server writes", async () => {
    const metrics = createMetrics();
    metrics.tool('coun"ter\\\n', "add").outcomes.set("ok", 3);
    metrics.store.conflicts = 2;
    const samples = parseMetrics(await metrics.text());
    const find = (name: string) => samples.filter((sample) => sample.name === `holdfast_${name}`);
    expect(find("calls_total")).toEqual([
      { name: "holdfast_calls_total", labels: { environment: 'coun"ter\\\n', tool: "add", outcome: "ok" }, value: 3 },
    ]);
    expect(find("commit_conflicts_total")[0]?.value).toBe(2);
    expect(find("commit_seconds_bucket").at(-1)?.labels).toEqual({ le: "+Inf" });
    expect(find("process_resident_bytes")[0]?.value).toBeGreaterThan(1e6);
  });

  test("accepts any text in labels", () => {
    const label = fc.string({ unit: "grapheme" }).filter((text) => !/[\r\u2028\u2029]/.test(text));
    const escaped = (text: string): string => text.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n");
    fc.assert(
      fc.property(label, label, (a, b) => {
        const line = `x{a="${escaped(a)}",b="${escaped(b)}"} 1.5e3`;
        expect(parseMetrics(`# HELP x y\n${line}\n`)).toEqual([{ name: "x", labels: { a, b }, value: 1500 }]);
      }),
    );
  });

  test("skips lines that are not samples", () => {
    expect(parseMetrics("# TYPE x counter\n\nwhat is this\nx 1\ny +Inf 123\nz NaN")).toEqual([
      { name: "x", labels: {}, value: 1 },
      { name: "y", labels: {}, value: Infinity },
      { name: "z", labels: {}, value: NaN },
    ]);
  });
});

const reading = (at: number, text: string): Reading => ({ at, samples: parseMetrics(text) });
const calls = (ok: number, failed: number): string =>
  `holdfast_calls_total{environment="counter",tool="add",outcome="ok"} ${ok}
holdfast_calls_total{environment="counter",tool="add",outcome="tool_failed"} ${failed}`;

describe("metrics", () => {
  test("rates are per second between two readings, and errors count every outcome but ok", () => {
    const now = reading(3000, `${calls(30, 6)}\nholdfast_sessions_open{environment="counter"} 4`);
    const { environments } = computeServerMetrics(now, reading(1000, calls(10, 2)));
    expect(environments).toEqual([{ name: "counter", open: 4, calls: 12, errors: 2 }]);
    expect(openSessions(now.samples)).toEqual(new Map([["counter", 4]]));
  });

  test("a first reading has no rates, and a new counter starts at zero", () => {
    const first = reading(0, "holdfast_commit_conflicts_total 5");
    expect(computeServerMetrics(first).conflicts).toBeNull();
    expect(
      computeServerMetrics(reading(1000, `holdfast_commit_conflicts_total 5\n${calls(3, 0)}`), first),
    ).toMatchObject({
      conflicts: 0,
      environments: [{ calls: 3, errors: 0 }],
    });
  });

  test("after a restart rates are unknown, not negative", () => {
    const before = reading(0, `${calls(100, 5)}\nholdfast_commit_conflicts_total 7`);
    const smaller = computeServerMetrics(reading(1000, `${calls(1, 5)}\nholdfast_commit_conflicts_total 9`), before);
    const gone = computeServerMetrics(reading(1000, "holdfast_commit_conflicts_total 9"), before);
    expect([smaller.conflicts, smaller.environments[0]?.calls, gone.conflicts]).toEqual([null, null, null]);
  });

  test("no rate is ever negative or infinite", () => {
    const counts = fc.record({ ok: fc.nat(), failed: fc.nat(), conflicts: fc.nat(), at: fc.nat() });
    const read = ({ ok, failed, conflicts, at }: { ok: number; failed: number; conflicts: number; at: number }) =>
      reading(at, `${calls(ok, failed)}\nholdfast_commit_conflicts_total ${conflicts}`);
    fc.assert(
      fc.property(counts, counts, (before, now) => {
        const { conflicts, environments } = computeServerMetrics(read(now), read(before));
        for (const rate of [conflicts, environments[0]?.calls, environments[0]?.errors]) {
          expect(rate === null || (Number.isFinite(rate) && (rate ?? -1) >= 0)).toBe(true);
        }
      }),
    );
  });

  test("the latency covers the commits between the readings", () => {
    const spread = (fast: number, slow: number, sum: number): string =>
      `holdfast_commit_seconds_bucket{le="0.001"} ${fast}
holdfast_commit_seconds_bucket{le="0.01"} ${fast + slow}
holdfast_commit_seconds_bucket{le="+Inf"} ${fast + slow}
holdfast_commit_seconds_sum ${sum}
holdfast_commit_seconds_count ${fast + slow}`;
    const before = reading(0, spread(1000, 0, 0.5));
    const { commitMean, commitP99, commits } = computeServerMetrics(reading(1000, spread(1050, 50, 0.8)), before);
    expect(commits).toBe(100);
    expect(commitMean).toBeCloseTo(0.003);
    expect(commitP99).toBeCloseTo(0.001 + 0.009 * (49 / 50));
    expect(computeServerMetrics(reading(1000, spread(1000, 0, 0.5)), before)).toMatchObject({
      commitMean: null,
      commitP99: null,
    });
  });
});
