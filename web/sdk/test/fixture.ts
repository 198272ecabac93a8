/** A world with sessions, and a clock that the test controls. */

import { afterEach, beforeEach, vi } from "vitest";
import { type Batch, type ConnectOptions, type Cursor, connect, type Session, type Status } from "../dist/thalweg.js";
import { World } from "./world.js";

export let world: World;
export const statuses: string[] = [];
const sessions: Session[] = [];

/** `performance` is controlled too: a reader's yield to the event loop does not run while the test's clock advances. */
export const CLOCK = {
  toFake: ["setTimeout", "clearTimeout", "Date", "performance"],
} satisfies Parameters<typeof vi.useFakeTimers>[0];

/** A page that can be hidden or go offline. */
export class Tab extends EventTarget {
  hidden = false;
  hide(isHidden: boolean): void {
    this.hidden = isHidden;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

export function storage(): Pick<Storage, "getItem" | "setItem"> {
  const items = new Map<string, string>();
  return {
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => void items.set(key, value),
  };
}

export function useWorld(): void {
  beforeEach(() => {
    vi.useFakeTimers(CLOCK);
    world = new World();
    statuses.length = 0;
    vi.stubGlobal("WebSocket", world.WebSocket);
    vi.stubGlobal("EventSource", world.EventSource);
    vi.spyOn(Math, "random").mockReturnValue(0);
  });

  afterEach(() => {
    for (const session of sessions.splice(0)) session.close();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

/** A tab for the sessions that begin after this call. */
export function tab(): Tab {
  const it = new Tab();
  vi.stubGlobal("document", it);
  vi.stubGlobal("addEventListener", it.addEventListener.bind(it));
  vi.stubGlobal("removeEventListener", it.removeEventListener.bind(it));
  return it;
}

/** The page of a simulation's current test. */
export let page: Tab;

/** Gives each test a page without sockets, and a clock that the test controls. The simulation brings its own worlds. */
export function usePage(): void {
  beforeEach(() => {
    vi.useFakeTimers(CLOCK);
    page = tab();
  });

  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

/** Advances the clock, and runs everything that is due. */
export async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let turn = 0; turn < 30; turn++) await Promise.resolve();
  await vi.advanceTimersByTimeAsync(0);
}

export function begin(options: ConnectOptions = {}): Session {
  const onStatus = ({ state, transport }: Status): void => {
    statuses.push(transport ? `${state} ${transport}` : state);
  };
  const session = connect("http://server/", { fetch: world.fetch as typeof fetch, onStatus, ...options });
  sessions.push(session);
  return session;
}

export function collect(session: Session, topic = "cars", from: Cursor = "latest") {
  const events: unknown[] = [];
  const gaps: unknown[] = [];
  const subscription = session.subscribe<number>(topic, { from }, (batch: Batch<number>) => {
    if (batch.gap) gaps.push(batch.gap);
    events.push(...batch.events);
  });
  return { subscription, events, gaps };
}

/** Runs all tasks, and advances the clock by this time. */
export async function advance(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  await vi.advanceTimersByTimeAsync(0);
}
