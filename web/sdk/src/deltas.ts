/**
 * Versions of value topics that come as patches: JSON Patch (RFC 6902) with `add`, `remove`,
 * `replace` and `move`. The core loads this entry by itself when the first patch has come; a page
 * needs it only for patches that it receives in another way.
 *
 * @packageDocumentation
 */

import type { NewEvents } from "./cursor.js";
import type { Receiver } from "./receive.js";
import type { SharedSubscription } from "./sharing.js";
import type { Message } from "./wire.js";

/** One operation of a patch. */
export interface Operation {
  /** `add`, `remove`, `replace` or `move`. */
  readonly op: string;
  /** Where: a JSON Pointer (RFC 6901). */
  readonly path: string;
  /** From where, if it is a `move`. */
  readonly from?: string;
  /** What is added, or put in place. */
  readonly value?: unknown;
}

/** What a patch makes of a document. */
export interface Patched {
  /** Whatever has not changed is the same object as before. */
  readonly document: unknown;
  /**
   * Where it differs from the one before, as JSON Pointers: what was added, replaced or moved,
   * members that are gone, and arrays that have lost elements. What is below one of them is not
   * named.
   */
  readonly changed: readonly string[];
}

/**
 * A patch may move so many elements of arrays to make room or close gaps: some 50 ms of work. One
 * that is made to take longer fails.
 */
const MOVED_MAX = 1 << 24;

/** After so many patches in a row that were of no use a session's next connections take none. */
const FAILURES_MAX = 3;

type Container = Record<string, unknown> | unknown[];

/**
 * What has changed in a container that was copied: the names of members, or for each element
 * whether it is another. An array that has lost elements is in `cut`.
 */
type Marks = Set<string> | boolean[];

/**
 * The document that the operations make of another. That one stays as it is, and the time that it
 * takes is bounded, whatever the operations are.
 *
 * @throws TypeError if an operation does not apply; RangeError if it would take too long.
 */
export function patched(document: unknown, operations: readonly Operation[]): Patched {
  const top: Container = { "": document };
  const copies = new Map<Container, Marks>([[top, new Set()]]);
  const cut = new Set<Container>();
  let moved = 0;

  /** Counts what an array moves behind this place. */
  const shift = (elements: unknown[], at: number): boolean[] => {
    moved += elements.length - at;
    if (moved > MOVED_MAX) throw new RangeError("the patch is too much work");
    return copies.get(elements) as boolean[];
  };

  const put = (container: Container, name: string, value: unknown): void => {
    if (Array.isArray(container)) container[index(container, name)] = value;
    // To assign `__proto__` would change what the object is.
    else Object.defineProperty(container, name, { value, writable: true, enumerable: true, configurable: true });
  };

  const mark = (container: Container, name: string): void => {
    const marks = copies.get(container) as Marks;
    if (Array.isArray(marks)) marks[Number(name)] = true;
    else marks.add(name);
  };

  /** The container that a pointer ends in, copied as are those around it, and the last name. */
  const find = (path: string): [Container, string] => {
    const names = path.split("/").map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
    if (names[0]) throw new TypeError(`${path} is no pointer`);
    const last = names.pop() as string;
    let container: Container = top;
    for (const name of names) {
      let inner = get(container, name) as Container;
      if (typeof inner !== "object" || !inner) throw new TypeError(`nothing is in ${name}`);
      if (!copies.has(inner)) {
        inner = Array.isArray(inner) ? [...inner] : { ...inner };
        copies.set(inner, Array.isArray(inner) ? inner.map(() => false) : new Set());
        put(container, name, inner);
      }
      container = inner;
    }
    return [container, last];
  };

  const add = (path: string, value: unknown): void => {
    const [container, name] = find(path);
    if (Array.isArray(container)) {
      const at = name === "-" ? container.length : index(container, name, container.length);
      shift(container, at).splice(at, 0, true);
      container.splice(at, 0, value);
    } else {
      put(container, name, value);
      mark(container, name);
    }
  };

  const remove = (path: string): unknown => {
    const [container, name] = find(path);
    const value = get(container, name);
    if (Array.isArray(container)) {
      const at = index(container, name);
      shift(container, at).splice(at, 1);
      container.splice(at, 1);
      cut.add(container);
    } else {
      delete container[name];
      mark(container, name);
    }
    return value;
  };

  for (const { op, path, from = "?", value } of operations) {
    if (op === "add") add(path, value);
    else if (op === "remove") remove(path);
    else if (op === "move") {
      const isSame = parent(from) === parent(path);
      const [container] = find(from);
      // Within an array nothing is lost.
      const wasCut = cut.has(container);
      add(path, remove(from));
      if (isSame && !wasCut) cut.delete(container);
    } else if (op === "replace") {
      const [container, name] = find(path);
      get(container, name);
      put(container, name, value);
      mark(container, name);
    } else throw new TypeError(`no operation is called ${op}`);
  }

  const changed: string[] = [];
  const collect = (container: Container, path: string): void => {
    const marks = copies.get(container);
    if (!marks) return;
    if (cut.has(container)) changed.push(path);
    // A member that is gone is not among those that there are.
    const names = new Set([...(marks instanceof Set ? marks : []), ...Object.keys(container)]);
    for (const name of names) {
      const at = container === top ? "" : `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (marks instanceof Set ? marks.has(name) : marks[Number(name)]) changed.push(at);
      else collect((container as Record<string, Container>)[name] as Container, at);
    }
  };
  collect(top, "");
  const result = get(top, "");
  if (result === undefined) throw new TypeError("there is no document");
  return { document: result, changed };
}

/** A member or an element that is there; never one of a prototype. */
function get(container: Container, name: string): unknown {
  if (Array.isArray(container)) return container[index(container, name)];
  if (!Object.hasOwn(container, name)) throw new TypeError(`there is no ${name}`);
  return container[name];
}

/** The number of an element; @throws TypeError if there is none. */
function index(elements: unknown[], name: string, most = elements.length - 1): number {
  const at = /^(0|[1-9][0-9]*)$/.test(name) ? Number(name) : -1;
  if (at < 0 || at > most) throw new TypeError(`there is no element ${name}`);
  return at;
}

function parent(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

/**
 * What is new in a patch: the version that it makes of the one at the cursor. If it makes none, the
 * document is asked for.
 *
 * @internal
 */
export function made(subscription: SharedSubscription, message: Message, owner: Receiver): NewEvents | null {
  const { first = 0, previous, patch } = message;
  try {
    const { document, changed } = patched(subscription.version, patch as Operation[]);
    subscription.version = document;
    subscription.failures = 0;
    return { first, events: [document], gap: null, previous, changed };
  } catch {
    const failures = (subscription.failures ?? 0) + 1;
    subscription.failures = failures;
    return failures > FAILURES_MAX ? owner.takeWhole(subscription) : restart(subscription, owner);
  }
}

/** Subscribes to it anew, without a cursor: then its document comes. */
function restart(subscription: SharedSubscription, { connection, changed }: Receiver): null {
  subscription.cursor = "latest";
  const carried = connection()?.carried.get(subscription.topic);
  // Not as it is wanted: a two-way connection takes it again. One that is one-way is replaced.
  if (carried && carried.interval !== null) carried.interval = Number.NaN;
  changed();
  return null;
}
