/** Checks the size of each document of the pages with the scripts and styles that it loads, gzipped (`gzip -9`). */

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** Largest sizes, bytes gzipped. The demo is small, because it must show its headings within a second. */
const MAX = {
  "index.html": { html: 1000, js: 90_000, css: 10_000 },
  "demo.html": { html: 3000, js: 30_000, css: 6000 },
};
/** References of documents, and static imports of scripts. */
const REFERENCE = /(?:src|href)="\.\/(assets\/[^"]+\.(?:js|css))"|\b(?:import|from)\s*["'`]\.\/([^"'`]+\.js)["'`]/g;

/** Returns the files that a file loads, itself included. */
function loaded(path, seen = new Map()) {
  if (seen.has(path)) return seen;
  const bytes = readFileSync(new URL(`./dist/${path}`, import.meta.url));
  seen.set(path, bytes);
  for (const [, asset, script] of String(bytes).matchAll(REFERENCE)) loaded(asset ?? `assets/${script}`, seen);
  return seen;
}

for (const [name, limits] of Object.entries(MAX)) {
  const files = loaded(name);
  for (const [kind, max] of Object.entries(limits)) {
    const own = [...files].filter(([path]) => path.endsWith(`.${kind}`));
    const size = own.reduce((sum, [, bytes]) => sum + gzipSync(bytes, { level: 9 }).length, 0);
    console.log(`${name}, ${kind}: ${size} bytes gzip of ${max}`);
    if (own.length && size <= max) continue;
    console.error(`${name} loads ${size - max} bytes of ${kind} too many: reduce them, or load them later`);
    process.exitCode = 1;
  }
}
