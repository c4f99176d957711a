// CPU time of this process and of the servers that it started.
import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";

/** Milliseconds in one tick of the clock that /proc counts in. */
const tick = 10;

/** Reads the state of a process. Undefined if it is gone, or the system has no /proc. @param {number | string} pid */
function statOf(pid) {
  try {
    // The name, in brackets, may contain anything.
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { parent: Number(fields[1]), cpu: (Number(fields[11]) + Number(fields[12])) * tick };
  } catch {
    return undefined;
  }
}

/** A process and its children. @param {number} pid @returns {number[]} */
export function family(pid) {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return [pid, ...all.filter((each) => statOf(each)?.parent === pid).map(Number)];
}

/** Milliseconds of CPU that processes have used. @param {number[]} pids */
export function cpuOf(pids) {
  return pids.reduce((sum, pid) => sum + (statOf(pid)?.cpu ?? 0), 0);
}

/**
 * Adds up the CPU time that a variant takes, of this process and of servers.
 *
 * @param {import("./measure.mjs").Variant} variant
 * @param {() => number[]} servers
 */
export function metered({ run, ...rest }, servers = () => []) {
  const used = { own: 0, servers: 0, count: 0 };
  return {
    ...rest,
    used,
    run: async () => {
      const pids = servers();
      const [own, others] = [process.cpuUsage(), cpuOf(pids)];
      const count = await run();
      const { user, system } = process.cpuUsage(own);
      used.own += user + system;
      used.servers += (cpuOf(pids) - others) * 1000;
      used.count += count;
      return count;
    },
  };
}

/**
 * Starts a server of ours in a process of its own. It says in one line where it listens.
 *
 * @param {string[]} args of node
 * @returns {Promise<{ url: string, others: string[], pid: number, stop: () => void }>}
 */
export async function startNode(args) {
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  const stop = () => void child.kill("SIGKILL");
  process.once("exit", stop);
  /** @type {string} */
  const line = await new Promise((resolve, reject) => {
    let said = "";
    child.once("exit", () => reject(new Error(`node ${args.join(" ")} ended: ${said}`)));
    child.stdout.on("data", (data) => {
      said += data;
      if (said.includes("\n")) resolve(said);
    });
  });
  const [url = "", ...others] = line.match(/http:\/\/127\.0\.0\.1:\d+/g) ?? [];
  return { url, others, pid: child.pid ?? 0, stop };
}
