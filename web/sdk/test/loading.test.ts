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

it("requests whole documents over another connection if the module is missing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "thalweg-alone-"));
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  try {
    // The module's own file name.
    const code = readFileSync(join(import.meta.dirname, "../dist/thalweg.js"), "utf8");
    writeFileSync(join(folder, "thalweg.mjs"), code.replace(/\n\/\/# sourceMappingURL=.*/, ""));
    const alone = (await import(/* @vite-ignore */ pathToFileURL(join(folder, "thalweg.mjs")).href)) as {
      connect: typeof connect;
    };
    const world = new World();
    vi.stubGlobal("WebSocket", world.WebSocket);
    world.values.add("match");
    world.publish("match", { score: 0 });
    const session = alone.connect("http://server/");
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
    expect(errors).toEqual([]);
  } finally {
    process.off("uncaughtException", caught);
    rmSync(folder, { recursive: true });
  }
});
