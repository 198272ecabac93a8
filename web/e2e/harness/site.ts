/** The tests' own pages, the built SDK and the client of SignalR, read from disk for each request. */

import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDERS: Record<string, URL> = {
  "/e2e/": new URL("../site/", import.meta.url),
  "/sdk/": new URL("../../sdk/dist/", import.meta.url),
  "/signalr/": new URL("../../node_modules/@microsoft/signalr/dist/browser/", import.meta.url),
  "/examples/": new URL("../../../examples/node/", import.meta.url),
  "/chat/": new URL("../../../examples/chat/", import.meta.url),
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

/** Returns the file of a path; `null` for paths outside of the site. */
export function file(path: string): Page | null {
  const { pathname } = new URL(path, "http://site");
  const prefix = Object.keys(FOLDERS).find((folder) => pathname.startsWith(folder));
  if (!prefix) return null;
  try {
    const body = readFileSync(fileURLToPath(new URL(pathname.slice(prefix.length), FOLDERS[prefix])));
    const type = TYPES[extname(pathname)] ?? "application/octet-stream";
    return { status: 200, headers: { "content-type": type, "cache-control": "no-store" }, body };
  } catch {
    return { status: 404, headers: {}, body: `no file ${pathname}: is the SDK built?` };
  }
}
