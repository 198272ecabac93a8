// @vitest-environment happy-dom
/** The hooks of `thalweg/react`, with React 19 and (in the project `react-18`) React 18. */

import * as React from "react";
import { act, createElement as h, type ReactNode, StrictMode, useEffect, useState } from "react";
import { createRoot, hydrateRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type ReactSession,
  SessionProvider,
  type SessionProviderProps,
  type TopicEvents,
  type TopicMap,
  type UseKeyedOptions,
  type UseTopicOptions,
  useKeyed,
  usePresence,
  useSession,
  useTopic,
  useValue,
} from "../dist/react.js";
import { connect, type Envelope, type Session, type Status } from "../dist/thalweg.js";
import { advance, useWorld, world } from "./fixture.js";

useWorld();

/** More than the time until a rendering. */
const FRAME_MS = 100;
/** More than the time for which an unused topic stays subscribed. */
const GRACE_MS = 1100;

let root: Root | null = null;
let place: HTMLElement;
const sessions: Session[] = [];
const complaints: unknown[] = [];

beforeAll(async () => {
  (globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
  // In a page, loading the modules takes real time. These worlds have none.
  await Promise.all([import("../dist/keyed.js"), import("../dist/deltas.js")]);
});

beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", undefined);
  vi.spyOn(console, "error").mockImplementation((...said) => void complaints.push(said));
  place = document.body.appendChild(document.createElement("div"));
});

afterEach(async () => {
  await act(async () => root?.unmount());
  root = null;
  place.remove();
  // A session remembers the transport that worked.
  sessionStorage.clear();
  for (const session of sessions.splice(0)) session.close();
  expect(complaints.splice(0)).toEqual([]);
});

function Provider({ children, ...props }: SessionProviderProps): ReactNode {
  const open: SessionProviderProps["connect"] = (url, options) => {
    const session = connect(url, { ...options, fetch: world.fetch as typeof fetch });
    sessions.push(session);
    return session;
  };
  return h(SessionProvider, { url: "http://server/", connect: open, ...props }, children);
}

async function show(...children: ReactNode[]): Promise<void> {
  root ??= createRoot(place);
  await act(async () => root?.render(h(StrictMode, null, h(Provider, null, ...children))));
  await wait();
}

/** Runs everything that is due, and renders. */
async function wait(ms = FRAME_MS): Promise<void> {
  await act(() => advance(ms));
}

async function publish(...events: unknown[]): Promise<void> {
  world.publish("cars", ...events);
  await wait();
}

const text = (): string | null => place.textContent;
const carried = (): string[] => [...world.listeners].flatMap(({ cursors }) => [...cursors.keys()]);
/** Commands other than acks, and the number of connections before them. */
const wire = (): unknown[] => [
  world.requests.length,
  ...world.commands.map(({ command }) => command).filter((command) => command !== "ack"),
];

function List({ topic = "cars", ...options }: UseTopicOptions & { topic?: string | null }): ReactNode {
  const { events, gap, error, status } = useTopic<number>(topic, options);
  const notes = [gap && `missed ${gap.missed}`, error?.code, status.state !== "open" && status.state];
  return h("p", null, [...events, ...notes.filter(Boolean)].join(" "));
}

