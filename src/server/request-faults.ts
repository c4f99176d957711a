// Reasons to refuse a request before it is routed: a wrong Host header, and bytes that Node cannot parse.
import type { IncomingMessage } from "node:http";
import { HoldfastError } from "../core/errors.ts";

export function hostFault({ headers, httpVersionMinor, rawHeaders }: IncomingMessage): string | undefined {
  if (headers.host === undefined) {
    return httpVersionMinor === 1 ? "an HTTP/1.1 request must have a Host header" : undefined;
  }
  // Node keeps the first of two. Another server on the way may go by the second.
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts > 1 ? "a request must have one Host header" : undefined;
}

export function parseFault({ code }: NodeJS.ErrnoException): HoldfastError {
  if (code === "HPE_HEADER_OVERFLOW") return new HoldfastError("headers_too_large", "the headers are too large");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new HoldfastError("request_timeout", "the request took too long");
  return new HoldfastError("invalid_request", "the bytes received are not HTTP/1.1");
}
