// A third-party guessing game over NeMo Gym's reset and step: written from the protocol's facts without our code.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { listening, type Instead } from "./foreign-gym.ts";

type Fields = Record<string, unknown>;

interface Call {
  type: string;
  call_id: string;
  name: string;
  arguments: string;
}

interface Game {
  secret: number;
  guesses: number;
  isClosed: boolean;
  /** Replies by step id. */
  replies: Map<string, unknown>;
}

export interface ForeignStep {
  path: string;
  cookie: string | undefined;
  body: Fields;
}

export interface ForeignGymnasium {
  url: string;
  requests: ForeignStep[];
  games: Game[];
}

interface ForeignOptions {
  /** What the server announces at a reset. */
  info?: Fields;
  /** Steps after which a game is truncated. */
  most?: number;
  instead?: (request: ForeignStep, seen: number) => Instead | { text: string };
}

const cookieName = "GuessServer___guess";
const needed = ["id", "created_at", "model", "object", "output", "parallel_tool_calls", "tool_choice", "tools"];

const textOf = (items: Fields[]): string =>
  items
    .filter(({ type }) => type === "message")
    .flatMap(({ content }) => (typeof content === "string" ? [{ text: content }] : (content as { text: string }[])))
    .map(({ text }) => text)
    .join("");

/** A guess is a text with a number. The tool `hint` tells how far the secret is; each hint costs a tenth. */
export async function foreignGymnasium({
  info = {},
  most = 10,
  instead = () => undefined,
}: ForeignOptions = {}): Promise<ForeignGymnasium> {
  const games: Game[] = [];
  const requests: ForeignStep[] = [];

  function step(game: Game, items: Fields[]): unknown {
    const calls = items.filter(({ type }) => type === "function_call") as unknown as Call[];
    game.guesses++;
    const truncated = game.guesses >= most;
    const about = { terminated: false, truncated };
    if (calls.length > 0) {
      const outputs = calls.map(({ call_id, name, arguments: text }) => {
        const { near = 0 } = (text.startsWith("{") ? JSON.parse(text) : {}) as { near?: number };
        const output = name === "hint" ? { off: Math.abs(game.secret - near) } : { detail: "Not Found" };
        return { call_id, output: JSON.stringify(output) };
      });
      const told = calls.length > 1 ? "One hint at a time is cheaper." : null;
      return { observation: told, reward: -0.1 * calls.length, ...about, info: { tool_outputs: outputs } };
    }
    const said = textOf(items);
    if (said === "") return { observation: null, reward: 0, ...about, info: {} };
    const guess = Number(said);
    if (guess === game.secret) {
      const { guesses } = game;
      return { observation: null, reward: 1, terminated: true, truncated: false, info: { guesses, word: "right" } };
    }
    return { observation: guess < game.secret ? "higher" : "lower", reward: 0, ...about, info: {} };
  }

  function answer(path: string, game: Game | undefined, body: Fields): { status: number; body: unknown } {
    const unknown = Object.keys((body["responses_create_params"] ?? {}) as Fields).filter((name) => name === "extra");
    if (unknown.length > 0) return { status: 422, body: { detail: unknown } };
    if (!game || game.isClosed) return { status: 500, body: "KeyError('session')" };
    if (path === "/reset") return { status: 200, body: { observation: "Guess a number.", info } };
    if (path === "/close") {
      game.isClosed = true;
      return { status: 200, body: {} };
    }
    const response = (body["response"] ?? {}) as Fields;
    const missing = needed.filter((name) => response[name] === undefined);
    if (path !== "/step" || missing.length > 0) return { status: 422, body: { detail: missing } };
    const id = body["_ng_step_request_id"] as string | undefined;
    if (id !== undefined && !info["supports_step_idempotency"]) return { status: 422, body: { detail: ["extra"] } };
    const reply = (id === undefined ? undefined : game.replies.get(id)) ?? step(game, response["output"] as Fields[]);
    if (id !== undefined) game.replies.set(id, reply);
    return { status: 200, body: reply };
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const path = request.url ?? "";
    const { cookie } = request.headers;
    const seen = { path, cookie, body: (text === "" ? {} : JSON.parse(text)) as Fields };
    requests.push(seen);
    const other = instead(seen, requests.length);
    if (other === "drop") return void request.socket.destroy();
    if (other && "text" in other) return void response.end(other.text);
    if (other) return void response.writeHead(other.status).end(JSON.stringify(other.body));
    if (path === "/v1/environment") return void response.writeHead(404).end('{"detail":"Not Found"}');
    if (path === "/reset") {
      games.push({ secret: Number(seen.body["secret"]), guesses: 0, isClosed: false, replies: new Map() });
      response.setHeader("set-cookie", `${cookieName}=g${games.length - 1}; path=/; httponly`);
    }
    const [, at] = new RegExp(`${cookieName}=g(\\d+)`).exec(cookie ?? "") ?? [];
    const game = path === "/reset" ? games.at(-1) : games[Number(at)];
    const { status, body } = answer(path, game, seen.body);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  const server = createServer(
    (request, response) => void handle(request, response).catch(() => request.socket.destroy()),
  );
  return { url: await listening(server), requests, games };
}