describe("useTopic", () => {
  it("begins with the newest events, continues, and forgets the oldest", async () => {
    world.publish("cars", 1, 2, 3, 4);
    await show(h(List, { keep: 3 }));
    expect(text()).toBe("2 3 4");
    await publish(5);
    await publish(6, 7, 8, 9);
    expect(text()).toBe("7 8 9");
  });

  it("subscribes once in StrictMode", async () => {
    await show(h(List, {}), h(List, { keep: 10 }));
    await publish(1);
    expect(text()).toBe("11");
    expect(wire()).toEqual([1, "subscribe"]);
    // The larger of both.
    expect(world.commands[0]).toMatchObject({ topic: "cars", cursor: "newest.100" });
  });

  it("neither loses nor repeats events when connections break", async () => {
    await show(h(List, {}));
    for (let event = 1; event <= 20; event++) {
      if (event % 3 === 0) world.cut();
      world.publish("cars", event);
      if (event % 4 === 0) await wait(700);
    }
    await wait(20_000);
    expect(text()).toBe(Array.from({ length: 20 }, (_, index) => index + 1).join(" "));
  });

  it("has unique positions, also after a new epoch", async () => {
    let seen: TopicEvents<number> | undefined;
    const Positions = (): null => ((seen = useTopic<number>("cars", { keep: 3 })), null);
    await show(h(Positions));
    await publish(1, 2);
    expect(seen?.positions).toEqual(["e1.1", "e1.2"]);
    world.restart();
    await publish(3);
    await wait(20_000);
    expect(seen).toMatchObject({ events: [1, 2, 3], positions: ["e1.1", "e1.2", "e11.1"], position: "e11.1" });
    expect(seen?.gap).toMatchObject({ reason: "epoch" });
  });

  it("reports a gap while an event next to it is shown", async () => {
    await show(h(List, { keep: 2 }));
    await publish(1, 2);
    world.cut();
    world.publish("cars", 3, 4, 5);
    world.trim("cars", 1);
    await wait(20_000);
    expect(text()).toBe("2 5 missed 2");
    await publish(6);
    expect(text()).toBe("5 6 missed 2");
    await publish(7);
    expect(text()).toBe("6 7");
  });

  it("reports no gap that is before the oldest shown event", async () => {
    world.publish("cars", 1, 2, 3, 4, 5, 6);
    world.trim("cars", 4);
    await show(h(List, { from: "e1.0", keep: 2 }));
    expect(text()).toBe("5 6");
    world.publish("vans", 1, 2, 3, 4, 5, 6);
    world.trim("vans", 4);
    const vans = { topic: "vans", from: "e1.0" };
    await show(h(List, { ...vans, keep: 2 }), ", ", h(List, { ...vans, keep: 4 }));
    expect(text()).toBe("5 6, 3 4 5 6 missed 2");
  });

  it("reports an error, keeps the events, and subscribes again on request", async () => {
    let session: ReactSession | undefined;
    const Keep = (): null => ((session = useSession()), null);
    await show(h(List, {}), h(Keep));
    await publish(1);
    world.end("cars", "deleted", "somebody deleted it");
    await wait();
    expect(text()).toBe("1 deleted idle");
    world.epoch = "e2";
    session?.reconnect();
    world.publish("cars", 2, 3);
    await wait();
    expect(text()).toBe("1 2 3 missed null");
  });

  it("reports the failure of a session, and continues with another one", async () => {
    let session: ReactSession | undefined;
    const Keep = (): null => ((session = useSession()), null);
    await show(h(List, {}), h(Keep));
    await publish(1);
    world.close(1008, "go away", false);
    await wait();
    expect(text()).toBe("1 close_1008 closed");
    expect(session?.status).toMatchObject({ state: "closed", reason: "go away" });
    session?.reconnect();
    world.publish("cars", 2);
    await wait();
    expect(text()).toBe("1 2");
    expect(session?.status.state).toBe("open");
    expect(sessions).toHaveLength(2);
  });

  it("reports a bad name", async () => {
    await show(h(List, { topic: "a b" }));
    expect(text()).toBe("bad_topic idle");
  });

  it("without a topic subscribes to nothing", async () => {
    await show(h(List, { topic: null }));
    expect([text(), sessions.length]).toEqual(["idle", 0]);
    await show(h(List, {}));
    expect(carried()).toEqual(["cars"]);
  });

  it("follows its topic", async () => {
    world.publish("vans", 7);
    await show(h(List, {}));
    await publish(1);
    await show(h(List, { topic: "vans" }));
    expect(text()).toBe("7");
    await wait(GRACE_MS);
    expect(carried()).toEqual(["vans"]);
  });

  it("ignores that a start is another one in each rendering", async () => {
    let again = (_: number): void => {};
    const Since = (): ReactNode => {
      again = useState(0)[1];
      return h(List, { from: `e1.${world.topics.get("cars")?.events.length ?? 0}` });
    };
    await show(h(Since));
    await publish(1);
    await act(async () => again(1));
    await publish(2);
    expect(text()).toBe("1 2");
    expect(wire()).toEqual([1, "subscribe"]);
  });
});

