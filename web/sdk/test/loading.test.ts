/** What applies patches is loaded with the first one; what comes meanwhile waits. */

import { afterEach, expect, it, vi } from "vitest";
import { connect } from "../dist/thalweg.js";
import { World } from "./world.js";

afterEach(() => {
  vi.unstubAllGlobals();
});

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((go) => setImmediate(go));
}

it("versions that come meanwhile are delivered in order, and other topics do not wait", async () => {
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
