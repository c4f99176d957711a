// Reads a client's own tools and the results of their calls from requests to OpenAI's APIs.
import { checkedTools, type ClientResult } from "../../agent/client-tools.ts";
import { HoldfastError } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";
import {
  isFunctionCall,
  type FunctionCall,
  type FunctionCallOutput,
  type Item,
  type ToolSchema,
} from "../../core/model.ts";
import { objects, type Fields } from "../http/dialects/dialect.ts";

/**
 * Returns the id of a call for the client. It contains the response's id, because models repeat their own call ids.
 * Clients that send the whole conversation with each request do not name the response anywhere else.
 */
export const nameCall = (response: string, { call_id }: { call_id: string }): string => `${response}.${call_id}`;

/** Returns the response and the model's own id in a call's id; undefined if `nameCall` did not make the id. */
export function parseCall(id: string): { response: string; call: string } | undefined {
  const [, response, call] = /^(.+?_[1-9]\d{0,14})\.(.+)$/s.exec(id) ?? [];
  return response === undefined || call === undefined ? undefined : { response, call };
}

/** Reads the tools of a request. Tools that OpenAI's servers would run are refused. */
export function readTools({ tools, tool_choice: choice }: Fields, isChat: boolean): ToolSchema[] {
  const given = objects(tools, "tools").map((tool) => {
    const described = isChat && isObject(tool["function"]) ? tool["function"] : tool;
    const { parameters } = described;
    return { ...described, type: tool["type"], parameters: parameters ?? { type: "object", properties: {} } };
  });
  const checked = checkedTools(given, "tools");
  return choice === "none" ? [] : checked;
}

/** The parts of a request's input. */
export interface Asked {
  message: Item[];
  results: ClientResult[];
  /** The response whose calls the results are for, if the calls' ids name it. */
  response: string | undefined;
}

/** Splits the input of a request that names no conversation: only results at its end continue a turn. */
export function splitHistory(input: Item[]): Asked {
  const last = input.findLastIndex(({ type }) => type !== "function_call_output");
  const outputs = input.slice(last + 1) as FunctionCallOutput[];
  const named = outputs.map(({ call_id }) => parseCall(call_id)?.response);
  const [response] = named;
  if (response !== undefined && named.every((each) => each === response)) {
    return { message: [], results: outputs.map(toResult), response };
  }
  const calls = new Set(input.filter(isFunctionCall).map(({ call_id }) => call_id));
  const orphan = outputs.find(({ call_id }) => !calls.has(call_id));
  if (orphan) throw notOpen(orphan.call_id);
  return { message: input, results: [], response: undefined };
}

/** Splits the input of a request that continues a conversation. Clients may repeat the calls before their results. */
export function splitInput(input: Item[]): Asked {
  const calls = new Set(input.filter(isFunctionCall).map(({ call_id }) => call_id));
  const isOutput = (item: Item): item is FunctionCallOutput => item.type === "function_call_output";
  const isOpen = ({ call_id }: FunctionCallOutput): boolean => parseCall(call_id) !== undefined || !calls.has(call_id);
  const outputs = input.filter(isOutput).filter(isOpen);
  const answered = new Set(outputs.map(({ call_id }) => call_id));
  const isRest = (item: Item): boolean =>
    !((isOutput(item) || isFunctionCall(item)) && answered.has((item as FunctionCall).call_id));
  const named = outputs.map(({ call_id }) => parseCall(call_id)?.response).filter((each) => each !== undefined);
  const [response] = named;
  const other = named.findIndex((each) => each !== response);
  if (other >= 0) throw notOpen((outputs[other] as FunctionCallOutput).call_id);
  return { message: input.filter(isRest), results: outputs.map(toResult), response };
}

const toResult = ({ call_id, output }: FunctionCallOutput): ClientResult => ({
  call_id: parseCall(call_id)?.call ?? call_id,
  output,
});

/** Returns the error for a result whose call is not open in the conversation that the request continues. */
export const notOpen = (call: string): HoldfastError =>
  new HoldfastError("call_not_open", `No tool call found for function call output with call_id ${call.slice(0, 100)}.`);
