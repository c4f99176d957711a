// What is said to people of the collections in a queue.
import type { CollectionStatus } from "../../queue/survey.ts";

export function collectionLines({ title, collector, trouble, stalled, ...counts }: CollectionStatus): string[] {
  const { waiting, active, delayed, finished, failed } = counts;
  const parts = [
    `${waiting} waiting`,
    stalled > 0 ? `${active} active (${stalled} of a worker that is not heard of)` : `${active} active`,
    delayed > 0 && `${delayed} put back`,
    `${finished} finished and not taken`,
    failed > 0 && `${failed} failed`,
    !collector && "no collector waits for them",
  ];
  const why = trouble ? [`    put back by ${trouble.worker}: ${trouble.reason}`] : [];
  return [`  ${title}`, `    ${parts.filter(Boolean).join(", ")}`, ...why];
}

export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
