// The server of examples/http-store for tests: in this process, or as a process that can be stopped and killed.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createStoreServer } from "../../examples/http-store/server.ts";
import { freePort } from "../../tools/servers/ports.mjs";
import { root } from "../files.ts";

export interface Served {
  url: string;
  dispose(): Promise<void>;
}

/** Listens on a free port. */
export async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export async function hangUp(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

/** The server in this process, on a new file. */
export async function serveStore(options: { token?: string } = {}): Promise<Served> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-http-"));
  const server = createStoreServer({ file: join(folder, "store.db"), ...options });
  return {
    url: await listen(server),
    async dispose() {
      await hangUp(server);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface Process extends Served {
  /** Sends SIGKILL. It stays away until it is started again, at the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  signal(name: "SIGSTOP" | "SIGCONT"): void;
}

/** The server as a separate process, on a new file. */
export async function startStoreProcess(): Promise<Process> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-http-"));
  const jiti = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");
  let child: ChildProcess | undefined;
  let url = "";

  async function start(): Promise<void> {
    const port = url === "" ? String(await freePort()) : new URL(url).port;
    const args = [jiti, "examples/http-store/start.ts", join(folder, "store.db"), port];
    const { HOLDFAST_STORE_TOKEN: _, ...env } = process.env;
    const started = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    child = started;
    url = await new Promise<string>((resolve, reject) => {
      let printed = "";
      started.stderr.on("data", (chunk) => (printed += String(chunk)));
      started.stdout.on("data", (chunk) => {
        const [, found] = /listening on (\S+)\n/.exec((printed += String(chunk))) ?? [];
        if (found !== undefined) resolve(found);
      });
      started.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${printed}`)));
    });
  }

  async function kill(): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  await start();
  return {
    url,
    kill,
    start,
    signal: (name) => void child?.kill(name),
    async dispose() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
