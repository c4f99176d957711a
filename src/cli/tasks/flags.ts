// The flags of `holdfast tasks`.
import type { Part } from "../../rollout/task-sets.ts";

export interface TasksFlags {
  environment?: string;
  number: number;
  parts: Part[];
  seed: number;
  prompt?: string;
  promptFile?: string;
  system?: string;
  systemFile?: string;
  replace?: boolean;
  out?: string;
  force?: boolean;
  json?: boolean;
}
