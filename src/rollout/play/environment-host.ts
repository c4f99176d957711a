// environmentHost(): hosts episodes in an environment that runs in this process.
import type { Toolset } from "../../core/agent.ts";
import { isHoldfastError, messageOf, unlessCoded } from "../../core/errors.ts";
import { pickTask, type Rollout, type TaskRow } from "../../core/rollout.ts";
import type { Sessions } from "../../core/sessions.ts";
import { environmentTools } from "../../agent/environment-tools.ts";
import { derivedId } from "../../agent/episodes.ts";
import { classifyError, verifyFailed } from "./failure.ts";
import type { EpisodeHost } from "./episode-host.ts";
import { toVerdictFields } from "../row-fields.ts";
import { withoutTokens } from "./response.ts";

export function environmentHost(episodes: Sessions): EpisodeHost {
  const { environment } = episodes;
  const tools = environmentTools(episodes);
  const findSession = ({ session }: Rollout): string => derivedId(session, environment.name);

  return {
    findSession,
    tools: ({ row }) => narrowed(tools, row),
    async open(rollout) {
      const { row, task, repeat, random: randomSeed, origin } = rollout;
      const session = findSession(rollout);
      const labels = { _ng_task_index: task, _ng_rollout_index: repeat };
      const opened = origin
        ? episodes.fork(origin.session, { version: origin.version, session })
        : episodes.open({ session, task: pickTask(row), labels, randomSeed });
      // The session may already exist, if the collection was interrupted after opening it.
      await opened.catch(unlessCoded("session_exists"));
      return { [`environment:${environment.name}`]: session };
    },
    version: async (rollout) => (await episodes.info(findSession(rollout))).version,
    async verdict(rollout, { response, signal }) {
      try {
        const task = environment.task && { task: pickTask(rollout.row) };
        const judged = { response: withoutTokens(response), signal, ...task };
        const { verdict } = await episodes.verify(findSession(rollout), judged);
        return { verdict: toVerdictFields(verdict as TaskRow) };
      } catch (thrown) {
        if (isHoldfastError(thrown) && classifyError(thrown) === "store") throw thrown;
        throw verifyFailed(messageOf(thrown), thrown);
      }
    },
  };
}

/** Keeps the tools that the row names, or all tools if it names none. */
function narrowed(tools: Toolset, { responses_create_params: params }: TaskRow): Toolset {
  const { tools: given } = Object(params) as { tools?: unknown };
  if (!Array.isArray(given) || given.length === 0) return tools;
  const names = new Set(given.map((tool) => (Object(tool) as { name?: unknown }).name));
  return {
    list: async (context) => (await tools.list(context)).filter(({ name }) => names.has(name)),
    call: (context, call) => tools.call(context, call),
  };
}
