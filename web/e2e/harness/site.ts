/** The pages of the tests, and the SDK as it is shipped; read from disk, each time. */

import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDERS: Record<string, URL> = {
  "/e2e/": new URL("../site/", import.meta.url),
  "/sdk/": new URL("../../sdk/dist/", import.meta.url),
};

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".map": "application/json",
};

interface Page {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer | string;
}

/** The file that a path stands for; `null` if it is not one of the site's. */
export function file(path: string): Page | null {
  const { pathname } = new URL(path, "http://site");
  const prefix = Object.keys(FOLDERS).find((it) => pathname.startsWith(it));
  if (!prefix) return null;
  try {
    const body = readFileSync(fileURLToPath(new URL(pathname.slice(prefix.length), FOLDERS[prefix])));
    const type = TYPES[extname(pathname)] ?? "application/octet-stream";
    return { status: 200, headers: { "content-type": type, "cache-control": "no-store" }, body };
  } catch {
    return { status: 404, headers: {}, body: `no file ${pathname}: is the SDK built?` };
  }
}
