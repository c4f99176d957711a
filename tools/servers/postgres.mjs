// Real Postgres and PgBouncer servers for tests and benches: on free ports, in temporary folders, stopped with this
// process.
import { execFile, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { freePort } from "./ports.mjs";

const run = promisify(execFile);
const host = "127.0.0.1";

/** Finds a program: on the path, or where Debian puts it. */
function find(program, hint) {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...(process.env.PATH ?? "").split(delimiter),
    ...versions.map((v) => join(debian, v, "bin")),
    "/usr/sbin",
  ];
  const found = folders.map((folder) => join(folder, program)).find((file) => existsSync(file));
  if (found === undefined) throw new Error(`there is no ${program} on this machine; type: apt-get install -y ${hint}`);
  return found;
}

/** The user to run as: neither server runs as root. */
function owner() {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}

function newFolder(name, { uid, gid }) {
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${name}-`));
  if (uid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** A process and its children, which Postgres puts into separate groups. */
function family(pid) {
  const rows = execFileSync("ps", ["-axo", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  const children = rows.map((row) => row.trim().split(/\s+/).map(Number)).filter(([, parent]) => parent === pid);
  return [pid, ...children.map(([child]) => child)];
}

function signal(pids, name) {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has ended already.
    }
  }
}

/**
 * Ends a server and removes its folder when this process has ended, however it did: the pipe to this little shell closes
 * then. A Postgres whose postmaster is gone ends by itself, unless it is paused.
 */
function guard(folder, pidFile) {
  const script = `cat > /dev/null; p=$(head -n 1 "$1"); for c in $p $(ps -axo pid=,ppid= | awk -v p="$p" '$2 == p { print $1 }'); do
    kill -KILL "$c"; done; sleep 0.2; rm -rf "$0"`;
  const shell = spawn("sh", ["-c", script, folder, pidFile], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  shell.unref();
  shell.stdin.unref?.();
  return () => signal([shell.pid], "SIGKILL");
}

/** Starts a program, and starts it again; `answers` throws until it does. */
async function supervise({ name, folder, pidFile, command, args, as, answers }) {
  const release = guard(folder, pidFile);
  let child;
  let output = "";
  let problem;

  function launch() {
    output = "";
    // In a folder that the server's user may enter.
    child = spawn(command, args, { ...as, cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (text) => (output = (output + text).slice(-4000)));
      stream.unref?.();
    }
    child.unref();
    child.once("error", (error) => (problem = error));
  }

  async function start() {
    problem = undefined;
    launch();
    for (const deadline = Date.now() + 20_000; ; await delay(20)) {
      try {
        await answers();
        return;
      } catch (error) {
        problem ??= Date.now() > deadline ? error : undefined;
        if (problem === undefined && child.exitCode === null) continue;
        // Shared memory of a killed server is released when its last child has ended.
        if (problem === undefined && output.includes("is still in use")) {
          launch();
          continue;
        }
        signal(family(child.pid), "SIGKILL");
        throw new Error(`${name} does not start: ${(problem ?? error).message}\n${output}`, { cause: error });
      }
    }
  }

  async function end(end) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const gone = new Promise((resolve) => child.once("exit", resolve));
    end();
    await gone;
  }

  const server = {
    get pid() {
      return child.pid;
    },
    /** Ends it at once, as a crash would. Its data stays, for `restart`. */
    kill: () =>
      end(() => {
        // So that it makes no more children.
        signal([child.pid], "SIGSTOP");
        signal(family(child.pid), "SIGKILL");
      }),
    pause() {
      signal([child.pid], "SIGSTOP");
      signal(family(child.pid), "SIGSTOP");
    },
    resume: () => signal(family(child.pid), "SIGCONT"),
    /** Stops it cleanly if it runs, and starts it on the same port and data. */
    async restart() {
      await end(() => signal([child.pid], "SIGINT"));
      await start();
    },
    /** Stops it for good and removes its folder. */
    async stop() {
      await server.kill();
      release();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  try {
    await start();
  } catch (error) {
    release();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    throw error;
  }
  return server;
}

/** Sends one query to a server, on a new connection. */
export async function ask(url, sql) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/**
 * Starts a Postgres of its own: a superuser `holdfast` whom it lets in without a password, and a database of that name.
 * To share one, hand out its `url`; a schema is a storage of its own, and `dropSchema` removes it.
 */
export async function startPostgres({ settings = {} } = {}) {
  const postgres = find("postgres", "postgresql");
  const initdb = find("initdb", "postgresql");
  const as = owner();
  const folder = newFolder("postgres", as);
  const data = join(folder, "data");
  const superuser = ["--username=holdfast", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"];
  try {
    await run(initdb, ["-D", data, ...superuser], { ...as, cwd: folder });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    throw error;
  }
  const port = await freePort();
  const all = { listen_addresses: host, port, unix_socket_directories: folder, ...settings };
  const args = ["-D", data, ...Object.entries(all).flatMap(([key, value]) => ["-c", `${key}=${value}`])];
  const maintenance = `postgres://holdfast@${host}:${port}/postgres`;
  const pidFile = join(data, "postmaster.pid");
  const server = await supervise({
    name: "postgres",
    folder,
    pidFile,
    command: postgres,
    args,
    as,
    answers: () => ask(maintenance, "SELECT 1"),
  });
  await ask(maintenance, "CREATE DATABASE holdfast");
  return Object.assign(server, { port, url: `postgres://holdfast@${host}:${port}/holdfast` });
}

/** Starts a PgBouncer in transaction mode before a Postgres. Its URL stands for that one's. */
export async function startPgBouncer(postgresUrl, { settings = {} } = {}) {
  const pgbouncer = find("pgbouncer", "pgbouncer");
  const as = owner();
  const folder = newFolder("pgbouncer", as);
  const port = await freePort();
  const { hostname, port: postgresPort, username, pathname } = new URL(postgresUrl);
  const pidFile = join(folder, "pgbouncer.pid");
  const all = {
    listen_addr: host,
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "any",
    pool_mode: "transaction",
    default_pool_size: 4,
    max_client_conn: 500,
    pidfile: pidFile,
    ...settings,
  };
  const lines = Object.entries(all).map(([key, value]) => `${key} = ${value}`);
  const file = join(folder, "pgbouncer.ini");
  const database = `* = host=${hostname} port=${postgresPort} user=${username}`;
  writeFileSync(file, ["[databases]", database, "[pgbouncer]", ...lines, ""].join("\n"));
  const url = `postgres://${username}@${host}:${port}${pathname}`;
  const server = await supervise({
    name: "pgbouncer",
    folder,
    pidFile,
    command: pgbouncer,
    args: [file],
    as,
    answers: () => ask(url, "SELECT 1"),
  });
  return Object.assign(server, { port, url });
}

/** Removes a schema and everything in it. */
export async function dropSchema(url, schema) {
  await ask(url, `SET client_min_messages = warning; DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`);
}
