// The types of redis.mjs.

export interface RedisServer {
  url: string;
  port: number;
  folder: string;
  readonly pid: number;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
  /** kill -9. The folder stays, for `restart`. */
  kill(): Promise<void>;
  /** SIGSTOP: it keeps its connections and answers nothing. */
  pause(): void;
  resume(): void;
  /** Ends it if it runs, and starts it again on the same port and data. */
  restart(): Promise<void>;
  command(...command: (string | number)[]): Promise<string>;
}

export interface RedisSentinel {
  url: string;
  master: RedisServer;
  replica: RedisServer;
  sentinels: RedisServer[];
  masterPort(): Promise<number>;
  failover(): Promise<void>;
  moved(from: number): Promise<void>;
  stop(): Promise<void>;
}

export interface RedisCluster {
  url: string;
  servers: RedisServer[];
  stop(): Promise<void>;
}

export function removePrefix(ports: number[], prefix: string): Promise<void>;
export function startRedis(options?: { args?: string[]; folder?: string; port?: number }): Promise<RedisServer>;
export function startSentinel(options?: {
  sentinels?: 1 | 3;
  downAfter?: number;
  args?: string[];
}): Promise<RedisSentinel>;
export function startCluster(size?: number, options?: { args?: string[] }): Promise<RedisCluster>;
