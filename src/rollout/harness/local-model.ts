// forHarness(): lets a scripted or random model play through a harness, which renames the environment's tools.
import { isNameOf } from "../../core/bare-names.ts";
import type { AnyEnvironment } from "../../core/environment.ts";
import { toText, type FunctionCallOutput, type Item, type Model, type ModelRequest } from "../../core/model.ts";
import { madeResponse, textItem } from "../../models/local-response.ts";

/**
 * Shows a model only the environment's tools, under the names that its script has. A request that offers none of these
 * tools is a side call of the harness, for example for a title.
 */
export function forHarness(model: Model, environment: AnyEnvironment): Model {
  return {
    name: model.name,
    async respond(request, options) {
      const offered = (request.tools ?? []).map(({ name }) => name);
      const shown = new Map<string, string>();
      for (const tool of environment.definitions.keys()) {
        const found = offered.find((name) => isNameOf(name, tool));
        if (found !== undefined) shown.set(tool, found);
      }
      if (shown.size === 0) return madeResponse(model.name, request, [textItem("side", "Done.")]);
      const own = new Map([...shown].map(([tool, name]) => [name, tool]));
      const asked: ModelRequest = {
        ...request,
        input: request.input.map((item) => plainOutput(renamed(item, own))),
        tools: (request.tools ?? []).flatMap((tool) => {
          const name = own.get(tool.name);
          return name === undefined ? [] : [{ ...tool, name }];
        }),
      };
      const response = await model.respond(asked, options);
      return { ...response, output: response.output.map((item) => renamed(item, shown)) };
    },
  };
}

/** Removes the lines that Codex writes before a tool's output. */
function plainOutput(item: Item): Item {
  if (item.type !== "function_call_output") return item;
  const output = toText((item as FunctionCallOutput).output).replace(/^Wall time: [\d.]+ seconds\nOutput:\n?/, "");
  return { ...item, output };
}

function renamed(item: Item, names: ReadonlyMap<string, string>): Item {
  const name = item.type === "function_call" ? names.get(String(item["name"])) : undefined;
  return name === undefined ? item : { ...item, name };
}
