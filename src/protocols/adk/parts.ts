// Translates between ADK's parts of a message and items of a conversation.
import { invalidOption } from "../../core/errors.ts";
import { isObject, parseJson, type Json } from "../../core/json.ts";
import { isFunctionCall, isMessage, toText, type Content, type Item } from "../../core/model.ts";
import type { ClientResult } from "../../agent/client-tools.ts";
import { fileContent, parseDataUrl, userMessage } from "../http/user-message.ts";

export type Part =
  | { text: string; thought?: true }
  | { inlineData: { mimeType: string; data: string; displayName?: string } }
  | { fileData: { fileUri: string } }
  | { functionCall: { id: string; name: string; args: { [name: string]: Json } } }
  | { functionResponse: { id: string; name: string; response: { [name: string]: Json } } };

/** Returns an item's parts. Content of a kind that ADK does not have is left out. */
export function toParts(item: Item): Part[] {
  if (isMessage(item)) {
    const { content } = item;
    return typeof content === "string" ? texts(content) : content.flatMap(toPart);
  }
  if (isFunctionCall(item)) {
    const args = parseJson(item.arguments);
    const given = isObject(args) ? (args as { [name: string]: Json }) : { input: item.arguments };
    return [{ functionCall: { id: item.call_id, name: item.name, args: given } }];
  }
  if (item.type !== "reasoning" || !Array.isArray(item["summary"])) return [];
  return texts(toText(item["summary"] as Content[])).map((part) => ({ ...part, thought: true }));
}

const texts = (text: string): { text: string }[] => (text === "" ? [] : [{ text }]);

function toPart(part: Content): Part[] {
  const { image_url: image, file_data: file, file_url: uri, filename, refusal } = part;
  for (const url of [image, file]) {
    if (typeof url !== "string") continue;
    const parsed = parseDataUrl(url);
    if (!parsed) return [{ fileData: { fileUri: url } }];
    const { type: mimeType, data } = parsed;
    return [{ inlineData: { mimeType, data, ...(typeof filename === "string" && { displayName: filename }) } }];
  }
  if (typeof uri === "string") return [{ fileData: { fileUri: uri } }];
  return texts(part.text ?? (typeof refusal === "string" ? refusal : ""));
}

/**
 * Reads a message of a request: its items, and results of long-running calls. Throws `invalid_option` if it is invalid.
 */
export function readMessage(message: unknown): { message: Item[] | undefined; results: ClientResult[] | undefined } {
  const parts = isObject(message) ? message["parts"] : undefined;
  if (!Array.isArray(parts) || parts.length === 0) throw invalidOption("newMessage.parts must be a list of parts");
  const content: Content[] = [];
  const results: ClientResult[] = [];
  for (const [at, part] of parts.entries()) {
    const place = `newMessage.parts[${at}]`;
    const { functionResponse, function_response: snake = functionResponse } = Object(part) as {
      [kind: string]: unknown;
    };
    if (isObject(snake)) results.push(readResult(snake, place));
    else content.push(readPart(part, place));
  }
  return {
    message: content.length > 0 ? [userMessage(content)] : undefined,
    results: results.length > 0 ? results : undefined,
  };
}

/** Reads the result of a tool. ADK wraps a string as `{ result }`. */
function readResult({ id, response }: { [field: string]: unknown }, place: string): ClientResult {
  if (typeof id !== "string" || !isObject(response)) {
    throw invalidOption(`${place}.functionResponse must have an id and a response`);
  }
  const { result, ...others } = response;
  const isText = typeof result === "string" && Object.keys(others).length === 0;
  return { call_id: id, output: isText ? result : JSON.stringify(response) };
}

function readPart(part: unknown, place: string): Content {
  const { text, inlineData, fileData } = Object(part) as { [kind: string]: unknown };
  if (typeof text === "string") return { type: "input_text", text };
  if (isObject(inlineData) && typeof inlineData["mimeType"] === "string" && typeof inlineData["data"] === "string") {
    const { mimeType, data, displayName } = inlineData as { mimeType: string; data: string; displayName?: unknown };
    return fileContent({ type: mimeType, data, name: typeof displayName === "string" ? displayName : undefined });
  }
  if (isObject(fileData) && typeof fileData["fileUri"] === "string") {
    const { mimeType: type, fileUri: url } = fileData;
    return fileContent({ type: typeof type === "string" ? type : "", url });
  }
  throw invalidOption(
    `${place} must have text, inlineData, fileData or functionResponse; other parts are not supported in a message`,
  );
}
