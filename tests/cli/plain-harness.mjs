// A harness in one file: a loop between the model and the MCP server of its environment variables. The first argument
// changes it. `fixed`: its requests and calls have the same ids in every run. `title`: asks for a title first. `twice`: asks everything twice. `crash`: fails after the first answer.
// `silent`: asks no model. `text`: asks until it is refused, without tools. `recover`: starts again with a shorter prompt
// after a request that was too long. `hang FILE`: never ends. `child FILE`: leaves a process behind. `reads FILE`: writes down its environment.
import { spawn } from "node:child_process";
import { appendFileSync, readdirSync } from "node:fs";

const {
  HOLDFAST_MCP_URL: mcp,
  HOLDFAST_MODEL_URL: model,
  HOLDFAST_MODEL_KEY: key,
  HOLDFAST_PROMPT: prompt,
} = process.env;
const [, , mode, argument] = process.argv;
const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };

let sent = 0;
const post = async (url, body) => {
  const id = mode === "fixed" ? { "idempotency-key": `request-${sent++}` } : {};
  const reply = await fetch(url, {
    method: "POST",
    headers: { ...headers, ...id, authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  const json = await reply.json();
  if (!reply.ok) throw new Error(JSON.stringify(json));
  return json;
};
const rpc = (method, params) => post(mcp, { jsonrpc: "2.0", id: 1, method, params }).then(({ result }) => result);
const chat = (messages, tools) => post(`${model}/chat/completions`, { model: "any", temperature: 2, messages, tools });

if (mode === "reads") {
  appendFileSync(
    argument,
    `${JSON.stringify({ env: process.env, files: readdirSync(process.env.HOLDFAST_FOLDER), cwd: process.cwd() })}\n`,
  );
}
if (mode === "child") {
  const left = spawn("sleep", ["300"], { stdio: "ignore" });
  left.unref();
  appendFileSync(argument, `${left.pid}\n`);
}
if (mode === "hang") {
  appendFileSync(argument, `${process.pid}\n`);
  process.on("SIGTERM", () => undefined);
  await new Promise((resolve) => setTimeout(resolve, 300_000));
}
if (mode === "silent") process.exit(0);
if (mode === "text") for (let turn = 0; ; turn++) await chat([{ role: "user", content: `Go on ${turn}` }]);
if (mode === "recover") {
  const long = [{ role: "user", content: `${prompt} `.repeat(9) }];
  const { error } = await chat(long).then(
    () => ({}),
    (thrown) => JSON.parse(thrown.message),
  );
  if (error?.code !== "context_length_exceeded" || /https?:/.test(error.message))
    throw new Error(JSON.stringify(error));
}
if (mode === "title")
  await chat([
    { role: "system", content: "Write a title." },
    { role: "user", content: prompt },
  ]);
const listed = await rpc("tools/list", {});
const tools = listed.tools.map(({ name, description, inputSchema }) => ({
  type: "function",
  function: { name: `mcp__counter__${name}`, description, parameters: inputSchema },
}));
const messages = [
  { role: "system", content: "You are a harness." },
  { role: "user", content: prompt },
];
for (;;) {
  if (mode === "twice") await chat(messages, tools);
  const { choices } = await chat(messages, tools);
  const { message } = choices[0];
  messages.push(message);
  if (mode === "crash") {
    process.stderr.write("it broke\n");
    process.exit(3);
  }
  if (!message.tool_calls) break;
  for (const { id, function: called } of message.tool_calls) {
    const params = {
      name: called.name.replace("mcp__counter__", ""),
      arguments: JSON.parse(called.arguments),
      _meta: { callId: mode === "fixed" ? `call-${sent}` : id },
    };
    const { content } = await rpc("tools/call", params);
    messages.push({ role: "tool", tool_call_id: id, content: content[0].text });
  }
}
