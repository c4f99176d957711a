// The flags of `holdfast metrics`.

export interface MetricsFlags {
  tasks?: boolean;
  byBranch?: boolean;
  all?: boolean;
  answerKey?: string;
  seed: number;
  json?: boolean;
}
