// The flags of `holdfast replay`.

export interface ReplayFlags {
  environment: string;
  store?: string;
  json?: boolean;
}