describe("a component that is mounted again", () => {
  it("soon shows the same events, and the server notices nothing", async () => {
    await show(h(List, {}));
    await publish(1);
    await show();
    await publish(2);
    await act(async () => root?.render(h(StrictMode, null, h(Provider, null, h(List, { key: "other" })))));
    // In the first rendering.
    expect(text()).toBe("1 2");
    await publish(3);
    expect(text()).toBe("1 2 3");
    expect(wire()).toEqual([1, "subscribe"]);
  });

  it("later begins anew, and the topic is not subscribed to in the meantime", async () => {
    await show(h(List, { keep: 1 }));
    await publish(1);
    await show();
    await wait(GRACE_MS);
    expect(carried()).toEqual([]);
    world.publish("cars", 2, 3);
    await show(h(List, { keep: 1 }));
    expect(text()).toBe("3");
  });

  it.runIf("Activity" in React)("after it was hidden continues where it was", async () => {
    const { Activity } = React as unknown as { Activity: (props: { mode: string }) => ReactNode };
    await show(h(Activity, { mode: "visible" }, h(List, { keep: 5 })));
    await publish(1);
    await show(h(Activity, { mode: "hidden" }, h(List, { keep: 5 })));
    await wait(GRACE_MS);
    expect(carried()).toEqual([]);
    world.publish("cars", 2, 3);
    await show(h(Activity, { mode: "visible" }, h(List, { keep: 5 })));
    expect(text()).toBe("1 2 3");
  });

  it("with its provider uses the same session", async () => {
    await show(h(List, {}));
    await publish(1);
    await act(async () => root?.render(null));
    await wait();
    expect(sessions[0]?.status.state).toBe("open");
    await act(async () => root?.render(null));
    await wait(GRACE_MS);
    expect(sessions.map(({ status }) => status.state)).toEqual(["closed"]);
  });
});

describe("components", () => {
  it("that keep different numbers share a subscription", async () => {
    world.publish("cars", 1, 2, 3);
    const Value = (): ReactNode => h("b", null, `newest ${useValue<number>("cars").value} `);
    await show(h(Value), h(List, { keep: 2 }));
    expect(text()).toBe("newest 3 2 3");
    await publish(4);
    expect(text()).toBe("newest 4 3 4");
    expect(wire()).toEqual([1, "subscribe"]);
  });

  it("that read a topic in different ways all get it", async () => {
    world.publish("cars", 1, 2, 3);
    await show(h(List, { keep: 1 }));
    await show(h(List, { keep: 1 }), " ", h(List, { keep: 3 }));
    expect(text()).toBe("3 1 2 3");
    await publish(4);
    expect(text()).toBe("4 2 3 4");
    expect(sessions).toHaveLength(2);
  });

  it("that keep more events later show the old ones until then, and the status is that of all sessions", async () => {
    world.publish("cars", 1, 2, 3, 4);
    let session: ReactSession | undefined;
    const said: string[] = [];
    const page = (keep: number) => {
      const onStatus = (status: Status): void => void said.push(status.state);
      const Keep = (): null => ((session = useSession()), null);
      return h(StrictMode, null, h(Provider, { onStatus }, h(Keep), h(List, { keep })));
    };
    root = createRoot(place);
    for (const keep of [1, 2, 3]) {
      await act(async () => root?.render(page(keep)));
      expect(text()).toMatch(["", /idle/, /^4( \w+)?$/, /^3 4( \w+)?$/][keep] as RegExp);
      await wait();
      expect(text()).toBe([4, 3, 2].slice(0, keep).sort().join(" "));
      await wait(GRACE_MS);
      expect(session?.status.state).toBe("open");
    }
    // Each number is smaller than the one that has been read.
    await act(async () => root?.render(page(2)));
    expect(text()).toBe("3 4");
    await publish(5);
    expect(text()).toBe("4 5");
    expect(carried()).toEqual(["cars"]);
    expect(said.filter((state) => state === "idle")).toEqual([]);
    expect(said.at(-1)).toBe("open");
  });

  it("show the same state, and render once for a frame", async () => {
    const frames: (() => void)[] = [];
    vi.stubGlobal("requestAnimationFrame", (run: () => void) => frames.push(run));
    vi.stubGlobal("cancelAnimationFrame", () => {});
    const rendered: string[] = [];
    const Part = ({ name }: { name: string }): null => {
      rendered.push(`${name} ${useTopic<number>("cars").events.length}`);
      return null;
    };
    root = createRoot(place);
    await act(async () => root?.render(h(Provider, null, h(Part, { name: "a" }), h(Part, { name: "b" }))));
    await act(() => advance());
    await act(async () => void frames.splice(0).forEach((run) => run()));
    rendered.length = 0;
    for (let event = 0; event < 10; event++) {
      world.publish("cars", event);
      await act(() => advance());
    }
    expect(rendered).toEqual([]);
    await act(async () => void frames.splice(0).forEach((run) => run()));
    expect(rendered).toEqual(["a 10", "b 10"]);
  });

  it("need a provider", async () => {
    root = createRoot(place, { onRecoverableError: () => {} });
    const rendering = act(async () => root?.render(h(List, {})));
    await expect(rendering).rejects.toThrow("need a <SessionProvider>");
    complaints.length = 0;
  });
});

