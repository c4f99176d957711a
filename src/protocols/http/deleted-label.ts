// The labels that mark deleted responses of a conversation. Clients cannot set them.
import { invalidOption } from "../../core/errors.ts";

const prefix = "deleted:";

/** The label of a session that marks one of its responses as deleted. `began`: the version at which it began. */
export const deletedLabel = (began: number): string => `${prefix}${began}`;

/** Refuses labels of a client that would delete responses, or bring deleted ones back. */
export function refuseDeletedLabels(labels: object | undefined): void {
  const name = Object.keys(labels ?? {}).find((each) => each.startsWith(prefix));
  if (name !== undefined) throw invalidOption(`the label ${name} is reserved; delete a response with DELETE`);
}
