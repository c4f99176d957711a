// Parses the location of an S3 store, and its credentials.
import { invalidOption } from "../../core/errors.ts";

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** The token of temporary credentials. */
  sessionToken?: string;
}

export interface Location extends S3Credentials {
  /** The store's name in messages. Contains no secrets. */
  name: string;
  origin: string;
  /** The path of the bucket, percent-encoded, without a slash at its end. Paths of objects start with it. */
  bucketPath: string;
  /** The start of all keys: empty, or with a slash at its end. */
  prefix: string;
  region: string;
}

const parameters = new Set(["endpoint", "region", "style"]);

/** Parses `s3://bucket/prefix?endpoint=…&region=…&style=path`. Missing options come from environment variables. */
export function locationOf(
  url: string,
  credentials: S3Credentials | undefined,
  env: Record<string, string | undefined>,
): Location {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw invalidOption("`url` must look like s3://bucket/prefix");
  }
  if (parsed.protocol !== "s3:" || parsed.hostname === "")
    throw invalidOption("`url` must look like s3://bucket/prefix");
  if (parsed.username !== "" || parsed.password !== "" || parsed.port !== "") {
    throw invalidOption(
      "`url` must contain only a bucket and a prefix; set credentials with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  }
  const unknown = [...parsed.searchParams.keys()].find((name) => !parameters.has(name));
  if (unknown !== undefined) {
    throw invalidOption(`\`url\` has an unknown parameter ${unknown}; the parameters are endpoint, region and style`);
  }

  const bucket = parsed.hostname;
  const parts = parsed.pathname.split("/").filter((part) => part !== "");
  const prefix = parts.map((part) => `${decodeURIComponent(part)}/`).join("");
  const region = parsed.searchParams.get("region") ?? env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"] ?? "us-east-1";
  const given = parsed.searchParams.get("endpoint") ?? env["AWS_ENDPOINT_URL_S3"] ?? env["AWS_ENDPOINT_URL"];
  const style = parsed.searchParams.get("style") ?? (given !== undefined || bucket.includes(".") ? "path" : "host");
  if (style !== "path" && style !== "host") throw invalidOption("`style` in `url` must be path or host");
  const endpoint = endpointOf(given ?? `https://s3.${region}.amazonaws.com`);
  const base = endpoint.pathname.replace(/\/+$/, "");
  return {
    ...(credentials ?? credentialsIn(env)),
    name: `s3://${bucket}/${prefix.replace(/\/$/, "")}`,
    origin: style === "path" ? endpoint.origin : `${endpoint.protocol}//${bucket}.${endpoint.host}`,
    bucketPath: style === "path" ? `${base}/${bucket}` : base,
    prefix,
    region,
  };
}

function endpointOf(text: string): URL {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw invalidOption("the S3 endpoint must look like https://host:port");
  }
  const endpoint = new URL(text);
  if (endpoint.username !== "" || endpoint.search !== "") {
    throw invalidOption(
      "the S3 endpoint must be an address only; set credentials with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  }
  return endpoint;
}

function credentialsIn(env: Record<string, string | undefined>): S3Credentials {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: token } = env;
  if (!accessKeyId || !secretAccessKey) {
    throw invalidOption(
      "an S3 store needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass `credentials`",
    );
  }
  return { accessKeyId, secretAccessKey, ...(token && { sessionToken: token }) };
}