describe("useKeyed", () => {
  let seen: TopicMap<{ speed: number }>[] = [];
  const Cars = (): null => (seen.push(useKeyed<{ speed: number }>("cars")), null);
  const put = async (key: string, speed: number | null): Promise<void> => {
    world.put("cars", key, speed === null ? null : { speed });
    await wait();
  };

  beforeEach(() => {
    seen = [];
    world.keyed.add("cars");
  });

  it("returns another map for each state, and never modifies one", async () => {
    await put("a", 1);
    await show(h(Cars));
    const before = seen.at(-1);
    expect(before).toMatchObject({ isWhole: true, gap: null, position: "e1.1" });
    await put("b", 2);
    await put("a", null);
    expect(Object.fromEntries(seen.at(-1)?.map ?? [])).toEqual({ b: { speed: 2 } });
    expect(Object.fromEntries(before?.map ?? [])).toEqual({ a: { speed: 1 } });
    expect(seen[0]).toMatchObject({ isWhole: false, map: new Map() });
    expect(wire()).toEqual([1, "subscribe"]);
  });

  it("keeps the map while the state is unknown", async () => {
    await put("a", 1);
    await put("b", 2);
    await show(h(Cars));
    world.cut();
    world.put("cars", "a", null);
    world.purge("cars");
    await wait(20_000);
    expect(Object.fromEntries(seen.at(-1)?.map ?? [])).toEqual({ b: { speed: 2 } });
    // No state in between has fewer keys than both.
    for (const { map } of seen.slice(-3)) expect([...map.keys()]).toContain("b");
  });

  it("reports that a topic has no keys", async () => {
    world.keyed.clear();
    await show(h(Cars));
    await publish({ speed: 1 });
    expect(seen.at(-1)?.error?.code).toBe("not_keyed");
  });
});

it("useValue returns the newest version of a value topic, whose unchanged parts are the same", async () => {
  world.values.add("match");
  world.publish("match", { score: 0, team: { name: "A" } });
  const seen: { score: number; team: object }[] = [];
  const Match = (): null => {
    const { value } = useValue<{ score: number; team: object }>("match");
    if (value) seen.push(value);
    return null;
  };
  await show(h(Match));
  world.publish("match", { score: 1, team: { name: "A" } });
  await wait();
  expect(seen.at(-1)).toEqual({ score: 1, team: { name: "A" } });
  expect(seen.at(-1)?.team).toBe(seen[0]?.team);
});

