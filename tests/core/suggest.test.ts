// Misspelt options of the public functions are refused, with a suggestion.
import {
  ask,
  createSessions,
  defineAgent,
  defineEnvironment,
  loop,
  memoryStore,
  run,
  scriptedModel,
  sequence,
  tool,
} from "holdfast";
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
])("%s", (message, define) => {
  expect(define).toThrow(message);
});

test("run and ask refuse a misspelt option before anything begins", async () => {
  const options = { sessions: createSessions({ app: "app", store }), mesage: "hi" } as never;
  await expect(run(agent, options).next()).rejects.toThrow('run has no option "mesage"; did you mean message?');
  await expect(ask(agent, options)).rejects.toThrow("did you mean message?");
});

test("an option that is undefined counts as missing", () => {
  expect(() => tool({ description: "", run: () => 1, concurent: undefined } as never)).not.toThrow();
});
