/** Patches: the golden ones, random ones, and malicious ones. */

import { describe, expect, it } from "vitest";
import { type Operation, patched } from "../dist/deltas.js";
import { seeded } from "./random.js";
import { read } from "./vectors.js";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const { patches } = read<{ patches: { envelope: { patch: string }; before: string; after: string }[] }>(
  "messages.json",
);

const DOCUMENTS = 2000;

function at(document: unknown, pointer: string): unknown {
  const names = pointer.split("/").slice(1);
  return names.reduce<unknown>((inner, name) => {
    const plain = name.replaceAll("~1", "/").replaceAll("~0", "~");
    return (inner as Record<string, unknown> | undefined)?.[plain];
  }, document);
}

function frozen<T>(document: T): T {
  if (typeof document === "object" && document) Object.values(Object.freeze(document)).forEach(frozen);
  return document;
}

describe("golden patches", () => {
  it.each(patches)("$envelope.patch", ({ envelope, before, after }) => {
    const document = frozen(JSON.parse(before) as Json);
    expect(patched(document, JSON.parse(envelope.patch) as Operation[]).document).toEqual(JSON.parse(after));
  });
});

describe("random documents", () => {
  const random = seeded(16);
  const upTo = (most: number): number => Math.floor(random() * most);
  const NAMES = ["a", "b/c", "~", "", "__proto__", "constructor", "0", "-"];
  const value = (depth: number): Json => {
    if (depth === 0 || random() < 0.3) return [null, true, upTo(9), "text", ""][upTo(5)] as Json;
    if (random() < 0.5) return Array.from({ length: upTo(5) }, () => value(depth - 1));
    const pairs = Array.from({ length: upTo(5) }, () => [NAMES[upTo(NAMES.length)], value(depth - 1)]);
    return JSON.parse(`{${pairs.map(([name, inner]) => `${JSON.stringify(name)}:${JSON.stringify(inner)}`)}}`) as Json;
  };
  const escaped = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1");
  const own = (container: object, name: string, value: unknown): void =>
    void Object.defineProperty(container, name, { value, writable: true, enumerable: true, configurable: true });

  /** Applies a random operation in place to the document in `top`; returns undefined if none is possible. */
  const operate = (top: { "": Json }): Operation | undefined => {
    let [container, path]: [Json, string] = [top[""], ""];
    if (typeof container !== "object" || !container) {
      top[""] = value(2);
      return { op: "replace", path: "", value: structuredClone(top[""]) };
    }
    for (;;) {
      const names: string[] = Object.keys(container);
      const name = names[upTo(names.length)] as string;
      const inner: Json = (container as Record<string, Json>)[name] as Json;
      if (random() < 0.4 || typeof inner !== "object" || !inner) break;
      container = inner;
      path += `/${escaped(name)}`;
    }
    const new_ = value(2);
    const copy = structuredClone(new_);
    if (Array.isArray(container)) {
      const [from, to] = [upTo(container.length), upTo(container.length)];
      const kind = container.length ? upTo(4) : 0;
      if (kind === 0) {
        const place = upTo(container.length + 1);
        container.splice(place, 0, new_);
        return { op: "add", path: `${path}/${place}`, value: copy };
      }
      if (kind === 1) {
        container.splice(from, 1);
        return { op: "remove", path: `${path}/${from}` };
      }
      if (kind === 2) {
        container[from] = new_;
        return { op: "replace", path: `${path}/${from}`, value: copy };
      }
      const [moved] = container.splice(from, 1);
      container.splice(to, 0, moved as Json);
      return { op: "move", from: `${path}/${from}`, path: `${path}/${to}` };
    }
    const names = Object.keys(container);
    const name = names[upTo(names.length)];
    if (name === undefined || random() < 0.3) {
      const added = NAMES[upTo(NAMES.length)] as string;
      own(container, added, new_);
      return { op: "add", path: `${path}/${escaped(added)}`, value: copy };
    }
    if (random() < 0.5) {
      delete container[name];
      return { op: "remove", path: `${path}/${escaped(name)}` };
    }
    own(container, name, new_);
    return { op: "replace", path: `${path}/${escaped(name)}`, value: copy };
  };

  it(`${DOCUMENTS} of them: the result is right, unchanged parts are shared, and all changes are listed`, () => {
    for (let number = 0; number < DOCUMENTS; number++) {
      const before = frozen(value(4));
      const text = JSON.stringify(before);
      const top = { "": structuredCloneOf(text) };
      const operations = Array.from({ length: 1 + upTo(6) }, () => operate(top)).filter((it) => it !== undefined);
      const about = `${text} ${JSON.stringify(operations)}`;
      const { document, changed } = patched(before, operations);
      expect(JSON.stringify(sorted(document)), about).toBe(JSON.stringify(sorted(top[""])));
      expect(JSON.stringify(before)).toBe(text);
      check(before, document, "", changed, about);
    }
  });

  /** Parses a copy: `structuredClone` would lose a `__proto__`. */
  function structuredCloneOf(text: string): Json {
    return JSON.parse(text) as Json;
  }

  function sorted(document: unknown): unknown {
    if (typeof document !== "object" || !document) return document;
    if (Array.isArray(document)) return document.map(sorted);
    return Object.entries(document)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]);
  }

  /** Checks that parts without a pointer are the same object, and that changed parts have a pointer to them, inside, or above. */
  function check(before: unknown, after: unknown, path: string, changed: readonly string[], about: string): void {
    if (before === after || changed.includes(path)) {
      if (before !== after) return;
      return;
    }
    expect(
      changed.some((it) => it.startsWith(`${path}/`)),
      `${path} differs, ${changed} of ${about}`,
    ).toBe(true);
    expect(typeof before === "object" && typeof after === "object", about).toBe(true);
    expect(Array.isArray(before)).toBe(Array.isArray(after));
    for (const name of Object.keys(after as object)) {
      const inner = (after as Record<string, unknown>)[name];
      const at = `${path}/${escaped(name)}`;
      // Elements that were shifted are the same objects in another place.
      if (Array.isArray(after) && (before as unknown[]).includes(inner)) continue;
      const was = Object.hasOwn(before as object, name) ? (before as Record<string, unknown>)[name] : undefined;
      if (!Array.isArray(after)) check(was, inner, at, changed, about);
    }
  }
});

