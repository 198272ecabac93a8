/** The store of docs/how-to/react.md for Vue, Svelte and Solid. */

import { beforeEach, expect, it } from "vitest";
import type { Session, ThalwegError } from "../dist/thalweg.js";
import { advance, begin, useWorld, world } from "./fixture.js";
import { snippetFiles } from "./snippet.js";

useWorld();

interface State {
  events: unknown[];
  gap: object | null;
  error: ThalwegError | null;
}

interface TopicStore {
  subscribe(listener: (state: State) => void): () => void;
}

const code = snippetFiles("docs/how-to/react.md")["topic-store.js"]?.replace("export ", "return ");
const topicStore = new Function(code ?? "")() as (session: Session, topic: string, keep?: number) => TopicStore;

let store: TopicStore;
let last: State;
const listen = (): (() => void) => store.subscribe((state) => void (last = state));
const carried = (): string[] => [...world.listeners].flatMap(({ cursors }) => [...cursors.keys()]);

beforeEach(() => {
  store = topicStore(begin(), "cars", 3);
});

it("has the newest events at once, and calls its listeners with each change", async () => {
  world.publish("cars", 1, 2);
  listen();
  expect(last).toEqual({ events: [], gap: null, error: null });
  await advance();
  const others: unknown[] = [];
  store.subscribe(({ events }) => void others.push(events));
  world.publish("cars", 3, 4);
  await advance();
  expect(last.events).toEqual([2, 3, 4]);
  expect(others).toEqual([
    [1, 2],
    [2, 3, 4],
  ]);
  expect(world.requests).toHaveLength(1);
});

it("subscribes while it has listeners, and then continues where it was", async () => {
  const leave = listen();
  listen()();
  await advance();
  world.publish("cars", 1);
  await advance();
  expect(carried()).toEqual(["cars"]);
  leave();
  await advance();
  expect(carried()).toEqual([]);
  world.publish("cars", 2);
  listen();
  expect(last.events).toEqual([1]);
  await advance();
  expect(last.events).toEqual([1, 2]);
});

it("reports gaps and errors", async () => {
  listen();
  await advance();
  world.publish("cars", 1);
  await advance();
  world.cut();
  world.publish("cars", 2, 3);
  world.trim("cars", 1);
  await advance(2000);
  expect(last.events).toEqual([1, 3]);
  world.end("cars", "deleted", "somebody deleted it");
  await advance();
  expect(last.error?.code).toBe("deleted");
});
