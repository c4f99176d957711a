// The tool that ends an episode and returns the reward, for protocols that have no verify request of their own.
import type { AnyEnvironment } from "../../core/environment.ts";
import type { Json } from "../../core/json.ts";
import type { Sessions, Verification } from "../../core/sessions.ts";
import { assertFirst, firstVerdict } from "./first-verdict.ts";

/** Returns the name of the tool. It changes if the environment has its own tool "submit". */
export const submitNameIn = ({ definitions }: AnyEnvironment): string =>
  definitions.has("submit") ? "submit_episode" : "submit";

export const submitTool = {
  description: "End the episode and have it scored. Call it once, when the task is done.",
  input: {
    type: "object",
    properties: { response: { description: "the final answer, if the task asks for one" } },
    additionalProperties: false,
  },
} as const satisfies { description: string; input: Json };

/**
 * Scores an episode. A repeat returns the same verdict. A different second submission is refused. `isRepeat`: the
 * client may be repeating a submission whose answer it lost, even if calls followed.
 */
export async function submit(
  sessions: Sessions,
  session: string,
  response: Json | undefined,
  isRepeat = false,
): Promise<Pick<Verification, "reward" | "verdict">> {
  const verdict = isRepeat ? await firstVerdict(sessions, session, response) : undefined;
  if (verdict) return { reward: verdict.reward, verdict };
  const verified = await sessions.verify(session, { response });
  if (verified.verdicts > 1) await assertFirst(sessions, verified, response, "episode_over");
  return verified;
}