describe("changed paths", () => {
  const names = (document: Json, ...operations: Operation[]): readonly string[] =>
    [...patched(document, operations).changed].sort();

  it("refer to the new document, even if elements were shifted", () => {
    const document = {
      rows: [
        { id: 1, n: 1 },
        { id: 2, n: 1 },
        { id: 3, n: 1 },
      ],
    };
    const operations: Operation[] = [
      { op: "replace", path: "/rows/1/n", value: 2 },
      { op: "add", path: "/rows/0", value: { id: 0 } },
    ];
    const { document: after, changed } = patched(document, operations);
    expect([...changed].sort()).toEqual(["/rows/0", "/rows/2/n"]);
    expect(at(after, "/rows/2/n")).toBe(2);
    expect(at(after, "/rows/3")).toBe(document.rows[2]);
  });

  it("list a removed member by its path, a removed element by its array", () => {
    expect(names({ a: 1, b: 2 }, { op: "remove", path: "/a" })).toEqual(["/a"]);
    expect(names({ a: [1, 2] }, { op: "remove", path: "/a/0" })).toEqual(["/a"]);
    expect(names({ a: [1, 2, 3] }, { op: "move", from: "/a/2", path: "/a/0" })).toEqual(["/a/0"]);
    expect(names({ a: [1], b: [] }, { op: "move", from: "/a/0", path: "/b/0" })).toEqual(["/a", "/b/0"]);
  });

  it("are the whole document or empty", () => {
    expect(names({ a: 1 }, { op: "replace", path: "", value: 1 })).toEqual([""]);
    expect(names({ a: 1 })).toEqual([]);
    expect(names({ "a/b": { "~": 1 } }, { op: "replace", path: "/a~1b/~0", value: 2 })).toEqual(["/a~1b/~0"]);
  });
});

