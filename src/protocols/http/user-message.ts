// userMessage(): a user's message from the parts that a client sent.
import { toText, type Content, type Message } from "../../core/model.ts";

/** Builds a message. If there is only text, its content is a string, as agents and models expect most often. */
export function userMessage(parts: Content[]): Message {
  const isText = parts.every(({ type }) => type === "input_text");
  return { type: "message", role: "user", content: isText ? toText(parts) : parts };
}

/** Returns the type and the base64 data of a data URL; undefined for any other URL. */
export function parseDataUrl(url: string): { type: string; data: string } | undefined {
  const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return type === undefined || data === undefined ? undefined : { type, data };
}

/** Builds the content for a file, from its bytes in base64, or from its URL. */
export function fileContent(file: { type: string; data?: string; url?: string; name?: string | undefined }): Content {
  const { type, data, name = "file" } = file;
  // Some clients use the URL-safe alphabet of base64, but data URLs need the standard one.
  const bytes = data?.replaceAll("-", "+").replaceAll("_", "/");
  const url = bytes === undefined ? file.url : `data:${type};base64,${bytes}`;
  if (type.startsWith("image/")) return { type: "input_image", image_url: url };
  return bytes === undefined
    ? { type: "input_file", file_url: url }
    : { type: "input_file", filename: name, file_data: url };
}
