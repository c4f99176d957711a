// eventKey(): the keys under which a store finds events, such as the event of a call id.
import type { Event } from "./event.ts";

/**
 * Returns the key for an event that a log may contain only once. The key of a call includes the episode, because models
 * number their calls anew in each episode.
 */
export function eventKey(event: Event): string | undefined {
  switch (event.type) {
    case "session.seeded":
      return event.call === undefined ? undefined : seedKey(event.call);
    case "tool.called":
      return event.call === undefined ? undefined : callKey(event.episode, event.call);
    case "tool.claimed":
      return callKey(event.episode, event.call);
    case "tool.settled":
      return settledKey(event.episode, event.call);
    case "model.called":
      return event.call === undefined ? undefined : modelKey(event.episode, event.call);
    case "session.verified":
      return verifiedKey(event.judged, event.digest);
    case "verify.failed":
      return `failed ${verifiedKey(event.judged, event.digest)}`;
    case "invocation.began":
    case "client.answered":
      return event.call === undefined ? undefined : turnKey(event.call);
    case "session.updated":
      return event.call === undefined ? undefined : updateKey(event.call);
    default:
      return undefined;
  }
}

export const callKey = (episode: number, call: string): string => `call ${episode} ${call}`;
export const settledKey = (episode: number, call: string): string => `settled ${episode} ${call}`;
export const modelKey = (episode: number, call: string): string => `model ${episode} ${call}`;
export const seedKey = (call: string): string => `seed ${call}`;
export const turnKey = (call: string): string => `turn ${call}`;
export const updateKey = (call: string): string => `update ${call}`;
export const verifiedKey = (judged: number, digest: string): string => `verified ${judged} ${digest}`;
