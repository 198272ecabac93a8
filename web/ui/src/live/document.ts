/**
 * A value topic's newest version, where it differs from the one before, and the rows that are seen
 * of it. Pure.
 */

import { counted } from "../format.js";
import { preview } from "./columns.js";

/** Differences that are looked for in two whole documents. */
const DIFFERENCES_MAX = 2000;
/** Children of a container that are listed before somebody asks for more. */
export const CHILDREN = 50;
/** Rows in all: more cannot be read, and take long to draw. */
export const ROWS_MAX = 1000;
/** What is open by itself: so deep, and of so many children at most. */
const OPEN_DEPTH = 2;
const OPEN_CHILDREN = 20;

/** One version. */
export interface Version {
  /** Counted from 1, of those that came. */
  readonly number: number;
  readonly document: unknown;
  /** JSON Pointers. */
  readonly changed: ReadonlySet<string>;
  /** How many of them are in a container, by its pointer. */
  readonly within: ReadonlyMap<string, number>;
}

/** @param changed - as the SDK has it; found by comparing if it does not know. */
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

/** Where two documents differ, as JSON Pointers; elements by their places. What is the same object is not looked into. */
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

/** A line of the document. */
export interface Line {
  readonly pointer: string;
  readonly name: string;
  readonly depth: number;
  /** Its value, or how much is in it. */
  readonly text: string;
  /** Whether it can be opened, and is; `null`: there is nothing in it. */
  readonly isOpen: boolean | null;
  readonly isMarked: boolean;
  /** Of a container that is closed: how much has changed in it. */
  readonly inside: number;
  /** Children of it that are not listed. */
  readonly hidden: number;
}

/** What a reader has opened and closed, by pointer, and how many children are listed where it is not as many as at first. */
export interface Opened {
  readonly isOpen: ReadonlyMap<string, boolean>;
  readonly listed: ReadonlyMap<string, number>;
}

/** The lines that are seen, `ROWS_MAX` at most. */
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

/** The name of a member; of an element its number and, if it has one, its name or id. */
function label(container: unknown, name: string): string {
  const element = Array.isArray(container) ? (container[Number(name)] as unknown) : null;
  if (!isContainer(element)) return name;
  const called = member(element, "name") ?? member(element, "text") ?? member(element, "id");
  return typeof called === "string" ? `${name} · ${preview(called)}` : name;
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Never one of a prototype. */
function member(container: object, name: string): unknown {
  return Object.hasOwn(container, name) ? (container as Record<string, unknown>)[name] : undefined;
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
