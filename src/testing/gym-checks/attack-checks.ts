// Checks that a model or a different client cannot open a session with an altered cookie, or use the protocol's own
// routes as tools.
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { parseJson, type Json } from "../../core/json.ts";
import {
  continues,
  inText,
  make,
  noState,
  response,
  rewardIn,
  showsState,
  verifyBody,
  type GymCheck,
} from "./trial.ts";

export const attackChecks: GymCheck[] = [
  {
    what: "an altered cookie does not open the session",
    why: "A client that can forge a cookie can read and change the episodes of others. Sign it with a secret key.",
    compares: true,
    async run(trial) {
      if (!showsState(trial)) return noState;
      const played = async () => {
        const client = await trial.seeded();
        await make(client, trial.calls);
        return client.cookies();
      };
      // Two sessions: a guessed cookie may open the neighbour.
      const [jar] = [await played(), await played()];
      const opens = async (cookies: Map<string, string>): Promise<boolean> =>
        continues(await make(trial.client({ jar: cookies }), trial.calls), trial);
      for (const [name, value] of jar) {
        const others = await played();
        others.delete(name);
        // A different cookie carries the session.
        if (await opens(others)) continue;
        for (const altered of alterations(value)) {
          assert.ok(!(await opens(new Map([...jar, [name, altered]]))), `${name}=${altered} opened a session`);
        }
        const forged = forgedWithItsName(name, value);
        const isForged = forged !== undefined && (await opens(new Map([...jar, [name, forged]])));
        assert.ok(
          !isForged,
          `the secret key of the cookie ${name} is its own name: a forged cookie opened the session`,
        );
      }
    },
  },
  {
    what: "a model cannot seed itself by a tool name",
    why:
      "Agents post any tool name that a model makes up, with the cookie of its session. A model that calls " +
      "seed_session chooses its own start. Agents seed without a cookie: refuse a seed with the cookie of an episode.",
    compares: true,
    async run(trial) {
      for (const path of ["/seed_session", "/ng-rollout/check/seed_session"]) {
        const client = await trial.seeded();
        await make(client, trial.calls);
        const reply = await trial.seed(client, path);
        if (reply.status >= 300) continue;
        const after = await make(client, trial.calls);
        const isReplaced = showsState(trial) && JSON.stringify(after) === JSON.stringify(trial.first);
        const reward = rewardIn(await client.post("/verify", verifyBody(trial.task)));
        const message = `POST ${path} with the cookie of an episode replaced its state, and verify gave ${reward}`;
        assert.ok(!isReplaced || reward === undefined, message);
      }
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "a model cannot learn its reward by a tool name",
    why:
      "A model that calls verify knows whether to continue. Refuse a verify without the row of the task, or mask the " +
      "verdict of an episode that was verified before.",
    async run(trial) {
      const guesses: { [field: string]: Json }[] = [{}, { responses_create_params: { input: [] }, response }];
      for (const guess of guesses) {
        const client = await trial.seeded();
        const told = await client.post("/verify", guess);
        if (rewardIn(told) === undefined) continue;
        await make(client, trial.calls);
        const last = await client.post("/verify", verifyBody(trial.task));
        const message = `verify with ${JSON.stringify(guess)} told a reward before the end, and at the end gave ${inText(last)}`;
        assert.ok(rewardIn(last) === undefined, message);
      }
    },
  },
];

/** Returns a cookie with one character changed, at several places, and the neighbours of a number. */
function alterations(value: string): string[] {
  const places = new Set<number>();
  let start = 0;
  for (const part of value.split(".")) {
    // Not the last character of a part: some of its bits may have no meaning.
    if (part.length > 1) places.add(start).add(start + Math.floor(part.length / 2));
    start += part.length + 1;
  }
  const altered = [...places]
    .filter((at) => /[A-Za-z0-9]/.test(value[at] ?? ""))
    .map((at) => value.slice(0, at) + (value[at] === "A" ? "B" : "A") + value.slice(at + 1));
  const number = /^\d{1,12}$/.test(value) ? Number(value) : undefined;
  return number === undefined ? altered : [...altered, String(number + 1), String(number - 1)];
}

/**
 * Signs the content of a cookie of NeMo Gym's servers again, whose secret key is its own name, as itsdangerous'
 * TimestampSigner does. Returns undefined if the cookie has another form.
 */
function forgedWithItsName(name: string, value: string): string | undefined {
  const [content = "", time, signature, ...more] = value.replace(/^"(.*)"$/, "$1").split(".");
  if (time === undefined || signature === undefined || more.length > 0 || !isSession(content)) return undefined;
  const seconds = Buffer.alloc(4);
  seconds.writeUInt32BE(Math.floor(Date.now() / 1000));
  const signed = `${content}.${seconds.toString("base64url")}`;
  const key = createHash("sha1").update(`itsdangerous.Signersigner${name}`).digest();
  return `${signed}.${createHmac("sha1", key).update(signed).digest("base64url")}`;
}

const isSession = (content: string): boolean =>
  typeof parseJson(Buffer.from(content, "base64").toString()) === "object";
