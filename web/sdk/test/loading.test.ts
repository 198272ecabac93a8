/** The module for patches is loaded with the first patch; messages wait in the meantime. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, expect, it, vi } from "vitest";
import { connect } from "../dist/thalweg.js";
import { World } from "./world.js";

afterEach(() => {
  vi.unstubAllGlobals();
});

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((go) => setImmediate(go));
}

it("delivers waiting versions in order, and other topics do not wait", async () => {
  const world = new World();
  vi.stubGlobal("WebSocket", world.WebSocket);
  world.values.add("match");
  world.publish("match", { score: 0 });
  const session = connect("http://server/");
  const seen: unknown[] = [];
  const closed: unknown[] = [];
  session.subscribe("match", {}, ({ events, changed }) => void seen.push([...events, changed]));
  session.subscribe("cars", { from: "earliest" }, ({ events }) => void seen.push(...events));
  world.values.add("given-up");
  world.publish("given-up", { score: 0 });
  const givenUp = session.subscribe("given-up", {}, ({ events }) => void closed.push(...events));
  await until(() => seen.length === 1 && closed.length === 1);
  world.publish("match", { score: 1 });
  world.publish("given-up", { score: 1 });
  world.publish("cars", "car");
  world.publish("match", { score: 2 });
  await Promise.resolve();
  await Promise.resolve();
  expect(seen).toEqual([[{ score: 0 }, undefined], "car"]);
  givenUp.close();
  await until(() => seen.length === 4);
  expect(seen.slice(2)).toEqual([
    [{ score: 1 }, ["/score"]],
    [{ score: 2 }, ["/score"]],
  ]);
  expect(closed).toEqual([{ score: 0 }]);
  session.close();
});

/** Runs a test with the core alone, in a folder without other modules. Expects no uncaught error. */
async function alone(run: (core: { connect: typeof connect }) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "thalweg-alone-"));
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  try {
    // The module's own file name.
    const code = readFileSync(join(import.meta.dirname, "../dist/thalweg.js"), "utf8");
    writeFileSync(join(folder, "thalweg.mjs"), code.replace(/\n\/\/# sourceMappingURL=.*/, ""));
    await run(await import(/* @vite-ignore */ pathToFileURL(join(folder, "thalweg.mjs")).href));
    expect(errors).toEqual([]);
  } finally {
    process.off("uncaughtException", caught);
    rmSync(folder, { recursive: true });
  }
}

it("requests whole documents over another connection if the module is missing", () =>
  alone(async (core) => {
    const world = new World();
    vi.stubGlobal("WebSocket", world.WebSocket);
    world.values.add("match");
    world.publish("match", { score: 0 });
    const session = core.connect("http://server/");
    const seen: unknown[] = [];
    session.subscribe<{ score: number }>("match", {}, ({ events }) => void seen.push(events[0]?.score));
    await until(() => seen.length === 1);
    // Both messages are patches, and no further ones follow.
    world.publish("match", { score: 1 });
    world.publish("match", { score: 2 });
    await until(() => seen.at(-1) === 2);
    world.publish("match", { score: 3 });
    await until(() => seen.at(-1) === 3);
    expect(seen).toEqual([0, 2, 3]);
    expect(world.requests.map(({ url }) => url.searchParams.get("deltas"))).toEqual(["patch", null]);
    session.close();
  }));

it("ends a map if its module is missing, and other topics continue", () =>
  alone(async (core) => {
    const world = new World();
    vi.stubGlobal("WebSocket", world.WebSocket);
    world.keyed.add("cars");
    world.put("cars", "a", 1);
    const session = core.connect("http://server/");
    const errors: string[] = [];
    const seen: unknown[] = [];
    session.subscribe("log", {}, ({ events }) => void seen.push(...events));
    const batches: unknown[] = [];
    session.map("cars", { onError: ({ code }) => void errors.push(code) }, (batch) => void batches.push(batch));
    await until(() => errors.length === 1);
    world.publish("log", 1);
    await until(() => seen.length === 1);
    expect([errors, batches]).toEqual([["no_module"], []]);
    session.close();
  }));

it("delivers the messages of a map that waited for its module", async () => {
  const world = new World();
  vi.stubGlobal("WebSocket", world.WebSocket);
  world.keyed.add("cars");
  world.put("cars", "a", 1);
  const session = connect("http://server/");
  const cars = session.map("cars");
  for await (const batch of cars) {
    expect(batch).toMatchObject({ changed: ["a"], isWhole: true });
    break;
  }
  session.close();
});
