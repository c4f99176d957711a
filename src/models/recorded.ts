// recordedModel(): replays another model's answers from a file, and records missing answers.
import { hash } from "node:crypto";
import { canonicalText } from "../core/digest.ts";
import { boundary, HoldfastError } from "../core/errors.ts";
import { copyJson, equalJson, firstDifference, toFields, type Json } from "../core/json.ts";
import { createKeyedQueue } from "../io/keyed-queue.ts";
import { givePieces, refuseCancelled } from "./local-response.ts";
import type { Model, ModelResponse } from "../core/model.ts";
import { appendEntry, prepare, readEntries, type Entry } from "./recorded/file.ts";
import { showJson } from "../core/ellipsis.ts";

export interface RecordedModelOptions {
  /** JSON lines with `{ digest, model, request, response }`. */
  file: string;
  /** Answers requests that are not in the file. Without it, the file must have all answers. */
  model?: Model;
}

/** Answers by digest, in file order. An answer is removed once it is returned. */
type Answers = Map<string, { left: ModelResponse[]; given: number }>;

/**
 * Returns a model that is recorded once and then replayed: no key, no cost, the same answers.
 *
 * Requests are compared by digest; the order of keys is ignored. The file may have several answers to one request, as
 * from a model with a temperature. They are returned in order: the first request gets the first answer, the second
 * request the second. An additional request gets no answer. Concurrent requests take their answers in the order in
 * which they were made.
 *
 * With a `model`, only answers of a model of that name are used; the others stay in the file. Missing answers come from
 * the model and are appended as they arrive; failures are not recorded. Without a `model`, every answer is used, and a
 * missing answer is `model_exhausted`, with a message that shows the difference to the most similar request.
 *
 * The file is read at the first request, and its answers are kept in memory until they are returned. Lines that other
 * processes append later are not seen. On a local disk, several processes may append at the same time, and their lines
 * do not mix. Unfinished lines left by killed processes are skipped. Any other invalid line fails with `store_corrupt`.
 *
 * @example
 * const live = recordedModel({ file: "answers.jsonl", model: openaiModel({ model: "gpt-5" }) });
 * const replay = recordedModel({ file: "answers.jsonl" });
 */
export function recordedModel({ file, model }: RecordedModelOptions): Model {
  let loading: Promise<Answers> | undefined;
  const loaded = (): Promise<Answers> => {
    // A failure is not cached, because the file may exist the next time.
    loading ??= load(file, model).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };

  // Identical requests wait for each other. Otherwise they would get their answers in an arbitrary order.
  const inTurn = createKeyedQueue();

  return {
    name: `recorded:${file}`,
    async respond(request, options = {}) {
      refuseCancelled(options.signal);
      const asked = copyJson(request, "the request", "drop");
      const digest = hash("sha256", canonicalText(asked));
      const { response, given } = await inTurn(digest, async () => {
        const answers = await loaded();
        refuseCancelled(options.signal);
        return take(answers, digest);
      });
      if (response) {
        givePieces(response.output, options);
        return response;
      }
      if (!model) throw await notRecorded(file, asked, digest, given);
      const answer = await boundary("model_failed", `the model ${model.name}`, () => model.respond(request, options));
      return record(file, { digest, model: model.name, request: asked }, answer);
    },
  };
}

async function load(file: string, model: Model | undefined): Promise<Answers> {
  if (model) await prepare(file);
  const answers: Answers = new Map();
  for await (const entry of readEntries(file)) {
    if (model && entry.model !== model.name) continue;
    const same = answers.get(entry.digest);
    if (same) same.left.push(entry.response);
    else answers.set(entry.digest, { left: [entry.response], given: 0 });
  }
  return answers;
}

function take(answers: Answers, digest: string): { response: ModelResponse | undefined; given: number } {
  const same = answers.get(digest);
  const response = same?.left.shift();
  if (same && response) same.given++;
  return { response, given: same?.given ?? 0 };
}

async function record(
  file: string,
  entry: { digest: string; model: string; request: Json },
  answer: ModelResponse,
): Promise<ModelResponse> {
  // Returns the stored form, because a replay returns the same form.
  const response = copyJson(answer, "the model's answer", "drop") as unknown as ModelResponse;
  await appendEntry(file, { ...entry, response });
  return response;
}

async function notRecorded(file: string, asked: Json, digest: string, given: number): Promise<HoldfastError> {
  const why =
    given > 0
      ? `the recording has ${given} answers to this request, and all of them were used; record more repeats`
      : // Reads the file again instead of keeping requests in memory, because this error usually ends the run.
        await nearestTo(asked, readEntries(file));
  const what = given > 0 ? "no further answer" : "no answer";
  return new HoldfastError("model_exhausted", `${file} has ${what} to the request ${digest}: ${why}`, {
    detail: { digest },
  });
}

/** Describes the first difference from the nearest recorded request. */
async function nearestTo(asked: Json, entries: AsyncIterable<Pick<Entry, "request">>): Promise<string> {
  let nearest: Json | undefined;
  let most = [-1, -1];
  for await (const { request } of entries) {
    const alike = likeness(request, asked);
    if (compare(alike, most) <= 0) continue;
    nearest = request;
    most = alike;
  }
  const difference = nearest === undefined ? undefined : firstDifference(asked, nearest);
  if (!difference) return "the recording is empty";
  const [is, was] = difference.values.map((value) => showJson(value, 120));
  const place = difference.pointer || "its root";
  return `the most similar recorded request differs at ${place}: recorded ${was}, requested ${is}`;
}

/** Counts the equal items at the start of the input, then the equal fields. */
function likeness(recorded: Json, asked: Json): number[] {
  const [before, now] = [toFields(recorded), toFields(asked)];
  const items = Array.isArray(now["input"]) ? now["input"] : [];
  const others = Array.isArray(before["input"]) ? before["input"] : [];
  const end = items.findIndex((item, at) => !equalJson(item, others[at]));
  return [end < 0 ? items.length : end, Object.keys(now).filter((key) => equalJson(now[key], before[key])).length];
}

const compare = (a: number[], b: number[]): number => (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
