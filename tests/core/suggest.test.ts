// Misspelt options of the public functions are refused, with a suggestion.
import {
  ask,
  createSessions,
  defineAgent,
  defineEnvironment,
  environmentTools,
  gymTools,
  loop,
  mcpTools,
  memoryStore,
  run,
  scriptedModel,
  sequence,
  tool,
} from "holdfast";
import { chatModel } from "holdfast/models/chat";
import { randomModel } from "holdfast/models/random";
import { mount, serve } from "holdfast/serve";
import { httpStore } from "holdfast/stores/http";
import { postgresStore } from "holdfast/stores/postgres";
import { redisStore } from "holdfast/stores/redis";
import { s3Store } from "holdfast/stores/s3";
import { sqliteStore } from "holdfast/stores/sqlite";
import { tieredStore } from "holdfast/stores/tiered";
import { expect, test } from "vitest";

const model = scriptedModel(["Hello."]);
const agent = defineAgent({ name: "support", model });
const environment = defineEnvironment({ name: "counter", tools: {} });
const store = memoryStore();

test.each<[string, () => unknown]>([
  [
    'the environment counter has no option "sed"; did you mean seed?',
    () => defineEnvironment({ name: "counter", tools: {}, sed: () => ({}) } as never),
  ],
  [
    'a tool has no option "concurent"; did you mean concurrent?',
    () => tool({ description: "", run: () => 1, concurent: true } as never),
  ],
  [
    'the agent support has no option "outputSchema"; the options are name, description, instruction, model, tools, toolsets, clientTools, agents, callbacks, outputKey, limits',
    () => defineAgent({ name: "support", model, outputSchema: {} } as never),
  ],
  [
    '`callbacks` of support has no option "beforeAgnet"; did you mean beforeAgent?',
    () => defineAgent({ name: "support", model, callbacks: { beforeAgnet: () => undefined } } as never),
  ],
  [
    '`limits` of support has no option "step"; did you mean steps?',
    () => defineAgent({ name: "support", model, limits: { step: 3 } } as never),
  ],
  [
    '`callbacks` of the sequence both has no option "beforeModel"; the options are beforeAgent, afterAgent',
    () => sequence({ name: "both", agents: [agent], callbacks: { beforeModel: () => undefined } } as never),
  ],
  [
    'the loop all has no option "agent"; did you mean agents?',
    () => loop({ name: "all", agents: [agent], agent, times: 1 } as never),
  ],
  [
    'createSessions has no option "timout"; did you mean timeout?',
    () => createSessions({ environment, store, timout: 5 } as never),
  ],
  [
    '`limits` of createSessions has no option "idel"; did you mean idle?',
    () => createSessions({ app: "app", store, limits: { idel: 5 } } as never),
  ],
  ["createSessions needs `store`, as in memoryStore()", () => createSessions({ environment } as never)],
  ["createSessions needs `store`, as in memoryStore()", () => createSessions({ app: "app" } as never)],
  [
    "createSessions needs `environment`, which defineEnvironment returns, or `app`",
    () => createSessions({ environment: {}, store } as never),
  ],
  [
    'sqliteStore takes an object with options, not "x.db"; the options are file, durability',
    () => sqliteStore("x.db" as never),
  ],
  ['chatModel has no option "modle"; did you mean model?', () => chatModel({ modle: "m" } as never)],
  ["chatModel needs `model`, the model's name on its server", () => chatModel({} as never)],
  [
    'chatModel takes an object with options, not "m"; the options are model, baseUrl, apiKey, headers, attempts, timeout, request',
    () => chatModel("m" as never),
  ],
  [
    'the model m has no option "baseURL"; did you mean baseUrl?',
    () => chatModel({ model: "m", apiKey: "k", baseURL: "http://127.0.0.1:8000/v1" } as never),
  ],
  ['randomModel has no option "sed"; did you mean seed?', () => randomModel({ sed: 1 } as never)],
  [
    'sqliteStore has no option "durabilty"; did you mean durability?',
    () => sqliteStore({ file: "never-made.db", durabilty: "power" } as never),
  ],
  [
    'redisStore has no option "expires"; did you mean expire?',
    () => redisStore({ url: "redis://127.0.0.1:1", expires: 5 } as never),
  ],
  [
    'postgresStore has no option "schema"; the options are url',
    () => postgresStore({ url: "postgres://127.0.0.1:1/none", schema: "mine" } as never),
  ],
  [
    's3Store has no option "credential"; did you mean credentials?',
    () => s3Store({ url: "s3://bucket/logs", credential: {} } as never),
  ],
  [
    'tieredStore has no option "idel"; did you mean idle?',
    () => tieredStore({ hot: store, cold: store, idle: 5, idel: 5 } as never),
  ],
  [
    'mcpTools has no option "header"; did you mean headers?',
    () => mcpTools({ url: "http://127.0.0.1:1/mcp", header: {} } as never),
  ],
  [
    'environmentTools has no option "tsak"; did you mean task?',
    () => environmentTools(createSessions({ environment, store }), { tsak: () => ({}) } as never),
  ],
  ['gymTools has no option "tool"; did you mean tools?', () => gymTools("http://127.0.0.1:1", { tool: [] } as never)],
])("%s", (message, define) => {
  expect(define).toThrow(message);
});

