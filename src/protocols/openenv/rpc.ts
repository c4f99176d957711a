// OpenEnv's JSON-RPC: four methods, always with status 200.
import { ellipsis } from "../../core/ellipsis.ts";
import { HoldfastError, isHoldfastError, type ErrorCode } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";
import { readMetaCall } from "../http/call-id.ts";
import {
  codes,
  errorBody,
  invalidParams,
  isFault,
  readMessage,
  resultBody,
  type Fault,
  type Id,
} from "../http/json-rpc.ts";

export interface RpcMethods {
  listTools(): object;
  /** Calls a tool, and returns OpenEnv's form of its result. Throws an error that the model may read. */
  call(session: string, tool: string, input: unknown, id: string | undefined): Promise<object>;
  create(): object;
  close(session: string): Promise<object>;
  /** Throws if the id is invalid. */
  read(id: unknown): string;
}

/** Ids that the request has outside its JSON-RPC message: of the session and of the call. */
interface Given {
  session: string | undefined;
  call?: string | undefined;
}

/** Answers a message. Never throws a HoldfastError, but passes it to `failedWith`, for the server's log. */
export async function answerRpc(
  body: unknown,
  given: Given,
  methods: RpcMethods,
  failedWith: (thrown: HoldfastError) => void,
): Promise<object> {
  const message = readMessage(body);
  if (isFault(message)) return failed(message.id, message);
  const { id, method, params } = message;
  try {
    return resultBody(id ?? (null as unknown as Id), await resultOf(method, params, given, methods));
  } catch (thrown) {
    if (!isHoldfastError(thrown)) throw thrown;
    failedWith(thrown);
    return failed(id, rpcFault(thrown));
  }
}

async function resultOf(
  method: string | undefined,
  params: { [name: string]: unknown },
  given: Given,
  methods: RpcMethods,
): Promise<object> {
  const session = (): string => methods.read(params["session_id"] ?? given.session);
  switch (method) {
    case "tools/list":
      return methods.listTools();
    case "tools/call": {
      const { name, arguments: input = {} } = params;
      if (typeof name !== "string") throw new HoldfastError("invalid_option", "params.name must be the name of a tool");
      if (!isObject(input)) throw new HoldfastError("invalid_option", "params.arguments must be an object");
      return methods.call(session(), name, input, given.call ?? readMetaCall(params["_meta"]));
    }
    case "openenv/session/create":
      return methods.create();
    case "openenv/session/close":
      return methods.close(session());
    default:
      throw new HoldfastError("method_not_allowed", `there is no method "${ellipsis(method ?? "", 100)}"`);
  }
}

/** OpenEnv's clients expect `data` in every error. */
const failed = (id: Id | undefined, fault: Omit<Fault, "status">): object =>
  errorBody(id, { ...fault, data: fault.data ?? null });

/** Failures of a tool. OpenEnv's servers report them as internal errors, because the parameters were valid. */
const toolFailures: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["tool_failed", "tool_timeout", "call_cancelled"]);

export function rpcFault({ code, status, message }: HoldfastError): Fault {
  const data = { code };
  if (code === "invalid_json") return { status: 200, code: codes.parse, message, data };
  if (code === "method_not_allowed") return { status: 200, code: codes.methodNotFound, message, data };
  if (status >= 500 || toolFailures.has(code)) return { status: 200, code: codes.internal, message, data };
  return { ...invalidParams(message, 200), data };
}
