// tracedAgent(): records a span per model answer, with OpenTelemetry's names for generative AI. Never records content.
import type { Attributes } from "@opentelemetry/api";
import { mapModelAgents, type Agent } from "../core/agent.ts";
import type { Model, ModelRequest, ModelResponse } from "../core/model.ts";
import type { Spans } from "./spans.ts";

/** The provider of each kind of model that is named `<kind>:<model>`. `chat` is OpenAI's older API. */
const providers = new Map([
  ["openai", "openai"],
  ["chat", "openai"],
  ["anthropic", "anthropic"],
]);

function tracedModel(model: Model, spans: Spans): Model {
  const [kind = "", rest = ""] = model.name.split(/:(.*)/s, 2);
  const provider = providers.get(kind) ?? kind;
  const name = providers.has(kind) ? rest : kind;
  return {
    name: model.name,
    respond: (request, options) =>
      spans.traced({
        name: `chat ${name}`,
        kind: spans.api.SpanKind.CLIENT,
        run: () => model.respond(request, options),
        before: () => ({
          "gen_ai.operation.name": "chat",
          // Some tools know only the older attribute name, `gen_ai.system`.
          "gen_ai.provider.name": provider,
          "gen_ai.system": provider,
          "gen_ai.request.model": name,
          ...requested(request),
        }),
        after: answered,
      }),
  };
}

function requested({ temperature, top_p, max_output_tokens }: ModelRequest): Attributes {
  return numbers({
    "gen_ai.request.temperature": temperature,
    "gen_ai.request.top_p": top_p,
    "gen_ai.request.max_tokens": max_output_tokens,
  });
}

function answered({ id, model, status, usage, output }: ModelResponse): Attributes {
  return {
    ...(id !== undefined && { "gen_ai.response.id": id }),
    ...(model !== undefined && { "gen_ai.response.model": model }),
    "gen_ai.response.finish_reasons": [status],
    ...numbers({
      "gen_ai.usage.input_tokens": usage?.input_tokens,
      "gen_ai.usage.output_tokens": usage?.output_tokens,
      "holdfast.tool_calls": output.filter(({ type }) => type === "function_call").length,
    }),
  };
}

/** Keeps only attributes with a number as their value, because servers and rows may contain values of any type. */
function numbers(given: { [attribute: string]: unknown }): Attributes {
  return Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, number] => typeof entry[1] === "number"),
  );
}

/** Copies an agent with all its models traced, including the models of sub-agents and of agents used as tools. */
export function tracedAgent<A extends Agent>(agent: A, spans: Spans): A {
  return mapModelAgents(agent, (found) => ({ ...found, model: tracedModel(found.model, spans) })) as A;
}