describe("a filter of keys", () => {
  const Cars = ({ topic = "cars", ...options }: UseKeyedOptions & { topic?: string | null }): ReactNode => {
    const { map, isWhole, error } = useKeyed<number>(topic, options);
    return h("p", null, [isWhole, ...map, error?.code].filter((part) => part !== undefined).join(" "));
  };
  const subscribed = () =>
    world.commands
      .filter(({ command }) => command === "subscribe")
      .map(({ topic, keys = null, prefix = null }) => [topic, keys, prefix]);
  const put = async (...entries: [key: string, value: number | null][]): Promise<void> => {
    for (const [key, value] of entries) world.put("cars", key, value);
    await wait();
  };

  beforeEach(async () => {
    world.keyed.add("cars");
    await put(["a", 1], ["b", 2], ["c", 3], ["taxi/1", 4]);
  });

  it("gets these keys, and those with the prefix", async () => {
    await show(h(Cars, { keys: ["a"], prefix: "taxi/" }));
    expect(text()).toBe("true a,1 taxi/1,4");
    await put(["b", 5], ["taxi/2", 6], ["a", null]);
    expect(text()).toBe("true taxi/1,4 taxi/2,6");
    expect(subscribed()).toEqual([["cars", ["a"], "taxi/"]]);
  });

  it("is the same in each rendering, and in each order of the keys", async () => {
    for (const keys of [
      ["a", "b"],
      ["a", "b"],
      ["b", "a", "b"],
    ]) {
      await show(h(Cars, { keys }), ", ", h(Cars, { keys: ["b", "a"] }));
      expect(text()).toBe("true a,1 b,2, true a,1 b,2");
    }
    expect(wire()).toEqual([1, "subscribe"]);
  });

  it("that changes subscribes again over the same connection, and shows the keys that are known", async () => {
    await show(h(Cars, { keys: ["a", "b"] }));
    await act(async () => root?.render(h(StrictMode, null, h(Provider, null, h(Cars, { keys: ["b", "c"] })))));
    expect(text()).toBe("false b,2");
    await wait();
    expect(text()).toBe("true b,2 c,3");
    await show(h(Cars, { prefix: "taxi/" }));
    expect(text()).toBe("true taxi/1,4");
    await show(h(Cars, {}));
    expect(text()).toBe("true a,1 b,2 c,3 taxi/1,4");
    expect(subscribed().map(([, ...filter]) => filter)).toEqual([
      [["a", "b"], null],
      [["b", "c"], null],
      [null, "taxi/"],
      [null, null],
    ]);
    await wait(GRACE_MS);
    expect([carried(), sessions.length, world.requests.length]).toEqual([["cars"], 1, 1]);
  });

  it("changes over one-way transports", async () => {
    world.blocked.add("websocket");
    await show(h(Cars, { keys: ["a"] }));
    await wait(20_000);
    expect(text()).toBe("true a,1");
    await show(h(Cars, { keys: ["c"] }));
    await wait(20_000);
    expect(text()).toBe("true c,3");
    const requests = world.requests.filter(({ method }) => method === "GET");
    expect(requests.at(-1)?.url.searchParams.getAll("key")).toEqual(["c"]);
  });

  it("of one component leaves the others theirs", async () => {
    const both = (keys: string[]) => show(h(Cars, { keys: ["a"] }), ", ", h(Cars, { keys }));
    await both(["b"]);
    await put(["a", 7], ["b", 8]);
    expect(text()).toBe("true a,7, true b,8");
    await both(["c"]);
    await put(["a", 9], ["c", 10]);
    expect(text()).toBe("true a,9, true c,10");
    expect(sessions).toHaveLength(2);
  });

  it("ends with the component", async () => {
    await show(h(Cars, { keys: ["a"] }));
    await show(h(Cars, { keys: ["b"] }));
    await show();
    await wait(GRACE_MS);
    expect(carried()).toEqual([]);
  });

  it("survives a broken connection", async () => {
    await show(h(Cars, { keys: ["a"] }));
    world.cut();
    await put(["a", 7], ["b", 8]);
    await wait(20_000);
    expect(text()).toBe("true a,7");
    expect(subscribed().at(-1)).toEqual(["cars", ["a"], null]);
  });

  it("without a key is an error, and without a topic subscribes to nothing", async () => {
    await show(h(Cars, { keys: [] }));
    expect(text()).toBe("false bad_key");
    await show(h(Cars, { keys: [], topic: null }));
    expect([text(), wire()]).toEqual(["false", [0]]);
  });

  it("applies to the events of useTopic and to useValue", async () => {
    const Value = (): ReactNode => h("b", null, `${useValue<number>("cars", { keys: ["b"] }).value} `);
    await show(h(Value), h(List, { keys: ["b"] }));
    await put(["a", 7], ["b", 8]);
    expect(text()).toBe("8 2 8");
    expect(subscribed()).toEqual([["cars", ["b"], null]]);
  });

  it("applies to the members of a topic", async () => {
    world.keyed.add("presence/rooms/7");
    for (const user of ["ann", "bob"]) world.put("presence/rooms/7", user, { since: 1, user });
    const Bob = (): ReactNode => {
      const { members, count } = usePresence("rooms/7", { keys: ["bob"] });
      return `${count} ${members.map(({ user }) => user)}`;
    };
    await show(h(Bob));
    expect(text()).toBe("1 bob");
  });

  it("does not get the state that the server has rendered for another one", async () => {
    const initial: Envelope = { topic: "cars", position: "e1.4", first: 1, keys: ["a"], events: [1] };
    expect(renderToString(h(Provider, null, h(Cars, { keys: ["a"], initial })))).toBe("<p>true a,1</p>");
    root = createRoot(place);
    const render = (keys: string[]) => act(async () => root?.render(h(Provider, null, h(Cars, { keys, initial }))));
    await render(["a"]);
    expect(text()).toBe("true a,1");
    await render(["b"]);
    expect(text()).toBe("false");
    await wait();
    expect(text()).toBe("true b,2");
  });
});

