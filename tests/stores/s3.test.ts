// The S3 store passes the shared cases on a server that checks every signature, and keeps its requests few.
import { mkdtempSync, rmSync } from "node:fs";
import { get as httpGet } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AwsV4Signer } from "aws4fetch";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { sign } from "../../src/stores/s3/client.ts";
import { locationOf } from "../../src/stores/s3/location.ts";
import { s3Store } from "../../src/stores/s3.ts";
import type { S3Options, S3Server } from "../../tools/servers/s3.mjs";
import { signatureOf, startS3 } from "../../tools/servers/s3.mjs";
import { manyRequests, runStoreCases } from "./run-cases.ts";

const credentials = { accessKeyId: "AKIDTEST", secretAccessKey: "secret" };
const shared = await startS3();
afterAll(() => shared.stop());
let prefixes = 0;

function open(server: S3Server, prefix = "p"): Store {
  return s3Store({ url: `s3://test/${prefix}?endpoint=${server.endpoint}`, credentials });
}

async function serverFor(options?: S3Options): Promise<S3Server> {
  const server = await startS3(options);
  onTestFinished(() => server.stop());
  return server;
}

function commitOf(session: string, version: number, key = `k${version}`): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body: `"${version + 1}"`, at: version, key }], ...heading };
}

async function grow(store: Store, session: string, version: number): Promise<void> {
  for (let at = 0; at < version; at++) expect(await store.append(commitOf(session, at))).toBe("ok");
}

// A prefix that must be encoded in paths, queries and signatures.
runStoreCases(
  "s3",
  () => {
    const prefix = `it's ü+&=/${prefixes++}`;
    return { open: () => open(shared, prefix.replaceAll("+", "%2B").replaceAll("&", "%26")) };
  },
  { long: manyRequests },
);

describe("signatures equal the examples in the AWS documentation", () => {
  const secretAccessKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
  const who = { region: "us-east-1", accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey };
  const host = "examplebucket.s3.amazonaws.com";
  const examples = [
    {
      name: "get an object",
      method: "GET",
      path: "/test.txt",
      body: "",
      headers: { range: "bytes=0-9" },
      signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    },
    {
      name: "put an object",
      method: "PUT",
      path: "/test%24file.text",
      body: "Welcome to Amazon S3.",
      headers: { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    },
    {
      name: "get a setting",
      method: "GET",
      path: "/?lifecycle",
      body: "",
      headers: {},
      signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    },
    {
      name: "list objects",
      method: "GET",
      path: "/?max-keys=2&prefix=J",
      body: "",
      headers: {},
      signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    },
  ];
  test.each(examples)("$name", async ({ method, path, body, headers, signature }) => {
    const request = { method, url: `https://${host}${path}`, headers: headers as Record<string, string>, body };
    const signed = await sign(AwsV4Signer, who, request, new Map(), "20130524T000000Z");
    expect(signed["authorization"]).toContain(`Signature=${signature}`);
    const sent = { ...signed, host } as Record<string, string>;
    delete sent["authorization"];
    const scope = "20130524/us-east-1/s3/aws4_request";
    const signedHeaders = Object.keys(sent).sort();
    expect(signatureOf({ method, path, headers: sent, signedHeaders, secretAccessKey, scope })).toBe(signature);
  });
});

describe("the location", () => {
  const env = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "hush", AWS_REGION: "eu-west-3" };

  test("of an AWS bucket is a host; elsewhere, and with dots in its name, a path", () => {
    expect(locationOf("s3://bucket/a/b", undefined, { ...env, AWS_SESSION_TOKEN: "t" })).toEqual({
      name: "s3://bucket/a/b",
      origin: "https://bucket.s3.eu-west-3.amazonaws.com",
      bucketPath: "",
      prefix: "a/b/",
      region: "eu-west-3",
      accessKeyId: "id",
      secretAccessKey: "hush",
      sessionToken: "t",
    });
    const minio = { ...env, AWS_ENDPOINT_URL: "http://minio:9000/s3/" };
    expect(locationOf("s3://bucket?region=x", undefined, minio)).toMatchObject({
      origin: "http://minio:9000",
      bucketPath: "/s3/bucket",
      prefix: "",
      region: "x",
    });
    expect(locationOf("s3://a.b/p", undefined, env).bucketPath).toBe("/a.b");
    const host = locationOf("s3://bucket?endpoint=https://s3.example.com&style=host", undefined, env);
    expect(host.origin).toBe("https://bucket.s3.example.com");
  });

  test.each([
    ["not a URL", /s3:\/\/bucket\/prefix/],
    ["http://bucket/x", /s3:\/\/bucket\/prefix/],
    ["s3://id:hush@bucket/x", /set credentials with/],
    ["s3://bucket?styles=path", /unknown parameter styles/],
    ["s3://bucket?style=cow", /`style`/],
    ["s3://bucket?endpoint=minio", /endpoint must look like/],
    ["s3://bucket?endpoint=https://id:hush@minio", /set credentials with/],
  ])("%s is refused, without showing a secret", (url, message) => {
    expect(() => locationOf(url, undefined, env)).toThrow(message);
    expect(() => locationOf(url, undefined, env)).not.toThrow(/hush/);
  });

  test("needs credentials", () => {
    expect(() => locationOf("s3://bucket", undefined, {})).toThrow(/AWS_ACCESS_KEY_ID/);
  });
});

