// The published faults: a faulty store and a proxy do what their options say, and nothing else.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { memoryStore, type Store } from "holdfast";
import { faultProxy, faultyStore, type FaultProxyOptions, type StoreFault } from "holdfast/testing";
import { expect, onTestFinished, test } from "vitest";
import type { Commit } from "../../src/core/store.ts";
import { runStoreCases } from "../stores/run-cases.ts";

runStoreCases("a healed faulty store", () => ({ open: healed }), { persistent: false });

async function healed(): Promise<Store> {
  const store = faultyStore(memoryStore());
  await store.heal();
  return store;
}

const commit = (version: number): Commit => ({
  session: "a",
  version,
  entries: [{ body: `"${version + 1}"`, at: version, key: `k${version}` }],
  ...(version === 0 && { heading: { environment: "shop", opened: 1 } }),
});

test.each<[StoreFault, answer: string, entries: number]>([
  ["refused", "store_busy", 0],
  ["unanswered", "store_failed", 1],
  ["slow", "ok", 1],
  ["late", "ok", 1],
  ["twice", "ok", 1],
  ["overdue", "store_failed", 1],
])("a fault of the kind %s is answered with %s, and %i entries are stored", async (fault, answer, entries) => {
  const inner = memoryStore();
  const store = faultyStore(inner, { rate: 1, faults: [fault], delay: 5 });
  const appended = await store.append(commit(0)).catch((thrown: { code: string }) => thrown.code);
  expect(appended).toBe(answer);
  await store.heal();
  expect((await inner.read("a", 0)) ?? []).toHaveLength(entries);
  expect(store.injected).toBe(1);
  expect(await store.append(commit(entries))).toBe("ok");
});

test("the same seed gives the same faults", async () => {
  const answersOf = async (seed: number): Promise<string[]> => {
    const store = faultyStore(memoryStore(), { seed, rate: 0.5, delay: 0, faults: ["refused", "unanswered"] });
    const answers: string[] = [];
    for (let n = 0; n < 50; n++) {
      answers.push(await store.count("shop").then(String, (thrown: { code: string }) => thrown.code));
    }
    return answers;
  };
  expect(await answersOf(3)).toEqual(await answersOf(3));
  expect(await answersOf(3)).not.toEqual(await answersOf(4));
});

interface Through {
  socket: Socket;
  text(): string;
}

/** A client of an echo server through a proxy. */
async function through(options: Omit<FaultProxyOptions, "to">) {
  const open = new Set<Socket>();
  const echo = createServer((socket) => {
    open.add(socket.on("error", () => undefined));
    socket.on("data", (data) => socket.write(data));
  });
  echo.listen(0, "127.0.0.1");
  await once(echo, "listening");
  const proxy = await faultProxy({ to: `redis://u:p@localhost:${(echo.address() as AddressInfo).port}/3`, ...options });
  onTestFinished(async () => {
    await proxy.close();
    for (const socket of open) socket.destroy();
    echo.close();
  });
  const client = (): Through => {
    let text = "";
    const socket = connect(Number(new URL(proxy.url).port), "127.0.0.1");
    socket.on("data", (data) => (text += String(data))).on("error", () => undefined);
    onTestFinished(() => void socket.destroy());
    return { socket, text: () => text };
  };
  return { proxy, client };
}

test("a proxy keeps the URL, and delayed and split traffic arrives whole and in order", async () => {
  const { proxy, client } = await through({ rate: 0.7, faults: ["delayed", "split"], delay: 3 });
  expect(proxy.url).toMatch(/^redis:\/\/u:p@127\.0\.0\.1:\d+\/3$/);
  const { socket, text } = client();
  const sent = Array.from({ length: 50 }, (_, n) => `line ${n}\n`);
  for (const line of sent) {
    socket.write(line);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await expect.poll(text).toBe(sent.join(""));
  expect(proxy.injected).toBeGreaterThan(10);
});

test("a proxy cuts before or after a piece, or goes silent, and heals", async () => {
  const before = await through({ rate: 1, faults: ["cutBefore"] });
  const first = before.client();
  first.socket.write("x");
  await once(first.socket, "close");
  expect(first.text()).toBe("");

  const silent = await through({ rate: 1, faults: ["silent"] });
  const second = silent.client();
  second.socket.write("x");
  await expect.poll(() => silent.proxy.injected).toBe(1);
  silent.proxy.heal();
  await once(second.socket, "close");
  expect(second.text()).toBe("");
  const third = silent.client();
  third.socket.write("y");
  await expect.poll(third.text).toBe("y");
});

test("a paused proxy holds traffic back until it resumes", async () => {
  const { proxy, client } = await through({ rate: 0 });
  const { socket, text } = client();
  proxy.pause();
  socket.write("x");
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(text()).toBe("");
  proxy.resume();
  await expect.poll(text).toBe("x");
  proxy.cut();
  await once(socket, "close");
  expect(proxy.injected).toBe(2);
});
