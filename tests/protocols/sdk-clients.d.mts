/** A connected client of either line of the official SDK. */
export interface SdkClient {
  callTool(
    call: { name: string; arguments?: object; _meta?: object },
    options?: { signal?: AbortSignal; onprogress?: (notice: { progress: number }) => void },
  ): Promise<{ content: unknown; structuredContent?: unknown; isError?: boolean }>;
  listTools(): Promise<{ tools: { name: string; inputSchema: object }[] }>;
  close(): Promise<void>;
  sessionId(): string | undefined;
  /** Ends the session of an unbound client. */
  terminate(): Promise<void>;
}

interface Connection {
  fetch?: typeof fetch;
  headers?: { [name: string]: string };
}

export function connectFirst(url: URL, connection: Connection): Promise<SdkClient>;
export function connectSecond(url: URL, connection: Connection & { era: "legacy" | "modern" }): Promise<SdkClient>;
