// A minimal HTTP client: its cost is not measured, and it should not keep a server waiting.
import { connect } from "node:net";

/** One request at a time, small ones with small replies. @param {number} port */
export function connection(port) {
  const socket = connect(port, "127.0.0.1");
  socket.setNoDelay();
  /** @type {{ resolve: (text: string) => void, reject: (error: Error) => void }[]} */
  const waiting = [];
  socket.on("data", (/** @type {Buffer} */ chunk) => {
    // Small replies come whole.
    const text = chunk.toString("latin1");
    const asked = waiting.shift();
    if (text.startsWith("HTTP/1.1 200")) asked?.resolve(text);
    else asked?.reject(new Error(text));
  });
  socket.on("close", () => waiting.shift()?.reject(new Error("the server closed the connection")));
  socket.on("error", () => undefined);
  const send = (/** @type {string} */ text) =>
    new Promise((/** @type {(text: string) => void} */ resolve, reject) => {
      waiting.push({ resolve, reject });
      socket.write(text);
    });
  /** Opens a session. Returns its cookie, as a header. */
  const seed = async () => {
    const seeded = await send(post("/seed_session", '{"initial_count":0,"expected_count":1}'));
    const cookie = /set-cookie: ([^;\r]+)/i.exec(seeded)?.[1];
    if (cookie === undefined) throw new Error(`no cookie in ${seeded}`);
    return `cookie: ${cookie}\r\n`;
  };
  return { socket, send, seed };
}

/** The request that most benches of the server send. @param {string} cookie */
export const increment = (cookie) => post("/increment_counter", '{"count":1}', cookie);

/** Ends an episode, as an agent does. @param {string} cookie */
export const verify = (cookie) =>
  post("/verify", '{"initial_count":0,"expected_count":1,"response":{"output":[]}}', cookie);

/** Sends the headers of aiohttp. @param {string} path @param {string} body */
function post(path, body, cookie = "") {
  const agent = "accept: */*\r\naccept-encoding: gzip, deflate\r\nuser-agent: Python/3.12 aiohttp/3.11\r\n";
  const about = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${agent}${cookie}${about}\r\n${body}`;
}
