// Players of an episode, one for each wire.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Answer } from "holdfast";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { jsonOrText, type Json } from "../../src/core/json.ts";
import type { TaskRow } from "../../src/core/rollout.ts";
import { root } from "../files.ts";
import { openEnvClient, post, type Loose, type OpenEnvClient } from "../protocols/openenv-client.ts";
import { orsClient } from "../protocols/ors-client.ts";

/** What a model reads: a tool's output as text, or its error's message. */
export type Read = { output: string } | { error: string };

export interface Player {
  /** Opens an episode, and returns its session. */
  open(task: TaskRow, seed: number): Promise<string>;
  /**
   * Calls a tool. A call that is sent again has the same `id`. If a call is not heard, its reply is lost, and the player
   * must not learn from it.
   */
  call(tool: string, input: Json, id: string, isHeard: boolean): Promise<Read>;
  verify(response: Json): Promise<number>;
  /** The number of requests that its client has sent again by itself. */
  repeats?(): number;
}

const asText = (output: Json): string => (typeof output === "string" ? output : JSON.stringify(output));
/** The session in a token. */
const sessionIn = (token: string): string =>
  Buffer.from(token.split(".")[0]!, "base64url").toString().replace("new.", "");

export const readOf = (answer: Answer): Read =>
  answer.ok ? { output: asText(answer.output as Json) } : { error: answer.error.message };

/** Posts with a cookie jar. The cookie of a reply that is not heard is lost with it. */
function jarOf(url: string) {
  let cookie = "";
  const ask = async (path: string, body: unknown, { key = "", isHeard = true } = {}) => {
    const headers = {
      "content-type": "application/json",
      ...(cookie && { cookie }),
      ...(key && { "idempotency-key": key }),
    };
    const reply = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (isHeard) [cookie = ""] = reply.headers.get("set-cookie")?.split(";") ?? [];
    const text = await reply.text();
    const isJson = reply.headers.get("content-type")?.includes("json");
    return { status: reply.status, text, body: isJson ? (JSON.parse(text) as Loose) : undefined };
  };
  return { ask, session: () => sessionIn(cookie.split("=")[1]!) };
}

function gym(url: string): Player {
  const { ask } = jarOf(url);
  return {
    open: async (task, seed) => (await ask("/seed_session", { ...task, _holdfast_random_seed: seed })).body.session_id,
    async call(tool, input, key, isHeard) {
      const { status, text, body } = await ask(`/${tool}`, input, { key, isHeard });
      return status < 400 ? { output: text } : { error: body.error.message };
    },
    verify: async (response) => (await ask("/verify", { response })).body.reward,
  };
}

function rest(url: string): Player {
  let at = "";
  return {
    async open(task, random) {
      const { session } = (await post(`${url}/v1/sessions`, { task, random })).body;
      at = `${url}/v1/sessions/${session}`;
      return session;
    },
    call: async (tool, input, call) => readOf((await post(`${at}/call`, { tool, input, call })).body),
    verify: async (response) => (await post(`${at}/verify`, { response })).body.reward,
  };
}

function mcp(url: string): Player {
  const server = new URL(url).origin;
  let [path, session] = ["", ""];
  return {
    async open(task, random) {
      const { body } = await post(`${url}/v1/sessions`, { task, random });
      [path, session] = [body.mcp.bound_url_path, body.session];
      return session;
    },
    async call(name, input, id) {
      const params = { name, arguments: input, _meta: { "dev.holdfast/call": id } };
      const { body } = await post(`${server}${path}`, { jsonrpc: "2.0", id: 1, method: "tools/call", params });
      if (body.error) return { error: body.error.message };
      const [{ text }] = body.result.content;
      return body.result.isError ? { error: text } : { output: text };
    },
    verify: async (response) => (await post(`${url}/v1/sessions/${session}/verify`, { response })).body.reward,
  };
}

const fromObservation = ({ result, error }: Loose): Read =>
  error ? { error: error.message } : { output: result.content[0].text };

function openEnvSocket(url: string): Player {
  let id: string | undefined;
  let client: OpenEnvClient | undefined;
  /** Connects again if the connection is lost. */
  const ask = async (type: string, data: unknown): Promise<Loose> => {
    if (client?.socket.readyState !== WebSocket.OPEN) client = await openEnvClient(`${url}/openenv`, id);
    const frame = await client.ask(type, data);
    if (frame.type === "error") throw new Error(frame.data.message as string);
    return frame.data;
  };
  return {
    async open(task, seed) {
      const { metadata } = await ask("reset", { ...task, seed });
      id = metadata.session_id as string;
      return sessionIn(id);
    },
    async call(tool, input, id) {
      const metadata = { request_id: id };
      return fromObservation(
        (await ask("step", { type: "call_tool", tool_name: tool, arguments: input, metadata })).observation,
      );
    },
    async verify(response) {
      const { reward } = await ask("step", { type: "submit", response });
      client?.socket.terminate();
      return reward;
    },
  };
}

