/** The lines of a trace. */

import { afterEach, expect, test, vi } from "vitest";
import { follow, type TraceLine } from "../src/overview/trace-lines.js";

afterEach(() => vi.unstubAllGlobals());

test("lines are read whole, wherever the stream is cut", async () => {
  const text = '{"at_ms":1,"what":"begin"}\n{"heartbeat":{}}\n{"at_ms":2,"what":"publish","key":"🚲"}\n';
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, 30, bytes.length]) {
    const body = new ReadableStream<Uint8Array>({
      start(stream) {
        for (let at = 0; at < bytes.length; at += size) stream.enqueue(bytes.slice(at, at + size));
        stream.close();
      },
    });
    const asked = vi.fn(async () => new Response(body));
    vi.stubGlobal("fetch", asked);
    const lines: TraceLine[] = [];
    await follow("a b&c", new AbortController().signal, (taken) => lines.push(...taken));
    expect(lines.map(({ what, key }) => [what, key])).toEqual([
      ["begin", undefined],
      ["publish", "🚲"],
    ]);
    expect(asked).toHaveBeenCalledWith("overview/trace?subject=a+b%26c", expect.anything());
  }
});

test("a refusal is the error of the server", async () => {
  const error = { error: { code: "busy", message: "too many traces are open" } };
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify(error), { status: 503 }));
  const followed = follow("a", new AbortController().signal, () => {});
  await expect(followed).rejects.toThrow("too many traces are open");
});
