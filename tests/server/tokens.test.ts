// Session tokens: they cannot be forged, keys rotate, and all replicas on a store share one key.
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createTokens, keysFromSecret, keysFromStore } from "../../src/server/tokens.ts";
import { runs } from "../runs.ts";
import { onEveryStore } from "../session/engine.ts";

const key = "a key for tests that is long enough";
const other = "another key that is as long as that";

test("TOKEN: a token returns its value, whatever it is, and has only safe characters", () => {
  const tokens = createTokens([key]);
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (value) => {
      const token = tokens.issue(value);
      expect(token).toMatch(/^[A-Za-z0-9_.-]+$/);
      expect(tokens.check(token)).toBe(value);
      expect(createTokens([key]).check(token)).toBe(value);
    }),
    { numRuns: runs(100) },
  );
});

test("TOKEN: forged, truncated, swapped, extended and changed tokens open nothing, also after the right one was seen", () => {
  const tokens = createTokens([key]);
  const one = tokens.issue("session-one");
  const two = tokens.issue("session-two");
  expect(tokens.check(one)).toBe("session-one");
  const [value = "", signature = ""] = one.split(".");
  const [otherValue = "", otherSignature = ""] = two.split(".");
  const forged = [
    "",
    ".",
    value,
    `${value}.`,
    `.${signature}`,
    signature,
    `${value}.${otherSignature}`,
    `${otherValue}.${signature}`,
    `${value}.${createHmac("sha256", "").update(value).digest("base64url")}`,
    `${value}.${createHmac("sha256", key).update(value).digest("base64url")}`,
    `${value}.${Buffer.alloc(32).toString("base64url")}`,
    `${one}=`,
    ` ${one}`,
    `${one}.${signature}`,
    createTokens([other]).issue("session-one"),
    "é".repeat(one.length),
    "\0".repeat(one.length),
  ];
  for (const token of forged) expect(tokens.check(token)).toBeUndefined();
  for (let length = 0; length < one.length; length++) expect(tokens.check(one.slice(0, length))).toBeUndefined();
  for (let at = 0; at < one.length; at++) {
    const changed = one[at] === "A" ? "B" : "A";
    expect(tokens.check(one.slice(0, at) + changed + one.slice(at + 1))).toBeUndefined();
  }
  expect(tokens.check(one)).toBe("session-one");
});

test("TOKEN: the first key signs, every key is accepted, and a removed key is not", () => {
  const before = createTokens([key]).issue("s");
  const rotated = createTokens(keysFromSecret(`${other},${key}`));
  expect(rotated.check(before)).toBe("s");
  const after = rotated.issue("s");
  expect(after).not.toBe(before);
  expect(createTokens([other]).check(after)).toBe("s");
  expect(createTokens([other]).check(before)).toBeUndefined();
});

test("the cache stays bounded, and evicted tokens are still accepted", () => {
  const tokens = createTokens([key]);
  const first = tokens.issue("s0");
  for (let at = 1; at < 110_000; at++) tokens.issue(`s${at}`);
  expect(tokens.check(first)).toBe("s0");
  expect(tokens.issue("s0")).toBe(first);
});

test("secrets are separated by commas, and short ones refused", () => {
  expect(keysFromSecret(` ${key} , ${other}`)).toEqual([key, other]);
  for (const secret of ["", "short", `${key},`, `${key},short`, "123456789012345"]) {
    expect(() => keysFromSecret(secret)).toThrow(expect.objectContaining({ code: "invalid_option" }));
  }
  expect(() => createTokens([])).toThrow(expect.objectContaining({ code: "invalid_option" }));
});

onEveryStore("TOKEN: the key in the store is the same after a restart", async ({ storage }) => {
  const [made] = await keysFromStore(storage.store);
  expect(Buffer.from(made ?? "", "base64url")).toHaveLength(32);
  const token = createTokens(await keysFromStore(storage.store)).issue("s");
  const reopened = await storage.reopen();
  expect(createTokens(await keysFromStore(reopened)).check(token)).toBe("s");
});

onEveryStore("TOKEN: replicas that race to make the key agree on one", async ({ storage }) => {
  const stores = [storage.store, await storage.second(), await storage.second()];
  const keys = await Promise.all([...stores, ...stores].map((store) => keysFromStore(store)));
  expect(new Set(keys.map((key) => key.join())).size).toBe(1);
});

onEveryStore("TOKEN: two stores have two keys, and an unreadable key is not replaced", async (place) => {
  const { store } = place.storage;
  const elsewhere = await place.kind.open();
  try {
    expect(await keysFromStore(store)).not.toEqual(await keysFromStore(elsewhere.store));
  } finally {
    await elsewhere.dispose();
  }
  await store.delete("holdfast:keys");
  const heading = { environment: "holdfast:keys", opened: 1 };
  await store.append({ session: "holdfast:keys", version: 0, entries: [{ body: "{}", at: 1 }], heading });
  await expect(keysFromStore(store)).rejects.toMatchObject({ code: "store_corrupt" });
});
