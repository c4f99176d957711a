// createRequestPlayers(): runs the rollouts of rollout requests on workers.
import type { Json } from "../core/json.ts";
import { digestFiles } from "../rollout/build-record.ts";
import type { PlayerFor } from "../rollout/requests/playing.ts";
import { queueAddress } from "./connection.ts";
import { findStore, type PlaySettings } from "./collector.ts";
import { openQueuePlayer } from "./player.ts";

export interface RequestPlayersOptions {
  queue: string;
  /** The server's store, which workers must be able to reach too. */
  store: string;
  /** The environment's folder, file or package. Workers use this value to load the environment. */
  target: string;
  /** The environment's name, for lists of the queue. */
  environment: string;
  say(text: string): void;
}

export function createRequestPlayers(options: RequestPlayersOptions): PlayerFor {
  const { queue, target, environment, say } = options;
  const address = queueAddress(queue);
  const place = findStore(options);
  return async ({ model, seed = 0, limits, timeout, stepRewards }, run) => {
    const name = model.url === undefined ? model.name : "requested";
    const settings: PlaySettings = {
      target,
      model: name,
      ...(model.url !== undefined && { requested: model }),
      seed,
      ...(limits && { limits }),
      ...(timeout !== undefined && { timeout: Math.ceil(1000 * timeout) }),
      ...(stepRewards && ({ stepRewards } as const)),
      ...place,
      files: await digestFiles(target, { model: name }),
    };
    const title = `${environment}, ${model.name}: a rollout request`;
    const collection = { run, title, settings: settings as unknown as { [name: string]: Json } };
    return openQueuePlayer({ address, collection, say });
  };
}