describe("patches that do not apply", () => {
  it.each<[string, Json, Operation[]]>([
    ["a member that is not there", { a: 1 }, [{ op: "remove", path: "/b" }]],
    ["one that every object has", {}, [{ op: "replace", path: "/toString", value: 1 }]],
    ["a member of a prototype", {}, [{ op: "add", path: "/__proto__/polluted", value: 1 }]],
    ["a member of a function", {}, [{ op: "add", path: "/constructor/prototype/polluted", value: 1 }]],
    ["in a number", { a: 1 }, [{ op: "add", path: "/a/b", value: 1 }]],
    ["in null", { a: null }, [{ op: "add", path: "/a/b", value: 1 }]],
    ["in a text", { a: "text" }, [{ op: "replace", path: "/a/0", value: "T" }]],
    ["an element that is not there", [1], [{ op: "replace", path: "/1", value: 1 }]],
    ["the end, where nothing is", [1], [{ op: "remove", path: "/-" }]],
    ["far behind the end", [1], [{ op: "add", path: "/4294967294", value: 1 }]],
    ["the length of an array", [1], [{ op: "replace", path: "/length", value: 0 }]],
    ["no number", [1], [{ op: "remove", path: "/01" }]],
    ["no pointer", { a: 1 }, [{ op: "remove", path: "a" }]],
    ["a move into itself", { a: { b: 1 } }, [{ op: "move", from: "/a", path: "/a/b" }]],
    ["a move from nowhere", { a: 1 }, [{ op: "move", path: "/a" }]],
    ["nothing is left", { a: 1 }, [{ op: "remove", path: "" }]],
    ["another operation", { a: 1 }, [{ op: "copy", from: "/a", path: "/b" }]],
    ["a test", { a: 1 }, [{ op: "test", path: "/a", value: 1 }]],
  ])("%s", (_, document, operations) => {
    const before = JSON.stringify(document);
    expect(() => patched(frozen(document), operations)).toThrow(TypeError);
    expect(JSON.stringify(document)).toBe(before);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it("no operations at all", () => {
    for (const wrong of [undefined, null, 1, [null], ["add"], [{ op: "add" }], [{ op: "remove", path: 7 }]]) {
      expect(() => patched({ a: 1 }, wrong as never)).toThrow(TypeError);
    }
    expect(() => patched(undefined, [])).toThrow(TypeError);
  });

  it("treat `__proto__` like any other member", () => {
    const { document } = patched({}, [{ op: "add", path: "/__proto__", value: { polluted: 1 } }]);
    expect(Object.getPrototypeOf(document)).toBe(Object.prototype);
    expect(JSON.stringify(document)).toBe('{"__proto__":{"polluted":1}}');
    const twice = patched(document, [{ op: "add", path: "/__proto__/more", value: 1 }]).document;
    expect(JSON.stringify(twice)).toBe('{"__proto__":{"polluted":1,"more":1}}');
    expect(({} as { more?: unknown }).more).toBeUndefined();
  });

  it("take a bounded time", () => {
    const wide = Array.from({ length: 500_000 }, () => 0);
    const shifting = Array.from({ length: 30_000 }, () => ({ op: "add", path: "/0", value: 0 }));
    expect(() => patched(wide, shifting)).toThrow(RangeError);
    expect(wide.length).toBe(500_000);
    let deep: Json = 1;
    for (let level = 0; level < 50_000; level++) deep = [deep];
    const path = "/0".repeat(50_000);
    // Deep nesting is an error too, and does not crash the page.
    expect(() => patched(deep, [{ op: "replace", path, value: 2 }])).toThrow(RangeError);
  });
});
