// The flags of `holdfast reverify`.

export interface ReverifyFlags {
  environment: string;
  store?: string;
  everyStep?: boolean;
  out: string;
  concurrency: number;
  force?: boolean;
  json?: boolean;
}
