// The addresses that the Redis store accepts, and its messages about the others.
import { describe, expect, test } from "vitest";
import { redisStore } from "../../src/stores/redis.ts";
import { addressOf } from "../../src/stores/redis/address.ts";

describe("the address of a Redis store", () => {
  test.each([
    ["redis://localhost", { kind: "server", hosts: [{ host: "localhost", port: 6379 }], database: 0, tls: false }],
    ["redis://[::1]:7000/3", { hosts: [{ host: "::1", port: 7000 }], database: 3 }],
    ["rediss://:p%40ss@host:1", { tls: true, username: undefined, password: "p@ss", shown: "rediss://host:1" }],
    ["redis://me:x:y@host", { username: "me", password: "x:y", prefix: "holdfast", expire: 0, wait: 0 }],
    ["redis://host?prefix=a%20b&expire=1.5&wait=2", { prefix: "a b", expire: 1500, wait: 2, eviction: "refuse" }],
    [
      "redis+sentinel://a:1,b:2/main/4",
      {
        kind: "sentinel",
        hosts: [
          { host: "a", port: 1 },
          { host: "b", port: 2 },
        ],
        name: "main",
        database: 4,
      },
    ],
    ["redis+sentinel://a/main", { hosts: [{ host: "a", port: 26_379 }] }],
    [
      "redis+cluster://a:1,b",
      {
        kind: "cluster",
        hosts: [
          { host: "a", port: 1 },
          { host: "b", port: 6379 },
        ],
      },
    ],
  ])("%s", (url, expected) => {
    expect(addressOf({ url })).toMatchObject(expected);
  });

  test("an option beside the URL wins over the URL", () => {
    expect(addressOf({ url: "redis://host?prefix=a&wait=1", prefix: "b" })).toMatchObject({ prefix: "b", wait: 1 });
  });

  test.each([
    ["http://host", "must begin with redis://"],
    ["redis://", "has no host"],
    ["redis://host:0", "host:port"],
    ["redis://a,b", "several servers"],
    ["redis://host/x", "must be a database number"],
    ["redis+cluster://host/1", "only database 0"],
    ["redis+sentinel://host", "name the master"],
    ["redis://secret@host", "user:password"],
    ["redis://:%E0@host", "write % as %25"],
    ["redis://:pa/secret@host:6379", "percent-encoded, as in %40"],
    ["redis://:p@secret@host", "percent-encoded, as in %40"],
    ["redis://:pa?secret@host", "percent-encoded, as in %40"],
    ["redis+sentinel://:secret/x@host:1/main", "percent-encoded, as in %40"],
    ["redis://:secret@host?prefix=a@b", "percent-encoded, as in %40"],
    ["redis://:secret@host?colour=red", "unknown option `colour`"],
    ["redis://:secret@host?prefix={a}", "without braces"],
    ["redis://:secret@host?expire=soon", "`expire`"],
    ["redis://:secret@host?wait=-1", "`wait`"],
    ["redis://:secret@host?wait=1.5", "whole number"],
    ["redis://:secret@host?eviction=maybe", "`eviction`"],
  ])("%s is refused with a reason, and without the password", (url, reason) => {
    const error = (() => {
      try {
        return redisStore({ url });
      } catch (thrown) {
        return thrown as { code: string; message: string };
      }
    })();
    expect(error).toMatchObject({ code: "invalid_option", message: expect.stringContaining(reason) as string });
    expect((error as { message: string }).message).not.toContain("secret");
  });
});
