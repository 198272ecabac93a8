/** Sessions that tabs share, when something fails: the Worker, Web Locks, a tab. */

import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Session } from "../src/session.js";
import type { Status } from "../src/status.js";
import { connectTabs, type TabsOptions } from "../src/tabs.js";
import { hostTabs } from "../src/tabs-host.js";
import { host } from "../src/worker-host.js";
import { Channel, Context, locks } from "./browser.js";
import { CLOCK, settle, tab as tabPage } from "./fixture.js";
import { World } from "./world.js";

let world: World;
const tabs: Tab[] = [];

/** Fate of a tab's Worker: it runs, fails to load, or its constructor throws. */
type Luck = "runs" | "fails" | "throws";

interface Tab {
  readonly context: Context;
  readonly session: Session;
  readonly statuses: Status[];
  readonly seen: unknown[];
  luck: Luck;
  /** Number of Workers that the tab has created. */
  workers: number;
}

function open(options: TabsOptions = {}, luck: Luck = "runs"): Tab {
  const context = new Context();
  const statuses: Status[] = [];
  let tab: Tab | undefined;
  let created = 0;
  const worker = () => {
    created++;
    const fate = tab?.luck ?? luck;
    if (tab) tab.workers = created;
    if (fate === "throws") throw new Error("not allowed here");
    const its = new Context();
    context.worker = its;
    let failed = (_: { message?: string }): void => {};
    return {
      addEventListener: (_: string, listener: typeof failed) => void (failed = listener),
      terminate: () => its.kill(),
      postMessage(message: unknown) {
        const { thalweg, thalwegTabs } = message as { thalweg?: MessagePort; thalwegTabs?: [string, number] };
        setTimeout(() => {
          if (its.isDead) return;
          if (fate === "fails") failed({ message: "404" });
          else if (thalweg) host(thalweg);
          else if (thalwegTabs) its.end = its.run(() => hostTabs(...thalwegTabs));
        }, 3);
      },
    };
  };
  const all = { transports: ["websocket"], ...options, onStatus: (status: Status) => void statuses.push(status) };
  const session = context.run(() => connectTabs(worker, "http://server/", all as TabsOptions));
  tab = { context, session, statuses, seen: [], luck, workers: created };
  tabs.push(tab);
  return tab;
}

/** Reads a topic; `busy` may return a promise that the tab processes its batch. */
function read({ session, seen, context }: Tab, busy: () => Promise<void> | undefined = () => undefined): void {
  context.run(() =>
    session.subscribe("cars", { from: "earliest", onError: ({ code }) => void seen.push(code) }, ({ events }) => {
      seen.push(...events);
      return busy();
    }),
  );
}

beforeAll(async () => {
  // In a page, loading the module takes real time. These worlds have none.
  await import("../src/keyed.js");
});

beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  Context.random = () => 0;
  world = new World();
  vi.stubGlobal("WebSocket", world.WebSocket);
  vi.stubGlobal("fetch", world.fetch);
  vi.stubGlobal("BroadcastChannel", Channel);
  vi.stubGlobal("navigator", { locks });
});

