// Passes units to the driver: alone, in a group with simultaneous units, or one by one per session.
import type { Appended } from "../../core/store.ts";
import type { Attempts, Waiting } from "./attempts.ts";
import type { Answer, Call, Driver, End, Unit } from "./driver.ts";
import { createGroups, type Job as GroupJob } from "./groups.ts";
import { createSessionQueue } from "./session-queue.ts";
import { weigh } from "./unit.ts";

/** Operations are counted, so that `close` can wait for them. */
export interface Verbs {
  begin(): void;
  end(): void;
  counted<T>(verb: Promise<T>): Promise<T>;
}

/** Maximum number of consecutive answers to a session while other sessions wait, and maximum milliseconds for these. */
const [inARow, longestRow] = [32, 5];

/** Above this many answers in one turn of the event loop, sessions are answered one after another. */
const noCrowd = 64;

const noLimit: Call = { until: Infinity };

/** A unit that is waiting to be written together with other units. */
interface Job extends Waiting, GroupJob {
  call: Call | undefined;
  resolve(answer: Appended): void;
}

/** Returns the functions that append a unit and delete a session. */
export function createAppend(driver: Driver, attempts: Attempts, { begin, end, counted }: Verbs) {
  const { groups } = driver;
  const { deadlines, limitFor, faultOf, ask, askAgain, within } = attempts;
  const queue = groups?.of === "session" ? createSessionQueue<Job>(groups.commits, send) : undefined;
  const group = groups?.of === "store" || groups?.of === "sessions" ? createGroups<Job>(groups, send) : undefined;
  /** Whether the driver answers appends asynchronously, so that waiting callers need a deadline. */
  let isLater = false;
  /** The session that gets consecutive answers, the time until which it gets them, and their number so far. */
  let last = "";
  let until = 0;
  let row = 0;
  /** The number of units answered immediately in this turn of the event loop. */
  let answered = 0;

  /** Passes a group to the driver and answers its callers. */
  function send(group: Job[]): Answer<void> {
    const jobs = group.filter(({ isDone }) => !isDone);
    if (jobs.length === 0) return;
    const call: Call = { until: jobs.reduce((latest, { until }) => Math.max(latest, until), 0) };
    for (const job of jobs) job.call = call;
    try {
      const answers = driver.append(unitsOf(jobs), call);
      if (!(answers instanceof Promise)) return settle(jobs, answers);
      isLater = true;
      jobs.forEach(deadlines.add);
      return answers.then(
        (answers) => settle(jobs, answers),
        (thrown: unknown) => sendAgain(jobs, call, thrown),
      );
    } catch (thrown) {
      return sendAgain(jobs, call, thrown);
    }
  }

  /** After a failure: retries the group if that may help, or retries each unit alone if a single unit caused it. */
  async function sendAgain(jobs: Job[], call: Call, failure: unknown): Promise<void> {
    try {
      settle(jobs, await askAgain("writes", call, (call) => driver.append(unitsOf(jobs), call), failure));
    } catch (thrown) {
      const isSingle = jobs.length > 1 && call.reason !== undefined && faultOf(call.reason).single === true;
      for (const job of jobs) {
        if (isSingle) await send([job]);
        else job.reject(thrown as Error);
      }
    }
  }

  /**
   * Appends to a synchronous driver. If all callers were answered immediately, thousands of sessions would alternate at
   * every `await`. Each would find the processor's caches full of other data, and timers and connections would wait. So
   * if there are many callers, one session after another gets a few consecutive answers.
   */
  function appendNow(unit: Unit): Promise<Appended> {
    const answer = driver.append([unit], noLimit) as Appended[];
    const { session } = unit[0];
    if (answered < noCrowd) {
      if (answered++ === 0) setImmediate(() => (answered = 0));
      return Promise.resolve(answer[0]!);
    }
    if (session === last && ++row < inARow && performance.now() < until) return Promise.resolve(answer[0]!);
    return new Promise((resolve) => {
      setImmediate(() => {
        last = session;
        until = performance.now() + longestRow;
        row = 0;
        resolve(answer[0]!);
      });
    });
  }

  function append(unit: Unit, waited?: number): Promise<Appended> {
    if (groups?.of === "unit") return appendNow(unit);
    const bytes = weigh(unit);
    const until = limitFor(bytes, waited);
    if (!groups) {
      const units = [unit];
      begin();
      return ask("writes", { until }, (call) => driver.append(units, call)).then(
        (answers) => {
          end();
          return answers[0]!;
        },
        (thrown: unknown) => {
          end();
          throw thrown;
        },
      );
    }
    begin();
    return new Promise((resolve, reject) => {
      const job: Job = {
        unit,
        bytes,
        until,
        call: undefined,
        isDone: false,
        resolve(answer) {
          finish(job);
          resolve(answer);
        },
        reject(error) {
          finish(job);
          reject(error);
        },
      };
      if (isLater) deadlines.add(job);
      if (group) return group(job);
      if (unit.length === 1) return queue!.join(unit[0].session, job);
      const sessions = unit.map(({ session }) => session);
      void queue!.alone(sessions, async () => send([job]));
    });
  }

  function finish(job: Job): void {
    deadlines.remove(job);
    if (!job.isDone) end();
    job.isDone = true;
  }

  function remove(session: string, end: End | undefined): Promise<boolean> {
    const call: Call = { until: limitFor() };
    const run = (): Promise<boolean> => ask("writes", call, (call) => driver.delete(session, end, call));
    return counted(queue ? within(call, queue.alone([session], run)) : run());
  }

  return { append, remove };
}

function settle(jobs: Job[], answers: Appended[]): void {
  for (let at = 0; at < jobs.length; at++) jobs[at]!.resolve(answers[at]!);
}

function unitsOf(jobs: Job[]): Unit[] {
  return jobs.map(({ unit }) => unit);
}
