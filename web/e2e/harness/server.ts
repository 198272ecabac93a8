/** The server under test: started, killed, and restarted at the same address. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const BINARY =
  process.env["THALWEG_BIN"] ?? fileURLToPath(new URL("../../../target/debug/thalweg", import.meta.url));

/** The first line of a server's output. */
const LISTENING = /listening on (?:https?:\/\/)?(\S+)/;

export interface Server {
  /** `host:port`, unchanged by a restart. */
  readonly address: string;
  readonly origin: string;
  readonly pid: number;
  log(): string;
  /** Kills the server, as a crash would. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface Start {
  environment?: Record<string, string>;
}

/** Starts a server on a free port, with one shard unless `args` say otherwise. */
export async function serve(args: readonly string[] = [], { environment = {} }: Start = {}): Promise<Server> {
  const shards = args.includes("--shards") ? [] : ["--shards", "1"];
  const printed: string[] = [];
  const start = (listen: string): ChildProcess => {
    const command = ["serve", "--listen", listen, ...shards, ...args];
    return spawn(BINARY, command, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...environment } });
  };
  let child = start("127.0.0.1:0");
  const address = await listening(child, printed);
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  };
  // The server must not outlive the test process.
  const orphan = (): void => void child.kill("SIGKILL");
  process.once("exit", orphan);
  return {
    address,
    origin: `http://${address}`,
    get pid() {
      return child.pid ?? 0;
    },
    log: () => printed.join("\n"),
    kill: () => end("SIGKILL"),
    restart: async () => {
      child = start(address);
      await listening(child, printed);
    },
    stop: async () => {
      process.off("exit", orphan);
      await end("SIGTERM");
    },
  };
}

/** Publishes the numbers from `first` to `last`, one event each; with a token if one is given. */
export async function publish(
  server: Server,
  topic: string,
  first: number,
  last: number,
  token?: string,
): Promise<void> {
  const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const response = await fetch(`${server.origin}/v1/topics/${topic}`, {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson", ...(token && { Authorization: `Bearer ${token}` }) },
    body: numbers.join("\n"),
  });
  if (!response.ok) throw new Error(`publishing to ${topic}: ${await response.text()}`);
}

/** Returns the address from the first line of output, and keeps reading so that the pipes never fill. */
function listening(child: ChildProcess, printed: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once("error", (error) => reject(new Error(`${BINARY} does not start: ${error.message}`)));
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}:\n${printed.join("\n")}`)));
    for (const output of [child.stdout, child.stderr]) {
      if (!output) continue;
      createInterface({ input: output }).on("line", (line) => {
        printed.push(line);
        const address = LISTENING.exec(line)?.[1];
        if (address) resolve(address);
      });
    }
  });
}