afterEach(async () => {
  for (const { session, context } of tabs.splice(0)) {
    session.close();
    context.kill();
  }
  await settle(20);
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("a Worker that does not load", () => {
  it("ends the session if there was no host before", async () => {
    const tab = open({}, "fails");
    read(tab);
    const published = tab.session.publish("cars", 1).catch(({ code }) => code);
    await settle(100);
    expect(tab.session.status).toMatchObject({ state: "closed", reason: "404" });
    expect(tab.seen).toEqual(["no_worker"]);
    expect(await published).toBe("closed");
  });

  it("is tried again if there was one, while the tabs report that they wait", async () => {
    const first = open();
    await settle(50);
    const others = [open({}, "fails"), open({}, "throws")];
    for (const tab of [first, ...others]) read(tab);
    world.publish("cars", 1);
    await settle(50);
    first.context.kill();
    await settle(100);
    for (const { session } of others) expect(session.status.state).toBe("waiting");
    await settle(20_000);
    for (const { session, workers } of others) {
      expect(session.status).toMatchObject({ state: "waiting", retryAt: expect.any(Number) });
      expect(workers).toBeGreaterThan(2);
    }
    const answer = others[0]?.session.publish("cars", 2);
    for (const tab of others) tab.luck = "runs";
    await settle(31_000);
    expect(await answer).toMatchObject({ first: 2, count: 1 });
    for (const { session, seen } of others) expect([session.status.state, ...seen]).toEqual(["open", 1, 2]);
    // Only one of them has a Worker.
    expect(world.listeners.size).toBe(1);
  });

  it("leaves the session to another tab", async () => {
    const first = open();
    await settle(50);
    const [broken, other] = [open({}, "fails"), open()];
    for (const tab of [first, broken, other]) read(tab);
    await settle(50);
    first.context.kill();
    await settle(100);
    world.publish("cars", 1);
    await settle(100);
    for (const { seen } of [broken, other]) expect(seen).toEqual([1]);
  });
});

it("a Worker that may not be created ends the session", async () => {
  const tab = open({}, "throws");
  read(tab);
  await settle(100);
  expect(tab.session.status).toMatchObject({ state: "closed", reason: "not allowed here" });
  expect(tab.seen).toEqual(["no_worker"]);
});

it("without Web Locks a Worker that may not be created ends the session", async () => {
  vi.stubGlobal("navigator", {});
  const tab = open({}, "throws");
  read(tab);
  await settle();
  expect(tab.session.status).toMatchObject({ state: "closed", reason: "not allowed here" });
  expect(tab.seen).toEqual(["no_worker"]);
});

it("without permission for Web Locks a tab has a connection of its own", async () => {
  vi.stubGlobal("navigator", {
    locks: { request: async () => Promise.reject(new DOMException("sandboxed", "SecurityError")) },
  });
  const tab = open();
  read(tab);
  await settle(10);
  // A message port is asynchronous in real time.
  while (tab.session.status.state !== "open") {
    await new Promise((go) => setImmediate(go));
    await settle(10);
  }
  expect(tab.workers).toBe(1);
  tab.session.close();
  expect(tab.context.worker?.isDead).toBe(false);
  await settle();
  expect(tab.context.worker?.isDead).toBe(true);
});

it("a session that is closed at once leaves nothing behind", async () => {
  const tab = open();
  tab.session.close();
  await settle(100);
  expect([tab.workers, Channel.open(tab.context)]).toEqual([0, 0]);
  const next = open();
  await settle(1);
  // While it has the lock and no Worker yet.
  next.session.close();
  await settle(100);
  expect([next.workers, Channel.open(next.context)]).toEqual([0, 0]);
});

describe("an identity", () => {
  it("is required with a token", () => {
    const token = (): string => "secret";
    // @ts-expect-error Tabs of different users would share a connection.
    expect(() => connectTabs(() => ({ postMessage() {} }), "http://server/", { token })).toThrow("identity");
    expect(() => open({ token, identity: "" })).toThrow("identity");
  });

  it("separates tabs, also from those without one", async () => {
    const asked: string[] = [];
    const by = (identity: string) => ({ identity, token: () => (asked.push(identity), identity) });
    const all = [open(by("ann")), open(by("bob")), open(), open(by("ann"))];
    for (const tab of all) read(tab);
    await settle(200);
    expect(all.map(({ session, workers }) => [session.status.state, workers])).toEqual([
      ["open", 1],
      ["open", 1],
      ["open", 1],
      ["open", 0],
    ]);
    expect(asked.sort()).toEqual(["ann", "bob"]);
    expect(world.listeners.size).toBe(3);
  });

  it("gets its token from another tab if one does not answer, and first from a visible one", async () => {
    const asked: string[] = [];
    const never = (name: string) => () => (asked.push(name), new Promise<string>(() => {}));
    const by = (name: string, token: () => Promise<string>): Tab => {
      const page = tabPage();
      const its = open({ identity: "ann", token });
      read(its);
      if (name === "hidden") page.hide(true);
      return its;
    };
    const old = by("old", async () => (asked.push("old"), "ann"));
    await settle(100);
    by("stalled", never("stalled"));
    by("hidden", never("hidden"));
    await settle(6000);
    asked.length = 0;
    world.cut();
    await settle(9000);
    expect(asked).toEqual(["stalled", "old"]);
    expect(old.session.status.state).toBe("open");
  });
});

it("a host that starts while all tabs are hidden asks for the rate of a hidden tab", async () => {
  const page = tabPage();
  const [first, second] = [open({ hiddenInterval: 700 }), open({ hiddenInterval: 700 })];
  for (const tab of [first, second]) read(tab);
  await settle(50);
  page.hide(true);
  await settle(6000);
  world.commands.length = 0;
  first.context.kill();
  await settle(100);
  const intervals = () => world.commands.filter(({ command }) => command === "subscribe").map((its) => its["interval"]);
  expect(intervals()).toEqual(["700ms"]);
  page.hide(false);
  await settle(100);
  expect(intervals()).toEqual(["700ms", undefined]);
});

describe("a tab that stalls", () => {
  /** Returns a busy tab, and a function that ends its work. */
  function stalling(): [Tab, () => void] {
    let goOn = (): void => {};
    // The first tab's window applies to all.
    const tab = open({ window: 300 });
    const work = new Promise<void>((done) => (goOn = done));
    read(tab, () => work);
    return [tab, goOn];
  }

  it("does not stop the others, and gets all events when it continues", async () => {
    const [slow, goOn] = stalling();
    const other = open();
    read(other);
    await settle(50);
    for (let event = 1; event <= 50; event++) world.publish("cars", event);
    await settle(6000);
    const all = Array.from({ length: 60 }, (_, index) => index + 1);
    expect(other.seen).toEqual(all.slice(0, 50));
    expect(slow.seen.length).toBeLessThan(50);
    for (let event = 51; event <= 60; event++) world.publish("cars", event);
    await settle(100);
    expect(other.seen).toEqual(all);
    goOn();
    await settle(1000);
    expect(slow.seen).toEqual(all);
    // Both are at the same position again.
    expect([...world.listeners].flatMap(({ cursors }) => [...cursors.keys()])).toEqual(["cars"]);
  });

  it("keeps its subscription while no other tab wants the topic", async () => {
    const [slow, goOn] = stalling();
    await settle(50);
    world.publish("cars", 1);
    await settle(20_000);
    expect([...world.listeners].flatMap(({ cursors }) => [...cursors.keys()])).toEqual(["cars"]);
    world.publish("cars", 2);
    goOn();
    await settle(100);
    expect(slow.seen).toEqual([1, 2]);
  });

  it("has the state of a map when it continues", async () => {
    world.keyed.add("ships");
    world.put("ships", "a", 1);
    const states: unknown[] = [];
    let goOn = (): void => {};
    const work = new Promise<void>((done) => (goOn = done));
    const [slow, other] = [open(), open()];
    const map = (tab: Tab, name: string, busy?: Promise<void>) =>
      tab.context.run(() => {
        const its = tab.session.map("ships", {}, () => {
          states.push([name, ...its.map.keys()]);
          return busy;
        });
      });
    map(slow, "slow", work);
    map(other, "other");
    await settle(100);
    world.put("ships", "b", 2);
    await settle(6000);
    world.put("ships", "a", null);
    await settle(100);
    expect(states.at(-1)).toEqual(["other", "b"]);
    goOn();
    await settle(100);
    expect(states.at(-1)).toEqual(["slow", "b"]);
  });
});

it("a batch of an earlier host is not reported to the next one as its own", async () => {
  const [first, other] = [open(), open({ window: 1000 })];
  read(first);
  let goOn = (): void => {};
  const work = [new Promise<void>((done) => (goOn = done)), new Promise<void>(() => {})];
  read(other, () => work.shift());
  await settle(50);
  world.publish("cars", 1);
  await settle(50);
  first.context.kill();
  await settle(100);
  world.publish("cars", 2);
  await settle(100);
  world.commands.length = 0;
  goOn();
  await settle(100);
  for (let event = 3; event <= 200; event++) world.publish("cars", event);
  await settle(3000);
  expect(other.seen).toEqual([1, 2]);
  // The tab still processes the first batch of this host, which therefore has not sent another one.
  expect(world.commands.filter(({ command, position }) => command === "ack" && position !== "e1.1")).toEqual([]);
});
