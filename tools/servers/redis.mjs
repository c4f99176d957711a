// Real Redis servers for tests and benches: one alone, one with a replica and Sentinels, or a Cluster.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "./ports.mjs";

/** How long a server may take to start, in milliseconds. */
const startTimeout = 20_000;
const host = "127.0.0.1";

/** Running servers, and folders to remove when this process ends. */
const running = new Set();
const folders = new Set();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/**
 * Ends a server when this process is gone, also when that was killed and could do nothing any more: then the pipe closes.
 * @param {import("node:child_process").ChildProcess} child
 * @param {string} folder
 */
function watch(child, folder) {
  const script = 'read -r _; kill -9 "$0"; rm -rf "$1"';
  const watcher = spawn("sh", ["-c", script, `${child.pid}`, folder], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watcher.unref();
  watcher.on("error", () => {});
  child.once("exit", () => watcher.kill("SIGKILL"));
}

/** @returns {string} */
function newFolder() {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-redis-"));
  folders.add(folder);
  return folder;
}

/** @param {string} folder */
function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  folders.delete(folder);
}

/**
 * Sends one command and gives the answer as it came, without its type and line ends.
 * @param {number} port
 * @param {...(string | number)} command
 * @returns {Promise<string>}
 */
function redisCommand(port, ...command) {
  return new Promise((resolve, reject) => {
    const args = ["-h", host, "-p", `${port}`, ...command.map(String)];
    execFile("redis-cli", args, { timeout: 10_000 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`redis-cli ${command.join(" ")}: ${stderr || error.message}`));
      else resolve(stdout.trim());
    });
  });
}

const removal = `local cursor = '0'
  repeat
    local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
    for _, key in ipairs(page[2]) do redis.call('UNLINK', key) end
    cursor = page[1]
  until cursor == '0'`;

/**
 * Removes all keys of one prefix: from one server, or from those of a Cluster.
 * @param {number[]} ports
 * @param {string} prefix
 */
export async function removePrefix(ports, prefix) {
  const pattern = `${prefix.replaceAll(/[\\*?[\]^-]/g, String.raw`\$&`)}:*`;
  await Promise.all(ports.map((port) => redisCommand(port, "eval", removal, 0, pattern)));
}

/** @param {number} port @returns {Promise<string>} */
function ping(port) {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => socket.write("PING\r\n"));
    const end = (/** @type {string} */ answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1000, () => end(""));
    socket.once("data", (data) => end(data.toString()));
    socket.once("error", () => end(""));
  });
}

/**
 * Waits until something is so.
 * @param {string} what
 * @param {() => Promise<boolean>} isSo
 */
