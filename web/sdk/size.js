/** Checks the size of each entry with all files that it loads, minified and gzipped (`gzip -9`). */

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** Largest sizes, bytes gzipped. */
const MAX = { thalweg: 9050, arrow: 9280, deltas: 1250, keyed: 840, react: 12160, tabs: 4650 };
const ENTRIES = ["thalweg", "arrow", "deltas", "keyed", "forever-frame", "worker", "worker-host", "react", "tabs"];
/** Static imports. Files loaded on demand are entries of their own. */
const IMPORT = /\b(?:import|from)\s*["'`](\.[^"'`]+)["'`]/g;

/** Returns the files that a file loads, itself included. */
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
  const max = MAX[name];
  console.log(`${name}: ${min} bytes min, ${gzip} bytes min+gzip${max ? ` of ${max}` : ""}`);
  if (gzip > max) {
    console.error(`${name} is ${gzip - max} bytes too large: reduce it, or move rarely needed code to another entry`);
    process.exitCode = 1;
  }
}
