/** Mocks of the browser for each transport: they parse a frame as a browser would. */

import { Readable } from "node:stream";
import { vi } from "vitest";
import { Tab } from "./fixture.js";

/** An answer that never arrives. */
const silence = (): Response => new Response(new ReadableStream());

/** A `fetch` whose first response has this body, in pieces of `size` bytes. */
export function mockFetch(body: Buffer, size: number): typeof fetch {
  const pieces = function* () {
    for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size);
  };
  let count = 0;
  return async () => {
    count += 1;
    return count > 1 ? silence() : new Response(Readable.toWeb(Readable.from(pieces())) as ReadableStream);
  };
}

/** A WebSocket that receives one frame, and answers no command. */
export function mockWebSocket(frame: Buffer): void {
  let count = 0;
  vi.stubGlobal(
    "WebSocket",
    class {
      onopen?: () => void;
      onmessage?: (event: { data: string }) => void;
      onclose?: (event: { code: number; reason: string }) => void;
      constructor() {
        if (count++) return;
        setImmediate(() => {
          this.onopen?.();
          const { opcode, payload } = unframed(frame);
          if (opcode === 1) this.onmessage?.({ data: payload.toString() });
          else this.onclose?.({ code: payload.readUInt16BE(), reason: payload.subarray(2).toString() });
        });
      }
      send(): void {}
      close(): void {}
    },
  );
}

/** RFC 6455 §5.2, the part that a server's frames use. */
function unframed(frame: Buffer): { opcode: number; payload: Buffer } {
  const short = frame[1] ?? 0;
  const start = short === 127 ? 10 : short === 126 ? 4 : 2;
  const length = short === 127 ? Number(frame.readBigUInt64BE(2)) : short === 126 ? frame.readUInt16BE(2) : short;
  if (frame.length !== start + length) throw new RangeError("not one whole frame");
  return { opcode: (frame[0] ?? 0) & 15, payload: frame.subarray(start) };
}

/** An EventSource that receives one event (WHATWG HTML §9.2.6, the part that is used). */
export function mockEventSource(text: string): void {
  let count = 0;
  vi.stubGlobal(
    "EventSource",
    class {
      onmessage?: (event: { data: string }) => void;
      #kinds = new Map<string, (event: { data: string }) => void>();
      constructor() {
        if (count++) return;
        setImmediate(() => {
          const fields = text.split("\n").map((line) => /^(\w+): ?(.*)$/s.exec(line));
          const field = (name: string): string | undefined => fields.find((it) => it?.[1] === name)?.[2];
          const data = field("data") ?? "";
          const kind = field("event");
          if (kind) this.#kinds.get(kind)?.({ data });
          else this.onmessage?.({ data });
        });
      }
      addEventListener(kind: string, hear: (event: { data: string }) => void): void {
        this.#kinds.set(kind, hear);
      }
      close(): void {}
    },
  );
}

/** A page whose first hidden frame runs one script. */
export function mockFrame(script: string): void {
  let count = 0;
  const page = Object.assign(new Tab(), {
    createElement: () => ({ contentWindow: {}, remove() {} }),
    body: {
      append({ contentWindow }: { contentWindow: object }) {
        if (count++) return;
        setImmediate(() => {
          const { thalweg } = globalThis as unknown as { thalweg(text: string, from: object): void };
          const text = script.slice(0, script.lastIndexOf("</script>"));
          new Function("receive", text)((text: string) => thalweg(text, contentWindow));
        });
      },
    },
  });
  vi.stubGlobal("document", page);
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("location", new URL("http://server/"));
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
}
