/** The newest version of a value topic, its changes since the previous version, and its visible lines. Pure. */

import { counted } from "../format.js";
import { preview } from "./columns.js";

/** Maximum number of differences found when two whole documents are compared. */
const DIFFERENCES_MAX = 2000;
/** Children of a container that are listed before the reader asks for more. */
export const CHILDREN = 50;
/** Maximum number of lines: more are slow to render. */
export const ROWS_MAX = 1000;
/** Containers that are open by default: up to this depth, with at most this many children. */
const OPEN_DEPTH = 2;
const OPEN_CHILDREN = 20;

export interface Version {
  /** The version's number among those received, from 1. */
  readonly number: number;
  readonly document: unknown;
  /** JSON Pointers of the changes. */
  readonly changed: ReadonlySet<string>;
  /** Number of changes in each container, by its JSON Pointer. */
  readonly within: ReadonlyMap<string, number>;
}

/** Creates a version. @param changed - the changes that the SDK reports; if `undefined`, the documents are compared. */
export function version(
  number: number,
  document: unknown,
  changed: readonly string[] | undefined,
  before: Version | null,
): Version {
  const paths = before ? (changed ?? differences(before.document, document)) : [];
  const within = new Map<string, number>();
  for (const path of paths) {
    for (let end = path.lastIndexOf("/"); end >= 0; end = path.lastIndexOf("/", end - 1)) {
      const above = path.slice(0, end);
      within.set(above, (within.get(above) ?? 0) + 1);
      if (end === 0) break;
    }
  }
  return { number, document, changed: new Set(paths), within };
}

/**
 * Returns the differences of two documents as JSON Pointers. Array elements are compared by index, and a value that
 * is the same object in both is skipped.
 */
export function differences(before: unknown, after: unknown): string[] {
  const found: string[] = [];
  const compare = (before: unknown, after: unknown, path: string): void => {
    if (Object.is(before, after) || found.length >= DIFFERENCES_MAX) return;
    if (!isContainer(before) || !isContainer(after) || Array.isArray(before) !== Array.isArray(after)) {
      found.push(path);
      return;
    }
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      compare(member(before, name), member(after, name), `${path}/${escaped(name)}`);
    }
  };
  compare(before, after, "");
  return found;
}

export interface Line {
  readonly pointer: string;
  readonly name: string;
  readonly depth: number;
  /** The value, or the size of a container. */
  readonly text: string;
  /** Whether the container is open; `null` for other values and empty containers. */
  readonly isOpen: boolean | null;
  readonly isMarked: boolean;
  /** Number of changes in a closed container. */
  readonly inside: number;
  /** Number of children that are not listed. */
  readonly hidden: number;
}

/** Containers that the reader has opened or closed, and the number of listed children, by JSON Pointer. */
export interface Opened {
  readonly isOpen: ReadonlyMap<string, boolean>;
  readonly listed: ReadonlyMap<string, number>;
}

export function lines({ document, changed, within }: Version, opened: Opened): Line[] {
  const all: Line[] = [];
  const add = (pointer: string, name: string, value: unknown, depth: number): void => {
    if (all.length >= ROWS_MAX) return;
    const names = isContainer(value) ? Object.keys(value) : [];
    const byItself = depth === 0 || (depth < OPEN_DEPTH && names.length <= OPEN_CHILDREN);
    const isOpen = names.length ? (opened.isOpen.get(pointer) ?? byItself) : null;
    const listed = isOpen ? names.slice(0, opened.listed.get(pointer) ?? CHILDREN) : [];
    const inside = isOpen ? 0 : (within.get(pointer) ?? 0);
    all.push({
      pointer,
      name,
      depth,
      text: isContainer(value) ? amount(value, names.length) : value === null ? "null" : preview(value),
      isOpen,
      isMarked: changed.has(pointer) || inside > 0,
      inside,
      hidden: isOpen ? names.length - listed.length : 0,
    });
    for (const child of listed) {
      add(`${pointer}/${escaped(child)}`, label(value, child), member(value as object, child), depth + 1);
    }
  };
  add("", "document", document, 0);
  return all;
}

function amount(container: object, count: number): string {
  return counted(count, Array.isArray(container) ? "element" : "member");
}

/** Returns a member's name; for an array element its index, with its name or id if it has one. */
function label(container: unknown, name: string): string {
  const element = Array.isArray(container) ? (container[Number(name)] as unknown) : null;
  if (!isContainer(element)) return name;
  const called = member(element, "name") ?? member(element, "text") ?? member(element, "id");
  return typeof called === "string" ? `${name} · ${preview(called)}` : name;
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Returns an own member, never an inherited one. */
function member(container: object, name: string): unknown {
  return Object.hasOwn(container, name) ? (container as Record<string, unknown>)[name] : undefined;
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