test("run and ask refuse a misspelt option before anything begins", async () => {
  const options = { sessions: createSessions({ app: "app", store }), mesage: "hi" } as never;
  await expect(run(agent, options).next()).rejects.toThrow('run has no option "mesage"; did you mean message?');
  await expect(ask(agent, options)).rejects.toThrow("did you mean message?");
});

test("sessions refuse a misspelt option: without its id, a repeated call would be applied twice", async () => {
  const add = tool({ description: "Add.", run: () => 1 });
  const sessions = createSessions({ environment: defineEnvironment({ name: "adder", tools: { add } }), store });
  const { session } = await sessions.open();
  const misspelt = { id: "call_7" } as never;
  await expect(sessions.call(session, "add", {}, misspelt)).rejects.toThrow('call has no option "id"');
  await expect(sessions.open(misspelt)).rejects.toThrow('open has no option "id"');
  await expect(sessions.seed(session, {}, misspelt)).rejects.toThrow('seed has no option "id"');
  await expect(sessions.verify(session, misspelt)).rejects.toThrow('verify has no option "id"');
  await expect(sessions.fork(session, { versoin: 1 } as never)).rejects.toThrow("did you mean version?");
  await expect(firstOf(sessions.events(session, { afetr: 2 } as never))).rejects.toThrow("did you mean after?");
  await expect(firstOf(sessions.list({ opn: true } as never))).rejects.toThrow("did you mean open?");
  const conversations = createSessions({ app: "app", store });
  await expect(conversations.open({ usr: "ann" } as never)).rejects.toThrow("did you mean user?");
  const { session: talk } = await conversations.open();
  await expect(conversations.fork(talk, { sett: {} } as never)).rejects.toThrow("did you mean set?");
});

test("httpStore refuses a misspelt option, because without its token a service would be asked without one", async () => {
  const options = { url: "http://127.0.0.1:1", token: "abc" } as never;
  await expect(httpStore(options)).rejects.toThrow('httpStore has no option "token"; the options are url');
});

test("serve and mount refuse a misspelt option, because without its token a server would be open", async () => {
  const options = { environments: [environment], store, port: 0, tokn: "long enough" } as never;
  await expect(serve(options)).rejects.toThrow('serve has no option "tokn"; did you mean token?');
  await expect(mount(options)).rejects.toThrow('mount has no option "port"');
  const limits = { environments: [environment], store, limits: { heartbeet: 1 } } as never;
  await expect(mount(limits)).rejects.toThrow('`limits` has no option "heartbeet"; did you mean heartbeat?');
});

test("an option that is undefined counts as missing", () => {
  expect(() => tool({ description: "", run: () => 1, concurent: undefined } as never)).not.toThrow();
});

async function firstOf<T>(all: AsyncIterable<T>): Promise<T | undefined> {
  for await (const one of all) return one;
  return undefined;
}
