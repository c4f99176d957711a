// createRequestedModels(): the model for a request. The client chooses its URL, so only allowed servers are asked.
import { invalidOption } from "../../core/errors.ts";
import type { Model } from "../../core/model.ts";
import { isLoopback } from "../../io/loopback.ts";
import type { RequestedModel } from "./request.ts";

/** Models that run in this process. */
const ownModels = new Set(["scripted", "random"]);

/**
 * Returns a function that creates the model for a request; for a built-in model it returns the name. Only this machine
 * and the URLs in `allowed` are permitted. Otherwise a client could reach any server that this machine reaches. This
 * process's API key is sent only to URLs in `allowed`.
 */
export function createRequestedModels(
  allowed: readonly string[] = [],
): (given: RequestedModel) => Promise<Model | string> {
  const prefixes = allowed.map((text) => parseUrl(text, "an allowed model URL"));

  return async ({ url: text, name, api = "chat" }) => {
    if (text === undefined) {
      if (ownModels.has(name)) return name;
      throw invalidOption('`model.url` is missing; only the models "scripted" and "random" work without it');
    }
    const url = parseUrl(text, "`model.url`");
    const isListed = prefixes.some((prefix) => isBelow(url, prefix));
    if (!isListed && !isLoopback(url.hostname)) {
      throw invalidOption(
        `\`model.url\` ${url.origin} is not on this machine; to allow it, start the server and its workers with --allow-model ${url.origin}`,
      );
    }
    const options = { model: name, baseUrl: text, ...(!isListed && { apiKey: "" }) };
    if (api === "chat") return (await import("../../models/chat.ts")).chatModel(options);
    if (api === "openai") return (await import("../../models/openai.ts")).openaiModel(options);
    return (await import("../../models/anthropic.ts")).anthropicModel(options);
  };
}

function parseUrl(text: string, name: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw invalidOption(
    `${name} must be a URL such as http://127.0.0.1:8000/v1, not ${JSON.stringify(text.slice(0, 100))}`,
  );
}

/** Returns whether `url` equals `above` or is below its path. */
function isBelow(url: URL, above: URL): boolean {
  const folder = above.pathname.replace(/\/*$/, "/");
  return url.origin === above.origin && `${url.pathname}/`.startsWith(folder);
}
