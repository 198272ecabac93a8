/**
 * Patches of value topics: JSON Patch (RFC 6902) with `add`, `remove`, `replace` and `move`. The core loads this module
 * when the first patch arrives. Import it only to apply patches from another source.
 *
 * @packageDocumentation
 */

import type { Connection } from "./connection.js";
import type { NewEvents } from "./cursor.js";
import type { SharedSubscription } from "./sharing.js";
import type { Message } from "./wire.js";

/** One operation of a patch. */
export interface Operation {
  /** `add`, `remove`, `replace` or `move`. */
  readonly op: string;
  /** The target, as a JSON Pointer (RFC 6901). */
  readonly path: string;
  /** The source of a `move`, as a JSON Pointer. */
  readonly from?: string;
  /** The value of an `add` or `replace`. */
  readonly value?: unknown;
}

/** The result of a patch. */
export interface Patched {
  /** The new document. Parts that have not changed are the same objects as before. */
  readonly document: unknown;
  /**
   * The differences from the previous document, as JSON Pointers: values that were added, replaced or moved, objects
   * that lost members, and arrays that lost elements. Values inside one of them are not listed.
   */
  readonly changed: readonly string[];
}

/** Largest number of array elements that a patch may shift: about 50 ms of work. A patch that shifts more fails. */
const MOVED_MAX = 1 << 24;

/** Consecutive failed patches after which a session requests whole documents. */
const FAILURES_MAX = 3;

/** The part of a session that patches use. @internal */
export interface PatchOwner {
  /** The connection in use, if there is one. */
  readonly route: { readonly current: Connection | null };
  /** The topics or the terms of the session have changed. */
  changed(): void;
  /** Requests whole documents from the next connection on, because patches do not apply. */
  takeWhole(shared: SharedSubscription): null;
}

type Container = Record<string, unknown> | unknown[];

/** Changes in a copied container: names of members, or a flag per element. Arrays that lost elements are in `cut`. */
type Marks = Set<string> | boolean[];

/**
 * Applies operations to a document and returns the new document. The given document is not modified. The time is
 * bounded for all operations.
 *
 * @throws TypeError if an operation does not apply; RangeError if it would take too long.
 */
export function patched(document: unknown, operations: readonly Operation[]): Patched {
  const top: Container = { "": document };
  const copies = new Map<Container, Marks>([[top, new Set()]]);
  const cut = new Set<Container>();
  let moved = 0;

  /** Counts the elements that an array shifts. */
  const shift = (elements: unknown[], at: number): boolean[] => {
    moved += elements.length - at;
    if (moved > MOVED_MAX) throw new RangeError("the patch takes too long");
    return copies.get(elements) as boolean[];
  };

  const put = (container: Container, name: string, value: unknown): void => {
    if (Array.isArray(container)) container[index(container, name)] = value;
    // Assigning `__proto__` would change the prototype.
    else Object.defineProperty(container, name, { value, writable: true, enumerable: true, configurable: true });
  };

  const mark = (container: Container, name: string): void => {
    const marks = copies.get(container) as Marks;
    if (Array.isArray(marks)) marks[Number(name)] = true;
    else marks.add(name);
  };

  /** Finds the container and the name that a pointer refers to. Copies the container and those around it. */
  const find = (path: string): [Container, string] => {
    const names = path.split("/").map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
    if (names[0]) throw new TypeError(`${path} is not a JSON Pointer`);
    const last = names.pop() as string;
    let container: Container = top;
    for (const name of names) {
      let inner = get(container, name) as Container;
      if (typeof inner !== "object" || !inner) throw new TypeError(`${name} has no members`);
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
      // A move within an array loses no element.
      const wasCut = cut.has(container);
      add(path, remove(from));
      if (isSame && !wasCut) cut.delete(container);
    } else if (op === "replace") {
      const [container, name] = find(path);
      get(container, name);
      put(container, name, value);
      mark(container, name);
    } else throw new TypeError(`unknown operation ${op}`);
  }

  const changed: string[] = [];
  const collect = (container: Container, path: string): void => {
    const marks = copies.get(container);
    if (!marks) return;
    if (cut.has(container)) changed.push(path);
    // Only the marks have the removed members.
    const names = new Set([...(marks instanceof Set ? marks : []), ...Object.keys(container)]);
    for (const name of names) {
      const at = container === top ? "" : `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (marks instanceof Set ? marks.has(name) : marks[Number(name)]) changed.push(at);
      else collect((container as Record<string, Container>)[name] as Container, at);
    }
  };
  collect(top, "");
  const result = get(top, "");
  if (result === undefined) throw new TypeError("the patch leaves no document");
  return { document: result, changed };
}

/** Returns an own member or element. @throws TypeError if there is none. */
function get(container: Container, name: string): unknown {
  if (Array.isArray(container)) return container[index(container, name)];
  if (!Object.hasOwn(container, name)) throw new TypeError(`there is no ${name}`);
  return container[name];
}

/** Returns the index of an element. @throws TypeError if there is none. */
function index(elements: unknown[], name: string, most = elements.length - 1): number {
  const at = /^(0|[1-9][0-9]*)$/.test(name) ? Number(name) : -1;
  if (at < 0 || at > most) throw new TypeError(`there is no element ${name}`);
  return at;
}

function parent(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

/**
 * Applies a message's patch to the version at the cursor. If the patch does not apply, the session requests the whole
 * document.
 *
 * @internal
 */
export function made(subscription: SharedSubscription, message: Message, owner: PatchOwner): NewEvents | null {
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

/** Subscribes to the topic again without a cursor, so that the whole document arrives. */
function restart(subscription: SharedSubscription, owner: PatchOwner): null {
  subscription.cursor = "latest";
  const carried = owner.route.current?.carried.get(subscription.topic);
  // `NaN` equals no interval. A two-way connection therefore subscribes again, and a one-way connection is replaced.
  if (carried && carried.interval !== null) carried.interval = Number.NaN;
  owner.changed();
  return null;
}