describe("usePresence", () => {
  const Here = (): ReactNode => {
    const { members, count, isWhole } = usePresence<{ name: string }>("rooms/7");
    return h("p", null, `${isWhole} ${count} ${members.map(({ key, user, info }) => `${key}:${user ?? info?.name}`)}`);
  };

  it("lists the members", async () => {
    world.keyed.add("presence/rooms/7");
    world.put("presence/rooms/7", "ann", { since: 1, user: "ann" });
    await show(h(Here));
    world.put("presence/rooms/7", "~k3", { since: 2, info: { name: "Guest" } });
    await wait();
    expect(text()).toBe("true 2 ann:ann,~k3:Guest");
    world.put("presence/rooms/7", "ann", null);
    await wait();
    expect(text()).toBe("true 1 ~k3:Guest");
  });

  it("counts them", async () => {
    world.keyed.add("presence/rooms/7");
    world.put("presence/rooms/7", "count", 12);
    await show(h(Here));
    expect(text()).toBe("true 12 ");
  });
});

describe("the provider", () => {
  it("calls the latest token and onStatus", async () => {
    const said: string[] = [];
    const render = (name: string) =>
      act(async () => {
        const token = (): string => (said.push(name), name);
        const onStatus: SessionProviderProps["onStatus"] = ({ state }) => void said.push(`${name} ${state}`);
        root?.render(h(Provider, { token, onStatus }, h(List, {})));
      });
    root = createRoot(place);
    await render("a");
    await wait();
    expect(said).toEqual(["a", "a connecting", "a open"]);
    said.length = 0;
    await render("b");
    expect(said).toEqual([]);
    world.cut();
    await wait(20_000);
    expect(said).toEqual(["b waiting", "b", "b connecting", "b open"]);
  });

  it("calls a token that is given later", async () => {
    const asked: string[] = [];
    root = createRoot(place);
    await act(async () => root?.render(h(Provider, {}, h(List, {}))));
    await wait();
    await act(async () => root?.render(h(Provider, { token: () => (asked.push("late"), "late") }, h(List, {}))));
    world.cut();
    await wait(20_000);
    expect(asked).toEqual(["late"]);
  });

  it("begins another session for another url, and closes the one before", async () => {
    root = createRoot(place);
    await act(async () => root?.render(h(Provider, { url: "http://one/" }, h(List, {}))));
    await wait();
    await act(async () => root?.render(h(Provider, { url: "http://two/" }, h(List, {}))));
    await wait(GRACE_MS);
    expect(world.requests.map(({ url }) => url.host)).toEqual(["one", "two"]);
    expect(sessions.map(({ status }) => status.state)).toEqual(["closed", "open"]);
  });

  it("has functions that are stable", async () => {
    const seen: ReactSession[] = [];
    const Keep = (): null => (seen.push(useSession()), null);
    await show(h(Keep), h(List, {}));
    const [first, last] = [seen[0] as ReactSession, seen.at(-1) as ReactSession];
    expect([first.status.state, last.status.state]).toEqual(["idle", "open"]);
    expect({ ...first, status: null }).toEqual({ ...last, status: null });
    await last.publish("cars", 1);
    await wait();
    expect(text()).toBe("1");
  });
});

