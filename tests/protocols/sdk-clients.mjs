// The official MCP clients. In JavaScript: the two lines of the SDK differ in the types of the same methods.
import { Client as SecondClient, StreamableHTTPClientTransport as SecondTransport } from "@modelcontextprotocol/client";
import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

/** Connects the client of the SDK's first line, which speaks the era with `initialize`. */
export async function connectFirst(url, { fetch, headers = {} }) {
  const transport = new FirstTransport(url, { fetch, requestInit: { headers } });
  const client = new FirstClient({ name: "test", version: "1" });
  await client.connect(transport);
  const callTool = (call, options) => client.callTool(call, undefined, options);
  return connected(client, transport, callTool);
}

/** Connects the client of the SDK's second line, in the era of choice. */
export async function connectSecond(url, { fetch, headers = {}, era }) {
  const transport = new SecondTransport(url, { fetch, requestInit: { headers } });
  const versionNegotiation = { mode: era === "legacy" ? "legacy" : { pin: "2026-07-28" } };
  const client = new SecondClient({ name: "test", version: "1" }, { versionNegotiation });
  await client.connect(transport);
  return connected(client, transport, (call, options) => client.callTool(call, options));
}

function connected(client, transport, callTool) {
  return {
    callTool,
    listTools: () => client.listTools(),
    close: () => client.close(),
    sessionId: () => transport.sessionId,
    terminate: () => transport.terminateSession(),
  };
}
