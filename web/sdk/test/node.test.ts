/** The built bundle as a Node program, with each available WebSocket. `THALWEG_BIN` names the server. */

import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { BINARY, serve } from "./server.js";

/** Prints the session's status and events, without timeouts. */
const program = (url: string): string => `
  import { connect } from "thalweg";
  const session = connect("${url}", {
    transports: ["websocket"],
    connectTimeout: Infinity,
    onStatus: ({ state }) => console.log(state),
  });
  session.subscribe("cars", { from: "earliest" }, ({ events }) => events.forEach((it) => console.log(it)));
`;
const WITH_WS = `import { WebSocket } from "ws"; globalThis.WebSocket = WebSocket;`;
/** Node before version 22 needs this flag. */
const OWN = typeof WebSocket === "function" ? [] : ["--experimental-websocket"];

describe.runIf(BINARY)("in Node", () => {
  it.each([
    ["the package ws", [], WITH_WS],
    ["Node's own WebSocket", OWN, ""],
  ])("with %s a session outlives its server", async (_, flags, before) => {
    let server = await serve();
    const publish = (event: number): Promise<Response> =>
      fetch(new URL("v1/topics/cars", server.url), { method: "POST", body: `${event}` });
    const all = [...flags, "--input-type=module", "--eval", before + program(server.url)];
    const node = spawn(process.execPath, all, {
      cwd: join(import.meta.dirname, ".."),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const errors: string[] = [];
    createInterface({ input: node.stderr }).on("line", (line) => void errors.push(line));
    const lines = createInterface({ input: node.stdout })[Symbol.asyncIterator]();
    const says = async (wanted: string): Promise<void> => {
      for (;;) {
        const { value, done } = await lines.next();
        if (done) expect.fail(`it ended before it said ${wanted}: ${errors.join("\n")}`);
        if (value === wanted) return;
      }
    };
    try {
      await publish(1);
      await says("1");
      await server.stop();
      // The connection breaks, and then there is no server.
      for (const state of ["waiting", "connecting", "waiting", "connecting", "waiting"]) await says(state);
      server = await serve([], new URL(server.url).host);
      await publish(2);
      await says("2");
    } finally {
      node.kill();
      await server.stop();
    }
  });
});