describe("an effect that subscribes", () => {
  const heard: unknown[] = [];
  const Sound = (): null => {
    const { subscribe } = useSession();
    useEffect(() => {
      const alarms = subscribe("alarms", { onError: () => {} }, ({ events }) => void heard.push(...events));
      return () => alarms.close();
    }, [subscribe]);
    return null;
  };
  let session: ReactSession | undefined;
  const Keep = (): null => ((session = useSession()), null);
  const alarm = async (event: number): Promise<void> => {
    world.publish("alarms", event);
    await wait();
  };

  beforeEach(() => void heard.splice(0));

  it("runs again with the session after a failed one", async () => {
    await show(h(Sound), h(Keep));
    await alarm(1);
    world.close(1008, "go away", false);
    await wait();
    expect(session?.status.state).toBe("closed");
    session?.reconnect();
    await wait();
    await alarm(2);
    expect(heard).toEqual([1, 2]);
    expect(sessions).toHaveLength(2);
  });

  it("may begin after a failure, and others then run again", async () => {
    await show(h(Sound), h(Keep));
    await alarm(1);
    world.close(1008, "go away", false);
    await wait();
    await show(h(Sound), h(Keep), h(Sound));
    await alarm(2);
    expect(heard).toEqual([1, 2, 2]);
    expect(sessions).toHaveLength(2);
  });
});

describe("a session that the page creates", () => {
  it("cannot carry a topic that is read in two ways", async () => {
    world.publish("cars", 1, 2, 3);
    const own = connect("http://server/", { fetch: world.fetch as typeof fetch });
    sessions.push(own);
    root = createRoot(place);
    for (const keeps of [[1], [1, 2]]) {
      const lists = keeps.map((keep) => h(List, { key: keep, keep }));
      await act(async () => root?.render(h(Provider, { connect: () => own }, ...lists)));
      await wait();
    }
    expect(text()).toContain("already_subscribed");
  });

  it("is closed if a function is called after the provider has been unmounted", async () => {
    let session: ReactSession | undefined;
    const Keep = (): null => ((session = useSession()), null);
    await show(h(List, {}), h(Keep));
    await act(async () => root?.render(null));
    await wait(GRACE_MS);
    await session?.publish("cars", 1);
    await wait(GRACE_MS);
    expect(sessions.map(({ status }) => status.state)).toEqual(["closed", "closed"]);
  });
});

describe("on the server", () => {
  const initial: Envelope = { topic: "cars", position: "e1.2", first: 1, events: [1, 2] };
  const page = (given?: Envelope): ReactNode => h(Provider, null, h(List, { keep: 2, initial: given }));

  it("shows the initial events, and opens no connection", async () => {
    expect(renderToString(page())).toBe("<p>idle</p>");
    expect(renderToString(page(initial))).toBe("<p>1 2 idle</p>");
    await wait(20_000);
    expect([sessions.length, world.requests.length]).toEqual([0, 0]);
  });

  it("shows initial keys", () => {
    const Keys = (): ReactNode => {
      const { map, isWhole } = useKeyed("cars", { initial: { ...initial, keys: ["a", "b"] } });
      return `${isWhole} ${[...map].join(" ")}`;
    };
    expect(renderToString(h(Provider, null, h(Keys)))).toBe("true a,1 b,2");
  });

  it("the page continues after these events", async () => {
    world.publish("cars", 1, 2);
    place.innerHTML = renderToString(page(initial));
    world.publish("cars", 3);
    root = await act(async () => hydrateRoot(place, page(initial)));
    expect(text()).toBe("1 2 idle");
    await wait();
    expect(text()).toBe("2 3");
    expect(world.commands[0]).toMatchObject({ cursor: "e1.2" });
  });
});