function openEnvHttp(url: string): Player {
  let id = "";
  const rpc = async (method: string, params: object): Promise<Loose> =>
    (await post(`${url}/openenv/mcp`, { jsonrpc: "2.0", id: 1, method, params })).body;
  const call = (name: string, input: Json, callId?: string): Promise<Loose> =>
    rpc("tools/call", { session_id: id, name, arguments: input, _meta: { callId } });
  return {
    async open(task, seed) {
      id = (await rpc("openenv/session/create", {})).result.session_id;
      await post(`${url}/openenv/reset?session_id=${id}`, { ...task, seed });
      return sessionIn(id);
    },
    async call(tool, input, callId) {
      const { result, error } = await call(tool, input, callId);
      return error ? { error: error.message } : { output: result.content[0].text };
    },
    verify: async (response) => (await call("submit", { response })).result.data.reward,
  };
}

function ors(url: string): Player {
  const client = orsClient(`${url}/ors`);
  const sent = new Map<string, string>();
  let session = "";
  return {
    async open(task, seed) {
      session = await client.createSession();
      await client.json("POST", "/create", { task_spec: { ...task, _holdfast_random_seed: seed } }, session);
      return sessionIn(session);
    },
    async call(tool, input, id, isHeard) {
      // The server makes the id of a call that is not heard, and sends it before the result.
      const made = await client.call(session, tool, input, isHeard ? (sent.get(id) ?? id) : undefined);
      if (!isHeard) sent.set(id, made.id!);
      const { result, error } = made;
      if (error !== undefined) return { error };
      return result.ok ? { output: result.output.blocks[0].text } : { error: result.error };
    },
    verify: async (response) => (await client.call(session, "submit", { response })).result.output.reward,
  };
}

function gymnasium(url: string): Player {
  const { ask, session } = jarOf(url);
  let row: TaskRow = {};
  const step = async (output: Json[], id: string, isHeard = true): Promise<Loose> =>
    (await ask("/step", { ...row, response: { output }, _ng_step_request_id: id }, { isHeard })).body;
  return {
    async open(task, seed) {
      row = { ...task, responses_create_params: { input: "Go." } };
      const { info } = (await ask("/reset", { ...row, _holdfast_random_seed: seed })).body;
      expect(info).toEqual({ supports_explicit_close: true, supports_step_idempotency: true });
      return session();
    },
    async call(name, input, id, isHeard) {
      const item = { type: "function_call", call_id: `c${id}`, name, arguments: JSON.stringify(input) };
      const { reward, terminated, info } = await step([item], `s${id}`, isHeard);
      expect({ reward, terminated }).toEqual({ reward: 0, terminated: false });
      const [{ call_id: call, output }] = info.tool_outputs;
      expect(call).toBe(`c${id}`);
      const { error } = Object(jsonOrText(output as string)) as Loose;
      return typeof error?.code === "string" ? { error: error.message } : { output };
    },
    async verify(response) {
      const { reward, terminated } = await step((response as Loose).output, "last");
      expect(terminated).toBe(true);
      return reward;
    },
  };
}

/** Makes players for each wire of an environment, from its address. */
export type Wires = { [name: string]: (url: string) => Player };
export const wires: Wires = { gym, rest, mcp, openEnvSocket, openEnvHttp, ors, gymnasium };

/** Starts a Python process that plays with the Python client, many episodes at once. */
export function startPython(python: string): { player(url: string): Player; close(): void } {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn(python, ["-m", "tests.wire"], {
    cwd: join(root, "python"),
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const waiting = new Map<number, (reply: Loose) => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { number, ...reply } = JSON.parse(line) as Loose;
    waiting.get(number as number)?.(reply);
    waiting.delete(number as number);
  });
  child.on("close", () => {
    for (const settle of waiting.values()) settle({ error: "the process ended" });
  });
  let count = 0;
  const ask = async (request: object): Promise<Loose> => {
    const number = count++;
    const replied = new Promise<Loose>((resolve) => waiting.set(number, resolve));
    child.stdin.write(`${JSON.stringify({ number, ...request })}\n`);
    const reply = await replied;
    if ("error" in reply) throw new Error(`Python: ${reply.error}`);
    return reply;
  };
  const player = (url: string): Player => {
    let [session, repeats] = ["", 0];
    return {
      open: async (task, random) => (session = (await ask({ do: "open", url, task, random })).value),
      async call(tool, input, call) {
        const reply = await ask({ do: "call", session, tool, input, call });
        repeats += reply.repeats;
        return readOf(reply.value);
      },
      verify: async (response) => (await ask({ do: "verify", session, response })).value,
      repeats: () => repeats,
    };
  };
  return { player, close: () => child.kill() };
}