describe("answers of the service", () => {
  test("a bucket is found by the host too", async () => {
    const server = await serverFor();
    const store = open(server);
    await grow(store, "a", 1);
    await store.close();
    const host = `test.localhost:${server.port}`;
    const request = { method: "GET", url: `http://${host}/p/heads/a`, headers: {}, body: "" };
    const headers = await sign(AwsV4Signer, { ...credentials, region: "us-east-1" }, request, new Map());
    const status = await new Promise((resolve) => {
      const path = { host: "127.0.0.1", port: server.port, path: "/p/heads/a" };
      httpGet({ ...path, headers: { ...headers, host } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
    });
    expect(status).toBe(200);
  });

  test.each<[string, Partial<Parameters<typeof s3Store>[0]> & { bucket?: string; region?: string }, RegExp]>([
    ["a wrong secret", { credentials: { ...credentials, secretAccessKey: "hush" } }, /SignatureDoesNotMatch/],
    ["an unknown key", { credentials: { ...credentials, accessKeyId: "other" } }, /the credentials are wrong/],
    ["a bucket that is not there", { bucket: "none" }, /does not have this bucket .*create it first/],
    ["another region", { region: "mars" }, /another region than mars.*expecting 'us-east-1'/],
  ])(
    "%s is store_failed at once, with the reason",
    async (_, { bucket = "test", region = "us-east-1", ...given }, message) => {
      const url = `s3://${bucket}/p?endpoint=${shared.endpoint}&region=${region}`;
      const store = s3Store({ url, credentials, ...given });
      const verbs = [store.append(commitOf("a", 0)), store.read("a", 0), store.count("shop"), store.delete("a")];
      for (const outcome of await Promise.allSettled(verbs)) {
        expect(outcome).toMatchObject({ status: "rejected", reason: { code: "store_failed" } });
        expect((outcome as PromiseRejectedResult).reason.message).toMatch(message);
        expect((outcome as PromiseRejectedResult).reason.message).not.toContain("hush");
      }
      await store.close();
    },
  );

  test("a service that ignores conditions is refused before anything is written to it", async () => {
    const server = await serverFor({ ignoresConditions: true });
    const store = open(server);
    await expect(store.append(commitOf("a", 0))).rejects.toMatchObject({ code: "store_failed" });
    await expect(store.delete("a")).rejects.toThrow(/ignores If-None-Match or If-Match/);
    expect([...server.objects.keys()].filter((key) => !key.includes("/probes/"))).toEqual([]);
    await store.close();
  });

  test("objects of a newer Holdfast, and foreign objects, are refused and left unchanged", async () => {
    const server = await serverFor();
    const store = open(server);
    await grow(store, "a", 1);
    await grow(store, "b", 1);
    const [a, b] = [server.objects.get("p/heads/a")!, server.objects.get("p/heads/b")!];
    server.objects.set("p/heads/a", {
      ...a,
      etag: '"1"',
      body: Buffer.from(String(a.body).replace('"format":1', '"format":2')),
    });
    server.objects.set("p/heads/b", { ...b, etag: '"2"', body: Buffer.from("hello\nyou") });
    await expect(store.read("a", 0)).rejects.toMatchObject({ code: "store_newer" });
    await expect(store.append(commitOf("a", 1))).rejects.toMatchObject({ code: "store_newer" });
    await expect(store.load("b")).rejects.toMatchObject({ code: "store_corrupt" });
    await store.close();
  });
});

describe("GROWTH: the number of requests", () => {
  test("is one for a commit to a cached session, and small for loading a session of 10,000 entries", async () => {
    const server = await serverFor();
    const store = open(server);
    await grow(store, "a", 3);
    server.requests.length = 0;
    for (let version = 3; version < 23; version++) await store.append(commitOf("a", version));
    expect(server.requests.map(({ method, key }) => `${method} ${key}`)).toEqual(Array(20).fill("PUT p/heads/a"));

    for (let version = 0; version < 10_000; version += 20) {
      const entries = Array.from({ length: 20 }, (_, at) => ({
        body: `"${version + at + 1}"`,
        at: 1,
        key: `k${version + at}`,
      }));
      const snapshot = { snapshot: { version: version + 20, body: `"at ${version + 20}"` } };
      const commit = { ...commitOf("long", version), entries: entries as unknown as Commit["entries"] };
      expect(await store.append({ ...commit, ...(version % 1000 === 500 && snapshot) })).toBe("ok");
    }
    await store.close();
    const head = server.objects.get("p/heads/long")!;
    expect(head.body.length).toBeLessThan(20_000);

    const asked = async <T>(run: (store: Store) => Promise<T>): Promise<[T, number]> => {
      const fresh = open(server);
      server.requests.length = 0;
      const result = await run(fresh);
      const count = server.requests.length;
      await fresh.close();
      return [result, count];
    };
    const [newest, gets] = await asked((store) => store.load("long"));
    expect(newest?.snapshot).toMatchObject({ version: 9520, body: '"at 9520"' });
    expect(newest?.entries.map(({ body }) => body)).toEqual(Array.from({ length: 480 }, (_, at) => `"${at + 9521}"`));
    expect(gets).toBeLessThan(20);
    const [middle, getsInTheMiddle] = await asked((store) => store.load("long", 5525));
    expect(middle?.snapshot?.version).toBe(5520);
    expect(middle?.entries).toHaveLength(5);
    expect(getsInTheMiddle).toBeLessThan(8);
    const [found, getsToFind] = await asked((store) => store.find("long", "k77"));
    expect(found).toMatchObject({ version: 78, body: '"78"' });
    expect(getsToFind).toBeLessThan(40);
    const [all] = await asked((store) => store.read("long", 0));
    expect(all?.map(({ body }) => body)).toEqual(Array.from({ length: 10_000 }, (_, at) => `"${at + 1}"`));
    const [again] = await asked((store) => store.append(commitOf("long", 10_000, "k4711")));
    expect(again).toBe("duplicate");
  });

  test("of a count depends on the changes since the last one", async () => {
    const server = await serverFor();
    const store = open(server);
    for (let index = 0; index < 30; index++) await grow(store, `s${index}`, 1);
    expect(await store.count("shop")).toBe(30);
    await store.append({ ...commitOf("s7", 1), heading: { environment: "shop", opened: 1, ended: "closed" } });
    server.requests.length = 0;
    expect(await store.count("shop")).toBe(29);
    expect(server.requests).toHaveLength(2);
    await store.close();
  });
});

test.each([false, true])(
  "CLEANUP: no object of a deleted session is left (deletes without conditions: %s)",
  async (plain) => {
    const server = await serverFor({ ignoresDeleteConditions: plain });
    const store = open(server);
    await grow(store, "a", 600);
    await store.append({
      ...commitOf("a", 600),
      snapshot: { version: 601, body: JSON.stringify("x".repeat(100_000)) },
    });
    await grow(store, "b", 1);
    await store.append(commitOf("a", 601), commitOf("b", 1));
    expect(await store.delete("a")).toBe(true);
    await store.close();
    const left = [...server.objects.keys()].filter((key) => !key.endsWith("-b") && !key.endsWith("/b"));
    // Without conditional deletes, a mark of a hundred bytes stays, so that a log opened since cannot be lost.
    expect(left).toEqual(plain ? ["p/heads/a"] : []);
  },
);

test("DURABLE: the same store finds a restarted server", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-s3-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const first = await startS3({ folder });
  const store = open(first);
  await grow(store, "a", 40);
  await first.stop();
  const waiting = store.append(commitOf("a", 40));
  const second = await serverFor({ folder, port: first.port });
  expect(await waiting).toBe("ok");
  expect(await store.read("a", 39)).toHaveLength(2);
  expect(second.objects.size).toBeGreaterThan(0);
  await store.close();
});
