// Marks tell logs of the same length apart, whatever the clocks of their writers show.
import { describe, expect, test } from "vitest";
import type { Commit } from "../../src/core/store.ts";
import { everyStore } from "../every-store.ts";

const at = 1_700_000_000_000;
const opening = (session: string, ...bodies: string[]): Commit => ({
  session,
  version: 0,
  entries: bodies.map((body) => ({ body, at })) as Commit["entries"],
  heading: { environment: "shop", opened: at },
});

// HTTP services compare times, and so does memory, which never goes back to an older copy.
for (const kind of everyStore.filter(({ name }) => name !== "http" && name !== "memory")) {
  describe(`on ${kind.name}`, { tags: kind.tags }, () => {
    test("SERIAL: a log with the same times and other entries is another log", async () => {
      const storage = await kind.open();
      try {
        const { store } = storage;
        await store.append(opening("a", "1", "2"));
        const { mark } = (await store.load("a"))!;
        await store.delete("a");
        await store.append(opening("a", "1", "other"));
        const next: Commit = { session: "a", version: 2, seen: mark, entries: [{ body: "3", at }] };
        expect(await store.append(next)).toBe("conflict");
        expect(await store.delete("a", { version: 2, seen: mark })).toBe(false);
        const seen = (await store.load("a"))!.mark;
        expect(await store.append({ ...next, seen })).toBe("ok");
        // The same entries make the same mark, however they were committed.
        await store.append(opening("b", "1", "other", "3"));
        expect((await store.load("b"))!.mark).toBe((await store.load("a"))!.mark);
      } finally {
        await storage.dispose();
      }
    });
  });
}
