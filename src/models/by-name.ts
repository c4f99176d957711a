// Creates models from names such as "openai:gpt-5.1", for commands, and uses them in place of an agent's own models.
import { existsSync } from "node:fs";
import { mapModelAgents, type Agent } from "../core/agent.ts";
import { cannotLoad, invalidOption } from "../core/errors.ts";
import { assertNoFolder } from "../io/private-files.ts";
import type { Model } from "../core/model.ts";

const names = "scripted, random, random:SEED, openai:NAME, chat:NAME, anthropic:NAME and recorded:FILE";

/** Returns a copy of the agent in which it and every sub-agent use the named model. */
export async function withModel(agent: Agent, name: string): Promise<Agent> {
  if (name === "scripted") return assertScripted(agent);
  const model = await modelNamed(name);
  return mapModelAgents(agent, (found) => ({ ...found, model }));
}

/** Creates the named model. `seed` is the seed for a random model whose name has no seed. */
export async function modelNamed(name: string, seed = 0): Promise<Model> {
  const [, kind, rest = ""] = /^([a-z]+)(?::(.*))?$/.exec(name) ?? [];
  switch (kind) {
    case "random":
      return (await import("./random.ts")).randomModel({ seed: rest === "" ? seed : parseSeed(name, rest) });
    case "openai":
      return (await import("./openai.ts")).openaiModel({ model: given(name, rest, "openai:gpt-5.1") });
    case "chat":
      return (await import("./chat.ts")).chatModel({ model: given(name, rest, "chat:llama3.2") });
    case "anthropic": {
      const model = given(name, rest, "anthropic:claude-sonnet-4-5");
      return (await import("./anthropic.ts")).anthropicModel({ model });
    }
    case "recorded": {
      const file = given(name, rest, "recorded:answers.jsonl");
      if (!existsSync(file)) throw cannotLoad(`the recording ${file} does not exist`);
      assertNoFolder(file);
      return (await import("./recorded.ts")).recordedModel({ file });
    }
    default:
      throw invalidOption(`"${name}" is not a model; choose one of ${names}`);
  }
}

function parseSeed(name: string, text: string): number {
  const seed = Number(text);
  if (/^\d*$/.test(text) && Number.isSafeInteger(seed)) return seed;
  throw invalidOption(`the seed in ${name} must be a whole number, as in random:7`);
}

function given(name: string, rest: string, example: string): string {
  if (rest !== "") return rest;
  throw invalidOption(`the model ${name} needs a name after the colon, as in ${example}`);
}

/** Refuses an agent whose model is not scripted. */
function assertScripted(agent: Agent): Agent {
  return mapModelAgents(agent, (found) => {
    if (found.model.name === "scripted") return found;
    throw invalidOption(`the agent ${found.name} has no scripted model: its model is ${found.model.name}`);
  });
}
