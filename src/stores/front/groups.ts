// Group commit: units that arrive while a group is being written form the next group, whatever their sessions.
import type { Answer, Groups, Unit } from "./driver.ts";

/** A unit that is waiting or being written. */
export interface Job {
  readonly unit: Unit;
  readonly bytes: number;
  /** Whether the caller of this unit was answered. */
  isDone: boolean;
}

/** Returns a function that accepts a job. `send` writes a group and answers its callers; it never fails. */
export function createGroups<J extends Job>(
  groups: Extract<Groups, { of: "store" | "sessions" }>,
  send: (jobs: J[]) => Answer<void>,
): (job: J) => void {
  const { of, commits: mostCommits, bytes: mostBytes } = groups;
  const lanes = groups.of === "sessions" ? groups.lanes : 1;
  let queue: J[] = [];
  // The running groups' sessions, if a session may be in only one group at a time.
  const inGroups = new Set<string>();
  let running = 0;

  /** Returns the next group: all waiting units, except units whose session must be in a different group. */
  function take(): J[] {
    const group: J[] = [];
    const rest: J[] = [];
    let [commits, bytes] = [0, 0];
    for (const [index, job] of queue.entries()) {
      if (commits >= mostCommits || bytes >= mostBytes || rest.length > mostCommits) {
        for (const left of queue.slice(index)) rest.push(left);
        break;
      }
      if (job.isDone) continue;
      if (of === "sessions") {
        if (job.unit.some(({ session }) => inGroups.has(session))) {
          rest.push(job);
          continue;
        }
        for (const { session } of job.unit) inGroups.add(session);
      }
      group.push(job);
      commits += job.unit.length;
      bytes += job.bytes;
    }
    queue = rest;
    return group;
  }

  function sendNext(): void {
    const group = take();
    if (group.length === 0) {
      running--;
      return;
    }
    const sent = send(group);
    if (sent instanceof Promise) void sent.then(() => leave(group));
    else leave(group);
  }

  function leave(group: J[]): void {
    if (of === "sessions") for (const { unit } of group) for (const { session } of unit) inGroups.delete(session);
    setImmediate(sendNext);
  }

  return (job) => {
    queue.push(job);
    if (running >= lanes) return;
    running++;
    // Units that arrive in one turn of the event loop are grouped.
    setImmediate(sendNext);
  };
}
