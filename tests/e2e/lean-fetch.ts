// A fetch for tests that send tens of thousands of small requests: it takes less processor time than Node's.
import { Agent, request } from "node:http";

const agent = new Agent({ keepAlive: true });

/** Sends a request with a text as its body, and reads the whole reply. */
export function leanFetch(url: string, { method = "GET", headers, body }: RequestInit = {}): Promise<Response> {
  return new Promise((resolve, reject) => {
    const length = body ? { "content-length": Buffer.byteLength(body as string) } : {};
    const options = { method, headers: { ...(headers as { [name: string]: string }), ...length }, agent };
    const sent = request(url, options, (reply) => {
      const parts: Buffer[] = [];
      reply.on("data", (part: Buffer) => parts.push(part));
      reply.on("error", reject);
      reply.on("end", () => {
        const text = Buffer.concat(parts).toString();
        const status = reply.statusCode ?? 0;
        resolve({
          status,
          ok: status < 400,
          headers: { get: (name: string) => reply.headers[name]?.toString() ?? null },
          text: () => Promise.resolve(text),
          json: () => Promise.resolve(JSON.parse(text) as unknown),
        } as Response);
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
