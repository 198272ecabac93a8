/** The size gate: what `import "thalweg"` loads, as it is shipped, min and gzip -9. */

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** Of the core, gzipped, bytes. */
const MAX = 6550;
const ENTRIES = ["thalweg", "forever-frame", "worker", "worker-host"];
const IMPORT = /\b(?:import|from)\s*\(?\s*["'`](\.[^"'`]+)["'`]/g;

/** Every file that one loads, itself included. */
function loaded(url, seen = new Map()) {
  if (seen.has(url.href)) return seen;
  const text = readFileSync(url, "utf8");
  seen.set(url.href, text);
  for (const [, path] of text.matchAll(IMPORT)) loaded(new URL(path, url), seen);
  return seen;
}

function measure(name) {
  const files = [...loaded(new URL(`./dist/${name}.js`, import.meta.url)).values()].map((text) => Buffer.from(text));
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);
  return {
    min: sum(files.map((file) => file.length)),
    gzip: sum(files.map((file) => gzipSync(file, { level: 9 }).length)),
  };
}

for (const name of ENTRIES) {
  const { min, gzip } = measure(name);
  const isCore = name === "thalweg";
  console.log(`${name}: ${min} bytes min, ${gzip} bytes min+gzip${isCore ? ` of ${MAX}` : ""}`);
  if (isCore && gzip > MAX) {
    console.error(`the core is ${gzip - MAX} bytes too large: make it smaller, or move what not everybody needs`);
    process.exitCode = 1;
  }
}
