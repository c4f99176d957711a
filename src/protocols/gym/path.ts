// Parses the paths and headers of requests in the gym protocol.
import { invalidOption } from "../../core/errors.ts";

export function withoutRollout(path: string): { rollout?: string; path: string } {
  const found = path.startsWith("/ng-rollout/") && /^\/ng-rollout\/([A-Za-z0-9][A-Za-z0-9._-]*)(\/.*)$/s.exec(path);
  return found ? { rollout: found[1] as string, path: found[2] as string } : { path };
}

/** Returns the tool name from a path with one segment. */
export function parseTool(path: string): string | undefined {
  if (path.length < 2 || path.lastIndexOf("/") !== 0) return undefined;
  const name = path.slice(1);
  if (!name.includes("%")) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

export function parseEpisode(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,15}$/.test(header)) return Number(header);
  throw invalidOption("the header holdfast-episode must be an episode number");
}
