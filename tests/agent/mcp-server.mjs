// An MCP server of the official SDK on its standard input and output. A file counts its calls.
import { appendFileSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "stdio", version: "1" });
let count = 0;
server.registerTool("add", { description: "Add.", inputSchema: { by: z.number() } }, ({ by }) => {
  appendFileSync(process.env.CALLS, "add\n");
  count += by;
  return { content: [{ type: "text", text: String(count) }] };
});
server.registerTool("refuse", { description: "Refuse." }, () => ({
  content: [{ type: "text", text: "not today" }],
  isError: true,
}));
server.registerTool("variables", { description: "Names of the environment variables." }, () => ({
  content: [{ type: "text", text: JSON.stringify(Object.keys(process.env)) }],
}));
server.registerTool("exit", { description: "Exit." }, () => process.exit(1));
server.registerTool("hang", { description: "Hang." }, () => new Promise(() => undefined));
await server.connect(new StdioServerTransport());
