// The flags of `holdfast export`.

export interface ExportFlags {
  format: "chat" | "sft" | "grpo";
  out?: string;
  minReward: number;
  force?: boolean;
  json?: boolean;
}
