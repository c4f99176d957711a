// A server of chat completions on a free port, whose answers a test decides.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface ChatRequest {
  messages: { role: string; content: string | null; tool_calls?: unknown[] }[];
  required_prefix_token_ids?: number[];
  [field: string]: unknown;
}

export interface ChatServer {
  url: string;
  /** The requests so far, and the headers of each. */
  asked: ChatRequest[];
  headers: { [name: string]: string | string[] | undefined }[];
}

/** `answer` returns the completion; its field `status` is the HTTP status. The server stops when the test ends. */
export async function chatServer(answer: (request: ChatRequest) => unknown): Promise<ChatServer> {
  const asked: ChatRequest[] = [];
  const headers: ChatServer["headers"] = [];
  const server = createServer((incoming, response) => {
    let text = "";
    incoming.on("data", (chunk) => (text += String(chunk)));
    incoming.on("end", () => {
      const request = JSON.parse(text) as ChatRequest;
      asked.push(request);
      headers.push(incoming.headers);
      void Promise.resolve(answer(request)).then((completion) => {
        const { status = 200 } = Object(completion) as { status?: number };
        response.writeHead(status, { "content-type": "application/json" });
        response.end(JSON.stringify(completion));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked, headers };
}

/** A completion with a text, or with a call. */
export function completion(said: string | { name: string; arguments: object }, more: object = {}): object {
  const calls =
    typeof said === "string"
      ? {}
      : {
          tool_calls: [
            { id: "c", type: "function", function: { name: said.name, arguments: JSON.stringify(said.arguments) } },
          ],
        };
  const message = { role: "assistant", content: typeof said === "string" ? said : null, ...calls };
  return { id: "1", model: "policy", choices: [{ index: 0, message, finish_reason: "stop" }], ...more };
}
