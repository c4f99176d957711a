// Escapes strings for UTF-8 stores, which cannot hold half a surrogate pair. Some databases also refuse NUL.
import type { Heading } from "../../core/store.ts";
import type { Answer, Driver, Entry, Write } from "./driver.ts";

/** Characters that are stored as U+0001 and their code. JSON.stringify writes none of them, so bodies stay the same. */
// eslint-disable-next-line no-control-regex -- these are what is looked for
const special = /[\0\u0001\p{Surrogate}]/gu;
/** Also matches whole pairs, because the test then takes half the time. */
// eslint-disable-next-line no-control-regex -- these are what is looked for
const perhapsSpecial = /[\0\u0001\ud800-\udfff]/;

export function toText(text: string): string {
  if (!perhapsSpecial.test(text)) return text;
  return text.replaceAll(special, (char) => `\u0001${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// eslint-disable-next-line no-control-regex -- these are what is looked for
const escaped = /\u0001(.{4})/g;

export function fromText(text: string): string {
  if (!text.includes("\u0001")) return text;
  return text.replaceAll(escaped, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

/**
 * Returns a driver that accepts any string. It escapes ids, keys and names in requests. In answers, it unescapes ids,
 * keys, names and bodies. `escapeWrite` must have escaped the writes.
 */
export function withEscapes(driver: Driver): Driver {
  const { find, place, count } = driver;
  return {
    ...driver,
    read: (session, range, call) =>
      after(driver.read(toText(session), range, call), (page) => {
        if (page?.snapshot) page.snapshot.body = fromText(page.snapshot.body);
        page?.entries.forEach(unescapeEntry);
        return page;
      }),
    list: ({ environment, ...listing }, call) =>
      after(
        driver.list({ ...listing, ...(environment !== undefined && { environment: toText(environment) }) }, call),
        (page) => {
          for (const row of page.rows) {
            row.session = fromText(row.session);
            changeHeading(row, fromText);
          }
          return page;
        },
      ),
    delete: (session, end, call) => driver.delete(toText(session), end, call),
    ...(find && {
      find: (session: string, key: string, call) =>
        after(find(toText(session), toText(key), call), (entry) => entry && unescapeEntry(entry)),
    }),
    ...(place && { place: (session, call) => place(toText(session), call) }),
    ...(count && { count: (environment, call) => count(toText(environment), call) }),
  };
}

function after<T, U>(answer: Answer<T>, change: (value: T) => U): Answer<U> {
  return answer instanceof Promise ? answer.then(change) : change(answer);
}

/** Escapes a write in place. The front created the write, so nothing else holds it. */
export function escapeWrite(write: Write): void {
  write.session = toText(write.session);
  for (const entry of write.entries) {
    entry.body = toText(entry.body);
    if (entry.key !== undefined) entry.key = toText(entry.key);
  }
  if (write.heading) changeHeading(write.heading, toText);
  if (write.snapshot) write.snapshot.body = toText(write.snapshot.body);
}

function unescapeEntry(entry: Entry): Entry {
  entry.body = fromText(entry.body);
  if (entry.key !== undefined) entry.key = fromText(entry.key);
  return entry;
}

function changeHeading(heading: Heading, change: (text: string) => string): void {
  heading.environment = change(heading.environment);
  if (heading.parent) heading.parent.session = change(heading.parent.session);
}
