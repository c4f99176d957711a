// Where the page gets what it shows: a server, or the files of a bundle. Pages know only this.
import type { About, RowSummary } from "../../../src/rollout/collection-view.ts";
import type { NumberedEvent } from "../../../src/core/event.ts";
import type { TaskRow } from "../../../src/core/rollout.ts";

export interface Source {
  /** Whether there is a server to ask for more than what was recorded. */
  readonly isLive: boolean;
  about(): Promise<About>;
  /** Hands over the rows of a run as they come, many at a time. */
  rows(run: string, take: (rows: RowSummary[]) => void, signal: AbortSignal): Promise<void>;
  row(run: string, row: number): Promise<TaskRow>;
  /** The log of a row's session; undefined if it is not kept here. */
  eventsOf(run: string, row: Pick<RowSummary, "row" | "session">): Promise<NumberedEvent[] | undefined>;
}

/** A refusal of the server, or of the network. */
export class SourceError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));
