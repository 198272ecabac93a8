/** No files of the SDK or the pages import each other in a cycle. */

import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

/** Returns the files of a folder: path and text. */
type Files = Record<string, string>;

/** Returns a cycle of files that import each other; `null` if there is none. Type imports and dynamic imports count. */
function circle(files: Files): string[] | null {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return null;
    for (const next of imports(file, files)) {
      const found = visit(next, [...path, file]);
      if (found) return found;
    }
    done.add(file);
    return null;
  };
  for (const file of Object.keys(files)) {
    const found = visit(file, []);
    if (found) return found;
  }
  return null;
}

function imports(file: string, files: Files): string[] {
  const { importedFiles } = ts.preProcessFile(files[file] as string, true, true);
  return importedFiles.flatMap(({ fileName }) => {
    if (!fileName.startsWith(".")) return [];
    const path = posix.join(posix.dirname(file), fileName);
    const name = path.replace(/\.jsx?$/, "");
    return [path, `${name}.ts`, `${name}.tsx`].filter((path) => path in files);
  });
}

function read(folder: string): Files {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  return Object.fromEntries(
    names.map((name) => [name.replaceAll("\\", "/"), readFileSync(join(folder, name), "utf8")]),
  );
}

it.each(["sdk/src", "ui/src"])("no files of %s import each other in a cycle", (folder) => {
  const files = read(join(import.meta.dirname, "../..", folder));
  expect(circle(files)).toBeNull();
  const count = Object.keys(files).reduce((sum, file) => sum + imports(file, files).length, 0);
  // Without found imports the test would prove nothing.
  expect(count).toBeGreaterThan(Object.keys(files).length);
});

describe("a cycle", () => {
  it.each([
    ["a value", 'import { a } from "./a.js";'],
    ["a type", 'import type { A } from "./a.js";'],
    ["a type among values", 'import { type A } from "./a.js";'],
    ["an export of another file's", 'export * from "./a.js";'],
    ["a file loaded on demand", 'export const later = () => import("./a.js");'],
    ["the type of a module", 'type A = typeof import("./a.js");'],
    ["a component", 'import { A } from "./a.tsx";'],
  ])("through %s", (_, text) => {
    const back = { "b.ts": 'import "./deep/c.js";', "deep/c.ts": 'export * from "../d.js";', "d.ts": text };
    const files = text.includes("tsx")
      ? { "a.tsx": 'import "./b.ts";', ...back }
      : { "a.ts": 'import "./b.js";', ...back };
    const first = Object.keys(files)[0];
    expect(circle(files)).toEqual([first, "b.ts", "deep/c.ts", "d.ts", first]);
  });

  it("is not found in two paths to the same file", () => {
    const both = 'import "./b.js"; import "./c.js"; // import "./a.js"';
    expect(circle({ "a.ts": both, "b.ts": 'import "./c.js";', "c.ts": 'const text = `import "./a.js"`;' })).toBeNull();
  });
});
