// Checks that no client can open a session with an altered cookie, or use the protocol's own routes as tools.
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { parseJson, type Json } from "../../core/json.ts";
import { continues, inText, make, noState, response, rewardIn, showsState, verifyBody } from "./trial.ts";
import type { GymCheck } from "./trial.ts";

export const attackChecks: GymCheck[] = [
  {
    what: "an altered cookie does not open the session",
    why: "A client that can forge a cookie can read and change other clients' episodes. Sign cookies with a secret key.",
    compares: true,
    async run(trial) {
      if (!showsState(trial)) return noState;
      const played = async () => {
        const client = await trial.seeded();
        await make(client, trial.calls);
        return client.cookies();
      };
      // Opens two sessions, because a guessed cookie may open the second session.
      const [jar] = [await played(), await played()];
      const opens = async (cookies: Map<string, string>): Promise<boolean> =>
        continues(await make(trial.client({ jar: cookies }), trial.calls), trial);
      for (const [name, value] of jar) {
        const others = await played();
        others.delete(name);
        // Without this cookie the session still opens, so the session id is in another cookie.
        if (await opens(others)) continue;
        for (const altered of alterations(value)) {
          assert.ok(!(await opens(new Map([...jar, [name, altered]]))), `${name}=${altered} opened a session`);
        }
        const forged = forgedWithItsName(name, value);
        const isForged = forged !== undefined && (await opens(new Map([...jar, [name, forged]])));
        assert.ok(
          !isForged,
          `the cookie ${name} is signed with its own name as the key, so a forged cookie opened the session`,
        );
      }
    },
  },
  {
    what: "a model cannot call seed_session as a tool",
    why:
      "Agents forward any tool name that a model makes up, with the session's cookie. A model that calls " +
      "seed_session chooses its own start state. Agents seed without a cookie, so refuse a seed that has an episode's cookie.",
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
        const message = `POST ${path} with an episode's cookie replaced its state, and verify returned ${reward}`;
        assert.ok(!isReplaced || reward === undefined, message);
      }
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "a model cannot call verify as a tool to learn its reward",
    why:
      "A model that can call verify knows when to stop. Refuse a verify request without the task's row, or mask the " +
      "verdict of an episode that was already verified.",
    async run(trial) {
      const guesses: { [field: string]: Json }[] = [{}, { responses_create_params: { input: [] }, response }];
      for (const guess of guesses) {
        const client = await trial.seeded();
        const told = await client.post("/verify", guess);
        if (rewardIn(told) === undefined) continue;
        await make(client, trial.calls);
        const last = await client.post("/verify", verifyBody(trial.task));
        const message = `verify with ${JSON.stringify(guess)} revealed a reward before the end, and at the end returned ${inText(last)}`;
        assert.ok(rewardIn(last) === undefined, message);
      }
    },
  },
];

/** Returns copies of a cookie with one character changed, at several places; for a number, also its neighbours. */
function alterations(value: string): string[] {
  const places = new Set<number>();
  let start = 0;
  for (const part of value.split(".")) {
    // Keeps the last character of a part, because some of its bits may have no meaning.
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
 * Forges a signed cookie of NeMo Gym's servers, which use the cookie's name as the secret key of itsdangerous'
 * TimestampSigner. Returns undefined for other cookies.
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
