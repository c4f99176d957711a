// Makes the shared resources of a test run on first use, and removes them after the run. Tests use shared.ts.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { build, findOld, root } from "../tools/build.mjs";
import { startPostgres } from "../tools/servers/postgres.mjs";
import { startRedis } from "../tools/servers/redis.mjs";
import type { Shared } from "./shared.ts";

type End = () => Promise<unknown>;

const makers: { [name in Shared]: (ends: End[]) => Promise<string> } = {
  // `npm run check` reports type errors.
  async dist() {
    const { failed, output } = await build(findOld());
    if (failed.includes("viewer")) throw new Error(output);
    return join(root, "dist");
  },
  async package(ends) {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-packed-"));
    ends.push(() => rm(folder, { recursive: true, force: true }));
    const args = ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder];
    const { stdout } = await promisify(execFile)("npm", args, { cwd: root });
    return join(folder, stdout.trim());
  },
  // Tests that stop or pause a server start their own.
  async redis(ends) {
    const server = await startRedis();
    ends.push(() => server.stop());
    return server.url;
  },
  async postgres(ends) {
    const server = await startPostgres({ settings: { fsync: "off" } });
    ends.push(() => server.stop());
    return server.url;
  },
};

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const ends: End[] = [];
  const made = new Map<Shared, Promise<string>>();
  const make = (name: Shared): Promise<string> => {
    const value =
      made.get(name) ?? (name === "package" ? make("dist") : Promise.resolve()).then(() => makers[name](ends));
    made.set(name, value);
    return value;
  };
  const server = createServer((request, response) => {
    // A connection that was idle for some seconds may close just when a test uses it again.
    response.setHeader("connection", "close");
    make(request.url?.slice(1) as Shared).then(
      (value) => response.end(value),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  project.provide("shared", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  // In watch mode the sources have changed.
  project.onTestsRerun(() => {
    made.delete("dist");
    made.delete("package");
  });
  return async () => {
    server.closeAllConnections();
    server.close();
    await Promise.allSettled(made.values());
    await Promise.all(ends.map((end) => end()));
  };
}
