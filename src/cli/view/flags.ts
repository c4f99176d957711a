// The flags of `holdfast view`.

export interface ViewFlags {
  store?: string;
  /** Targets, as often as the flag was given. */
  environment?: string[];
  port: number;
  host: string;
  token?: string;
  model?: string;
  open: boolean;
  bundle?: string;
}
