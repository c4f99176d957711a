// The data source of every page: a server or the files of a bundle.
import type { About, CollectionDetails, CollectionTotals, RowSummary } from "../../../src/rollout/collection-view.ts";
import type { NumberedEvent } from "../../../src/core/event.ts";
import type { TaskRow } from "../../../src/core/rollout.ts";

export interface Source {
  /** Whether a server can answer requests beyond the recorded data. */
  readonly isLive: boolean;
  about(): Promise<About>;
  /** Passes the rows of a run to `take` in batches as they arrive. */
  rows(run: string, take: (rows: RowSummary[]) => void, signal: AbortSignal): Promise<void>;
  /** Passes the indexes of rows whose full text contains `text` to `take` in batches, when they are found. */
  search(run: string, text: string, take: (rows: number[]) => void, signal: AbortSignal): Promise<void>;
  details(run: string): Promise<CollectionDetails>;
  totals(run: string): Promise<CollectionTotals>;
  row(run: string, row: number): Promise<TaskRow>;
  /** The log of a row's session; undefined if this source does not have it. */
  eventsOf(run: string, row: Pick<RowSummary, "row" | "session">): Promise<NumberedEvent[] | undefined>;
}

/** A refusal by the server, or a network failure. */
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
