// The flags of `holdfast show`.

export interface ShowFlags {
  task: number;
  repeat?: number;
  store?: string;
  json?: boolean;
}
