// The types of s3.mjs, for tests.
import type { IncomingHttpHeaders } from "node:http";

export interface S3Options {
  bucket?: string;
  accessKeyId?: string;
  secretAccessKey?: string;
  region?: string;
  folder?: string;
  port?: number;
  ignoresConditions?: boolean;
  ignoresDeleteConditions?: boolean;
}

export interface S3Request {
  method: string;
  key: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  time: number;
}

export interface S3Fault {
  status?: number;
  code?: string;
  cut?: "before" | "after";
  delay?: number;
  hang?: boolean;
}

export interface S3Server {
  endpoint: string;
  port: number;
  objects: Map<string, { body: Buffer; etag: string; modified: number }>;
  requests: S3Request[];
  onRequest(decide: ((request: S3Request) => S3Fault | undefined) | undefined): void;
  failNext(count: number, fault: S3Fault): void;
  stop(): Promise<void>;
}

export function startS3(options?: S3Options): Promise<S3Server>;

export function signatureOf(request: {
  method: string;
  path: string;
  headers: Record<string, string>;
  signedHeaders: string[];
  secretAccessKey: string;
  scope: string;
}): string;
