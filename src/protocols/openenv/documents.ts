// OpenEnv's documents about an environment: its tools, its schemas and its OpenAPI document.
import type { AnyEnvironment } from "../../core/environment.ts";
import { listTools as listMcpTools } from "../http/tool-list.ts";
import { submitNameIn, submitTool } from "../http/submit.ts";

export interface OpenEnvTool {
  name: string;
  description: string;
  input_schema: object;
}

/** The tools of an environment in their order, and the tool that ends the episode. */
export function listTools(environment: AnyEnvironment): OpenEnvTool[] {
  const tools = listMcpTools(environment).map(({ name, description, inputSchema }) => ({
    name,
    description,
    input_schema: inputSchema,
  }));
  return [
    ...tools,
    { name: submitNameIn(environment), description: submitTool.description, input_schema: submitTool.input },
  ];
}

/** The title of the action's schema. With this title, clients list the tools first. */
const actionTitle = "CallToolAction";

export function schemasOf(tools: readonly OpenEnvTool[]): object {
  const metadata = { type: "object", description: "`request_id` makes a repeat of the action safe" };
  return {
    action: {
      title: actionTitle,
      type: "object",
      properties: {
        type: { type: "string", enum: ["call_tool", "list_tools", "submit"], default: "call_tool" },
        tool_name: { type: "string", enum: tools.map(({ name }) => name) },
        arguments: { type: "object", default: {} },
        metadata,
      },
      required: ["tool_name"],
      additionalProperties: false,
    },
    observation: {
      title: "CallToolObservation",
      type: "object",
      properties: {
        tool_name: { type: "string" },
        result: { type: ["object", "null"] },
        error: { type: ["object", "null"] },
        tools: { type: "array" },
        prompt: { type: "string" },
        messages: { type: "array" },
        verdict: { type: "object" },
      },
    },
    state: {
      title: "State",
      type: "object",
      properties: {
        episode_id: { type: ["string", "null"], default: null },
        step_count: { type: "integer", minimum: 0, default: 0 },
      },
    },
  };
}

export function openApiOf({ name, description }: AnyEnvironment, schemas: object): object {
  const reply = { "200": { description: "OK", content: { "application/json": { schema: {} } } } };
  const session = { name: "session_id", in: "query", required: false, schema: { type: "string" } };
  const get = (summary: string, parameters: object[] = []): object => ({
    get: { summary, parameters, responses: reply },
  });
  const post = (summary: string, parameters: object[] = []): object => {
    const requestBody = { content: { "application/json": { schema: { type: "object" } } } };
    return { post: { summary, parameters, requestBody, responses: reply } };
  };
  return {
    openapi: "3.1.0",
    info: { title: name, description, version: "1.0.0" },
    servers: [{ url: "." }],
    paths: {
      "/health": get("Whether the server is healthy"),
      "/metadata": get("The environment's name and description"),
      "/schema": get("The schemas of action, observation and state"),
      "/state": get("The episode and its number of steps", [session]),
      "/reset": post("Start an episode", [session]),
      "/step": post("Act in the episode", [session]),
      "/mcp": post("OpenEnv's JSON-RPC methods", [session]),
      "/list_environments": get("The names of the environments"),
      "/{env}/splits": get("The splits of the tasks"),
      "/{env}/tasks": post("The tasks of a split"),
      "/{env}/num_tasks": post("The number of tasks in a split"),
      "/{env}/task": post("A task by its index"),
      "/{env}/task_range": post("Tasks by their indexes"),
    },
    components: { schemas },
  };
}
