/** The reference in docs/sdk matches the types: `npm run docs` generates it. */

import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const HERE = join(import.meta.dirname, "..");

function pages(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
  return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

it("docs/sdk is up to date and complete", async () => {
  const folder = mkdtempSync(join(tmpdir(), "thalweg-docs-"));
  try {
    await promisify(execFile)("npm", ["run", "--silent", "docs", "--", "--out", folder], { cwd: HERE });
    expect(pages(join(HERE, "../../docs/sdk"))).toEqual(pages(folder));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
