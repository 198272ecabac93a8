/** Messages of a forever frame from the real server. `THALWEG_BIN` names the binary. */

import { deepStrictEqual } from "node:assert";
import { createContext, runInContext } from "node:vm";
import { describe, it } from "vitest";
import { seeded } from "./random.js";
import { BINARY, serve } from "./server.js";

/** The server rejects deeper nesting. */
const DEPTH_MAX = 128;
/** Values that JavaScript, HTML or `Object` treat differently from JSON, and duplicate members. */
const STRINGS = [
  ...["__proto__", "constructor", "toString", "a", "a", "0", "1", ""],
  ...[
    "</script>",
    "</SCRIPT ",
    "<!-- <script>",
    "]]>",
    "&lt;",
    "\u2028",
    "\u2029",
    "\u2027",
    "\u00e9\ud83d\udc26",
    "\x7f",
  ],
  ...[
    "'",
    "it's",
    "');alert(1)//",
    "`",
    `\${a}`,
    String.raw`\"`,
    String.raw`\\`,
    String.raw`\\'`,
    String.raw`\n\r\t\b\f\/`,
  ],
  ...[String.raw`\ud800`, String.raw`\udc26\ud83d`, String.raw`\u2028`, String.raw`\u003c/script>`, String.raw`\u0000`],
];
const SCALARS = ["null", "true", "false", "0", "-0", "-1.50e+3", "1e-7", "12345678901234567890", "1e400"];

/** Random JSON texts that `JSON.stringify` would not write. */
function texts(chance: () => number) {
  const below = (count: number): number => Math.floor(chance() * count);
  const any = (of: readonly string[]): string => of[below(of.length)] as string;
  const many = (make: () => string): string => Array.from({ length: below(4) }, make).join(",");
  const space = (): string => any(["", "", "", " ", "\n", "\t\r\n"]);
  const string = (): string => `"${Array.from({ length: below(4) }, () => any(STRINGS)).join("")}"`;
  const value = (depth: number): string => {
    const kind = depth > 6 ? below(2) : below(4);
    const inner = (): string => space() + value(depth + 1) + space();
    if (kind === 0) return any(SCALARS);
    if (kind === 1) return string();
    if (kind === 2) return `[${many(inner) || space()}]`;
    return `{${many(() => `${space()}${string()}${space()}:${inner()}`) || space()}}`;
  };
  return () => value(0);
}

/** Returns the messages that the document at `url` passes to the page, up to this number of events. */
async function handed(url: URL, count: number): Promise<unknown[]> {
  const events: unknown[] = [];
  const frame = createContext({
    window: {},
    document: { currentScript: { remove() {} } },
    parent: {
      thalweg: (text: string) => events.push(...(JSON.parse(text) as { events: unknown[] }).events),
    },
  });
  const abort = new AbortController();
  const { body } = await fetch(url, { signal: abort.signal });
  const decoder = new TextDecoder();
  let document = "";
  for await (const piece of body as ReadableStream<Uint8Array>) {
    document += decoder.decode(piece, { stream: true });
    // WHATWG HTML §13.2.5.15: a script without `<!--` has no markup except its end tag.
    const script = /<script nonce="\w+">(.*?)<\/script/gis;
    let end = 0;
    for (let found = script.exec(document); found; found = script.exec(document)) {
      runInContext(found[1] as string, frame);
      end = script.lastIndex;
    }
    document = document.slice(end);
    if (events.length >= count) break;
  }
  abort.abort();
  return events;
}

describe.runIf(BINARY)("a forever frame", () => {
  it("passes each accepted event as JSON.parse would parse it", async () => {
    const seed = Number(process.env["THALWEG_SIM_SEED"] ?? Math.floor(Math.random() * 2 ** 32));
    const text = texts(seeded(seed));
    const published = [
      '{"__proto__":{"isAdmin":true}}',
      '{"__proto__":1,"__proto__":2}',
      `${"[".repeat(DEPTH_MAX)}${"]".repeat(DEPTH_MAX)}`,
      ...Array.from({ length: 500 }, text),
    ];
    const server = await serve();
    try {
      const headers = { "Content-Type": "application/json" };
      for (const body of published) {
        const { status } = await fetch(new URL("v1/topics/t", server.url), { method: "POST", headers, body });
        deepStrictEqual(status, 200, `${body} of seed ${seed}`);
      }
      const url = new URL("v1/topics/t?transport=forever-frame&cursor=earliest", server.url);
      const events = await handed(url, published.length);
      for (const [index, body] of published.entries()) {
        deepStrictEqual(events[index], JSON.parse(body), `${body} of seed ${seed}`);
      }
    } finally {
      await server.stop();
    }
  });
});
