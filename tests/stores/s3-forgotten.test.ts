// The S3 store with a session so large that its cache entry is evicted while it is written.
import { expect, onTestFinished, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { s3Store } from "../../src/stores/s3.ts";
import { startS3 } from "../../tools/servers/s3.mjs";

test("a commit to several is stored after its put was refused once", { tags: ["full"], timeout: 30_000 }, async () => {
  const server = await startS3();
  onTestFinished(() => server.stop());
  const credentials = { accessKeyId: "AKIDTEST", secretAccessKey: "secret" };
  const open = (): Store => s3Store({ url: `s3://test/p?endpoint=${server.endpoint}`, credentials });
  const first = open();
  // Two of them exceed the cache.
  const body = "x".repeat(35_000_000);
  for (const session of ["a", "b"]) {
    const heading = { environment: "shop", opened: 1 };
    expect(await first.append({ session, version: 0, entries: [{ body, at: 1 }], heading })).toBe("ok");
  }
  const refused = new Set<string>();
  const store = open();
  server.onRequest(({ method, key }) => {
    if (method !== "PUT" || !key.includes("heads/") || refused.has(key)) return undefined;
    refused.add(key);
    return { status: 412, code: "PreconditionFailed" };
  });
  const commitOf = (session: string): Commit => ({ session, version: 1, entries: [{ body: "{}", at: 2 }] });
  expect(await store.append(commitOf("a"), commitOf("b"))).toBe("ok");
  expect(refused.size).toBe(2);
  await Promise.all([first.close(), store.close()]);
});
