/** Value topics over every transport: whole documents with their changes, sent as patches where they are smaller. */

import type { Page } from "@playwright/test";
import type { Batch } from "thalweg";
import type { Server } from "../harness/server.js";
import { BROKEN_NETWORK, expect, open, test } from "../harness/test.js";
import { breakable, HEARTBEAT, TRANSPORTS } from "./transports.js";

test.use({ args: ["--topic", "matches/**,kind=value"], expected: BROKEN_NETWORK });

interface Match {
  readonly minute: number;
  readonly players: readonly { readonly id: number; readonly passes: number }[];
}

async function post(server: Server, topic: string, body: string): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${server.origin}/v1/topics/${topic}`, { method: "POST", headers, body });
  expect(response.status).toBe(200);
}

/** Large enough that a patch is smaller. */
const match = (minute: number): Match => ({
  minute,
  players: Array.from({ length: 40 }, (_, id) => ({ id, passes: id === minute % 40 ? minute : 0 })),
});

interface Kept {
  versions: { document: Match; changed: readonly string[] | undefined; bytes: number }[];
  /** Whether unchanged parts were the same objects each time. */
  isShared: boolean;
  /** Number of gaps that report an unknown value. */
  unknown: number;
}

const kept = (page: Page, topic: string): Promise<Kept> =>
  page.evaluate((topic) => (globalThis as unknown as Record<string, Kept>)[topic] as Kept, topic);

async function keep(page: Page, topic: string): Promise<void> {
  await page.evaluate((topic) => {
    const kept: Kept = { versions: [], isShared: true, unknown: 0 };
    (globalThis as unknown as Record<string, Kept>)[topic] = kept;
    e2e.session.subscribe(topic, {}, (batch: Batch<unknown>) => {
      if (batch.gap?.reason === "unknown") kept.unknown += 1;
      if (!batch.events.length) return;
      const document = batch.events[0] as Match;
      const before = kept.versions.at(-1)?.document;
      if (batch.changed && before) {
        const same = document.players.filter((player, at) => player === before.players[at]);
        kept.isShared &&= same.length >= 38;
      }
      kept.versions.push({ document, changed: batch.changed, bytes: batch.bytes });
    });
  }, topic);
}

/** The newest minute of a topic in the page. */
const minute = async (page: Page, topic: string): Promise<number> =>
  (await kept(page, topic)).versions.at(-1)?.document.minute ?? -1;

for (const name of TRANSPORTS) {
  for (const isInWorker of name === "forever-frame" ? [false] : [false, true]) {
    test(`${name}${isInWorker ? " in a Worker" : ""}: patches become documents, even after a break`, async ({
      page,
      server,
      network,
    }) => {
      const topic = "matches/8";
      const publish = (minute: number): Promise<void> => post(server, topic, JSON.stringify(match(minute)));
      await publish(0);
      await open(page, { transports: [name], isInWorker });
      await keep(page, topic);
      await expect.poll(() => minute(page, topic)).toBe(0);
      for (let at = 1; at <= 5; at++) {
        await publish(at);
        await expect.poll(() => minute(page, topic)).toBe(at);
      }
      const { versions, isShared } = await kept(page, topic);
      for (const { document } of versions) expect(document).toEqual(match(document.minute));
      const [whole, ...patched] = versions;
      // If a patch took the server too long, it sent the whole document.
      const patches = patched.filter(({ changed }) => changed);
      expect(patches.length).toBeGreaterThanOrEqual(3);
      for (const { changed, bytes, document } of patches) {
        const now = document.minute;
        expect([...(changed ?? [])].sort()).toEqual(
          ["/minute", `/players/${now}/passes`, ...(now > 1 ? [`/players/${now - 1}/passes`] : [])].sort(),
        );
        expect(bytes).toBeLessThan((whole?.bytes ?? 0) / 2);
      }
      // A document posted from a Worker is a copy.
      if (!isInWorker) expect(isShared).toBe(true);
      if (name === "forever-frame") return;
      network.cut();
      await publish(6);
      await expect.poll(() => minute(page, topic)).toBe(6);
      await publish(7);
      await expect.poll(() => minute(page, topic)).toBe(7);
      const last = (await kept(page, topic)).versions.at(-1);
      expect(last?.document).toEqual(match(7));
      expect(last?.changed).toContain("/minute");
    });
  }
}

test.describe("of a restarted server", () => {
  // The page of a forever frame detects the server's end only by missing heartbeats.
  test.use({ args: ["--topic", "matches/**,kind=value", ...HEARTBEAT] });

  for (const name of [...TRANSPORTS, null]) {
    test(`${name ?? "a Worker"}: the value is unknown, then the document arrives`, async ({ page, server }) => {
      const topic = "matches/8";
      const publish = (minute: number): Promise<void> => post(server, topic, JSON.stringify(match(minute)));
      await publish(1);
      await open(page, name ? breakable(name) : { isInWorker: true });
      await keep(page, topic);
      await expect.poll(() => minute(page, topic)).toBe(1);
      expect((await kept(page, topic)).unknown).toBe(0);
      await server.kill();
      await server.restart();
      await expect.poll(async () => (await kept(page, topic)).unknown).toBe(1);
      await publish(2);
      await expect.poll(() => minute(page, topic)).toBe(2);
      const last = (await kept(page, topic)).versions.at(-1);
      expect(last?.document).toEqual(match(2));
      expect(last?.changed).toBeUndefined();
      await publish(3);
      await expect.poll(() => minute(page, topic)).toBe(3);
      expect((await kept(page, topic)).versions.at(-1)?.changed).toContain("/minute");
      expect((await kept(page, topic)).unknown).toBe(1);
    });
  }
});

test("the module for patches is loaded with the first patch, and not for a log", async ({ page, server }) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await open(page);
  await keep(page, "matches/8");
  await page.evaluate(() => e2e.subscribe("numbers", { from: "earliest" }));
  await post(server, "numbers", "1");
  await post(server, "matches/8", JSON.stringify(match(1)));
  await expect.poll(() => minute(page, "matches/8")).toBe(1);
  expect(asked).not.toContain("/sdk/deltas.js");
  await post(server, "matches/8", JSON.stringify(match(2)));
  await expect.poll(() => minute(page, "matches/8")).toBe(2);
  expect(asked.filter((path) => path === "/sdk/deltas.js")).toHaveLength(1);
});

test("several topics over SSE arrive whole", async ({ page, server }) => {
  await open(page, { transports: ["sse"] });
  for (const topic of ["matches/1", "matches/2"]) await keep(page, topic);
  for (const at of [1, 2]) {
    for (const topic of ["matches/1", "matches/2"]) {
      await post(server, topic, JSON.stringify(match(at)));
      await expect.poll(() => minute(page, topic)).toBe(at);
    }
  }
  for (const topic of ["matches/1", "matches/2"]) {
    const { versions } = await kept(page, topic);
    expect(versions.at(-1)).toMatchObject({ document: match(2), changed: undefined });
  }
});
