// URLs of stores in records, logs and messages have no secrets.
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { formatSummary } from "../../src/cli/collect/summary.ts";
import { createMetrics } from "../../src/rollout/metrics.ts";
import { describeStore } from "../../src/rollout/store-location.ts";
import { hideSecrets } from "../../src/io/hide-secrets.ts";
import { openStore } from "../../src/stores/open.ts";

test.each([
  ["redis://:p@ss@host/0", "redis://host/0", "redis://:X@host/0"],
  ["redis://ann:pa:ss@host/0?prefix=a", "redis://ann@host/0?prefix=a", "redis://ann:X@host/0?prefix=a"],
  ["redis://pass@host", "redis://host", "redis://X@host"],
  ["redis+cluster://ann:pass@a:1,b:2", "redis+cluster://ann@a:1,b:2", "redis+cluster://ann:X@a:1,b:2"],
  ["postgres://user:pa@ss@host/db", "postgres://user@host/db", "postgres://user:X@host/db"],
  ["postgres://user:12/ss@host/db", "postgres://…@host/db", "postgres://…@host/db"],
  ["postgres://host/db?password=a&schema=s&sslpassword=b", "postgres://host/db?schema=s"],
  ["postgres://host/db?pass%77ord=a", "postgres://host/db"],
  ["postgres://host/db?password=a@b", "postgres://…"],
  ["https://tok@en@host/x", "https://host/x", "https://X@host/x"],
  ["https://host/x?X-Amz-Credential=a&api_key=b&AccessKey=c", "https://host/x"],
  ["s3://bucket/pre@fix?region=here", "s3://bucket/pre@fix?region=here"],
  ["s3://bucket/p?endpoint=https://key:pass@host", "s3://…@host"],
  ["user:pass@host", "user:host", "user:X@host"],
  ["pass@host", "…@host"],
])("%s is shown as %s", (url, bare, marked = bare) => {
  expect(hideSecrets(url)).toBe(bare);
  expect(hideSecrets(url, "X")).toBe(marked);
});

/** No character of these is in the rest of the URLs below, except marks that passwords often have. */
const characters = [..."QWXYZ789é漢😀!$'()*,;:@/?#[]{}|\\^~`\"<>&=+%-_. \t\n"];
const password = fc.string({ unit: fc.constantFrom(...characters), minLength: 4, maxLength: 24 });

const places: [name: string, urlWith: (password: string) => string][] = [
  ["Redis", (secret) => `redis://:${secret}@host/0`],
  ["Redis with a user", (secret) => `redis://ann:${secret}@host:6379/0?prefix=a`],
  ["a cluster", (secret) => `redis+cluster://ann:${secret}@one:1,two:2`],
  ["Postgres", (secret) => `postgres://ann:${secret}@host/db?schema=s`],
  ["HTTP", (secret) => `https://${secret}@host/store`],
  ["S3", (secret) => `s3://id:${secret}@bucket/runs`],
  ["an unknown store", (secret) => `mysql://ann:${secret}@host/db`],
  ["a query", (secret) => `postgres://host/db?password=${encodeURIComponent(secret)}&schema=s`],
  ["a query, unescaped", (secret) => `postgres://host/db?schema=s&token=${secret.replaceAll("&", "")}`],
];

test.each(places)("no part of a password of %s is recorded, printed or in a message", async (_, urlWith) => {
  const { argv } = process;
  onTestFinished(() => void (process.argv = argv));
  await fc.assert(
    fc.asyncProperty(password, async (secret) => {
      const url = urlWith(secret);
      const outputs = [describeStore(url, "out.jsonl").store!, againWith("--store", url), againWith(`--store=${url}`)];
      if (url.startsWith("mysql:")) outputs.push(await openStore(url).then(String, (thrown) => String(thrown.message)));
      for (const form of [secret, encodeURIComponent(secret)])
        for (const output of outputs) expect(partsIn(output, form)).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

const metrics = createMetrics().result();

function againWith(...flags: string[]): string {
  process.argv = ["node", "holdfast", "collect", ...flags];
  const collected = { before: 0, scored: 0, failed: 0, stopped: true };
  const options = { out: "out.jsonl", total: 1, reasons: { failures: [], errors: [] } };
  const text = formatSummary(collected, metrics, options);
  return text.slice(text.indexOf("Continue with: "));
}

/** Returns the parts of 4 characters that the text has. */
function partsIn(text: string, secret: string): string[] {
  const units = [...secret];
  const parts = units.map((__, at) => units.slice(at, at + 4).join("")).filter((part) => [...part].length === 4);
  return parts.filter((part) => text.includes(part));
}
