/** Checks of arguments, before a request is sent. */

import type { PublishTarget } from "./commands.js";
import { ThalwegError } from "./errors.js";
import type { Status } from "./status.js";
import { type Cursor, cursorOf, parsePosition, type Start } from "./wire.js";

const TOPIC = /^(?!.{201})(?!(.*\/)?\.{1,2}(\/|$))[\w.~@:|+=-]+(\/[\w.~@:|+=-]+)*$/;
const START = /^(latest|earliest|newest\.([1-9]\d{0,3}|10000)|since\.(0|[1-9][0-9]{0,15}))$/;

/** Checks that a session is not closed. @internal @throws ThalwegError */
export function checkOpen({ state }: Status): void {
  if (state === "closed") throw new ThalwegError("closed", "the session is closed");
}

/** Checks the name of a topic. @internal @throws ThalwegError */
export function checkTopic(topic: string): void {
  if (!TOPIC.test(topic)) throw new ThalwegError("bad_topic", `${topic} is not a topic name`);
}

/** Checks the topic of a publish. Returns the target as an object. @internal @throws ThalwegError */
export function checkTarget(target: string | PublishTarget): PublishTarget {
  const topic = typeof target === "string" ? { topic: target } : target;
  checkTopic(topic.topic);
  return topic;
}

/** Checks a topic and a start, and returns the cursor of the start. @internal @throws ThalwegError */
export function checkStart(topic: string, start?: Start): Cursor {
  checkTopic(topic);
  const cursor = cursorOf(start);
  if (!START.test(cursor) && !parsePosition(cursor)) {
    throw new ThalwegError("bad_cursor", `${cursor} is not a cursor`);
  }
  return cursor;
}

/** Checks that a value can be JSON. `JSON.stringify` would turn bytes into an object of numbers. @internal @throws ThalwegError */
export function checkJson(value: unknown): void {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new ThalwegError("bad_event", "bytes are not JSON: pass base64 or Array.from(bytes)");
  }
  if (["undefined", "function", "symbol"].includes(typeof value)) {
    throw new ThalwegError("bad_event", `${typeof value} is not JSON: pass null or omit it`);
  }
}