async function until(what, isSo) {
  const deadline = Date.now() + startTimeout;
  while (!(await isSo().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${what} took more than ${startTimeout} ms`);
    await delay(20);
  }
}

/**
 * Starts one server on a free port. `args` are arguments of redis-server.
 * @param {{ args?: string[], folder?: string, port?: number, sentinel?: boolean }} [options]
 */
export async function startRedis({ args = [], folder: givenFolder, port: givenPort, sentinel = false } = {}) {
  const folder = givenFolder ?? newFolder();
  const port = givenPort ?? (await freePort());
  /** @type {import("node:child_process").ChildProcess | undefined} */
  let child;
  let output = "";

  async function start() {
    // A Sentinel stores its state in its configuration file, so it accepts no settings on the command line.
    const first = sentinel ? [join(folder, "sentinel.conf"), "--sentinel"] : ["--save", ""];
    const rest = ["--port", `${port}`, "--bind", host, "--dir", folder, "--daemonize", "no"];
    const process = spawn("redis-server", [...first, ...(sentinel ? [] : [...rest, ...args])], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = process;
    running.add(process);
    watch(process, folder);
    output = "";
    for (const stream of [process.stdout, process.stderr]) {
      stream?.on("data", (data) => (output = (output + data).slice(-4000)));
    }
    let failure = "";
    process.once("error", (error) => (failure = `redis-server cannot be started: ${error.message}`));
    process.once("exit", () => running.delete(process));
    const gone = () => process.exitCode !== null || process.signalCode !== null || failure !== "";
    await until(`the start of redis-server on port ${port}`, async () => {
      if (gone()) return true;
      return /PONG|NOAUTH|DENIED|MASTERDOWN/.test(await ping(port));
    });
    if (gone()) throw new Error(failure || `redis-server on port ${port} ended at once:\n${output}`);
  }

  /** @param {NodeJS.Signals} signal */
  async function end(signal) {
    const process = child;
    if (!process || process.exitCode !== null || process.signalCode !== null) return;
    const exit = once(process, "exit");
    // A paused server would not receive it.
    process.kill("SIGCONT");
    process.kill(signal);
    await exit;
  }

  try {
    await start();
  } catch (error) {
    await end("SIGKILL");
    if (givenFolder === undefined) removeFolder(folder);
    throw error;
  }
  return {
    url: `redis://${host}:${port}`,
    port,
    folder,
    get pid() {
      return child?.pid ?? 0;
    },
    /** Stops it and removes its folder. */
    async stop() {
      await end("SIGKILL");
      if (existsSync(folder)) removeFolder(folder);
    },
    /** Sends SIGKILL. The folder stays, for `restart`. */
    kill: () => end("SIGKILL"),
    /** Sends SIGSTOP: it keeps its connections and answers nothing. */
    pause: () => void child?.kill("SIGSTOP"),
    resume: () => void child?.kill("SIGCONT"),
    /** Stops it if it runs, and starts it again on the same port and data. */
    async restart() {
      await end("SIGTERM");
      await start();
    },
    command: (/** @type {(string | number)[]} */ ...command) => redisCommand(port, ...command),
  };
}

/** @typedef {Awaited<ReturnType<typeof startRedis>>} RedisServer */

/** @param {RedisServer[]} servers */
async function stopAll(servers) {
  await Promise.all(servers.map((server) => server.stop()));
}

/**
 * Starts a master, a replica, and Sentinels that make a failover soon.
 * @param {{ sentinels?: 1 | 3, downAfter?: number, args?: string[] }} [options]
 */
export async function startSentinel({ sentinels: count = 1, downAfter = 500, args = [] } = {}) {
  const name = "holdfast";
  /** @type {RedisServer[]} */
  const servers = [];
  try {
    const start = async (/** @type {Parameters<typeof startRedis>[0]} */ options) => {
      const server = await startRedis(options);
      servers.push(server);
      return server;
    };
    const quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
    const master = await start({ args: [...quick, ...args] });
    const replica = await start({ args: [...quick, ...args, "--replicaof", host, `${master.port}`] });
    await until("the first sync of the replica", async () =>
      (await replica.command("info", "replication")).includes("master_link_status:up"),
    );
    const sentinels = [];
    for (let index = 0; index < count; index++) {
      const port = await freePort();
      const folder = newFolder();
      const lines = [
        `port ${port}`,
        `bind ${host}`,
        `dir ${folder}`,
        `sentinel monitor ${name} ${host} ${master.port} ${Math.floor(count / 2) + 1}`,
        `sentinel down-after-milliseconds ${name} ${downAfter}`,
        `sentinel failover-timeout ${name} 5000`,
      ];
      writeFileSync(join(folder, "sentinel.conf"), `${lines.join("\n")}\n`);
      sentinels.push(await start({ folder, port, sentinel: true }));
    }
    const masterPort = async () => {
      const answer = await redisCommand(sentinels[0]?.port ?? 0, "sentinel", "get-master-addr-by-name", name);
      return Number(answer.split("\n")[1]);
    };
    await until("the Sentinels finding each other and the replica", async () => {
      for (const { port } of sentinels) {
        const answer = await redisCommand(port, "sentinel", "master", name);
        const valueOf = (/** @type {string} */ field) => answer.split("\n")[answer.split("\n").indexOf(field) + 1];
        if (valueOf("num-slaves") !== "1" || valueOf("num-other-sentinels") !== `${count - 1}`) return false;
      }
      return true;
    });
    return {
      url: `redis+sentinel://${sentinels.map(({ port }) => `${host}:${port}`).join(",")}/${name}`,
      master,
      replica,
      sentinels,
      masterPort,
      /** Makes the Sentinels fail over to the other server, as they do by themselves when the master is gone. */
      async failover() {
        const before = await masterPort();
        // Refused until they have checked the replica, and while an earlier failover runs.
        await until("the Sentinels agreeing to a failover", async () =>
          (await redisCommand(sentinels[0]?.port ?? 0, "sentinel", "failover", name)).startsWith("OK"),
        );
        await until("the failover", async () => (await masterPort()) !== before);
      },
      /** Waits until the Sentinels name another master than this one. */
      async moved(/** @type {number} */ from) {
        await until("the failover", async () => (await masterPort()) !== from);
      },
      stop: () => stopAll(servers),
    };
  } catch (error) {
    await stopAll(servers);
    throw error;
  }
}

/**
 * Starts a Cluster of masters.
 * @param {number} [size]
 * @param {{ args?: string[] }} [options]
 */
export async function startCluster(size = 3, { args = [] } = {}) {
  /** @type {RedisServer[]} */
  const servers = [];
  try {
    for (let index = 0; index < size; index++) {
      const cluster = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "2000",
        "--cluster-config-file",
        "nodes.conf",
      ];
      // The bus between the nodes is 10,000 ports above.
      servers.push(await startRedis({ port: await freePort(10_000), args: [...cluster, ...args] }));
    }
    const [first] = servers;
    if (first === undefined) throw new Error("a Cluster needs at least one node");
    for (const [index, server] of servers.entries()) {
      const from = Math.floor((index * 16_384) / size);
      const to = Math.floor(((index + 1) * 16_384) / size) - 1;
      await server.command("cluster", "set-config-epoch", index + 1);
      await server.command("cluster", "addslotsrange", from, to);
      if (server !== first) await server.command("cluster", "meet", host, first.port);
    }
    await until("the nodes of the Cluster finding each other", async () => {
      for (const { port } of servers) {
        const info = await redisCommand(port, "cluster", "info");
        if (!info.includes("cluster_state:ok") || !info.includes(`cluster_known_nodes:${size}`)) return false;
      }
      return true;
    });
    return {
      url: `redis+cluster://${servers.map(({ port }) => `${host}:${port}`).join(",")}`,
      servers,
      stop: () => stopAll(servers),
    };
  } catch (error) {
    await stopAll(servers);
    throw error;
  }
}
