/** Ends of topics over every transport: the subscriber is informed, and other topics continue. */

import { expect, open, test } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

interface Listed {
  readonly topic: string;
  readonly subscribers: number;
}

for (const name of TRANSPORTS) {
  test(`${name}: a topic is deleted, then the last one`, async ({ page, server }) => {
    const send = async (method: string, topic: string, body?: string): Promise<void> => {
      const response = await fetch(`${server.origin}/v1/topics/${topic}`, { method, ...(body && { body }) });
      expect(response.ok).toBe(true);
    };
    for (const topic of ["a", "b"]) await send("POST", topic, "first");
    await open(page, { transports: [name] });
    await page.evaluate(() => {
      const told: string[] = [];
      Object.assign(globalThis, { told });
      for (const topic of ["a", "b"]) {
        const onError = ({ code }: { code: string }) => void told.push(`${topic} ${code}`);
        const listener = ({ events }: { events: readonly unknown[] }) => void told.push(`${topic} ${events}`);
        e2e.session.subscribe(topic, { from: "earliest", onError }, listener);
      }
    });
    const told = (): Promise<string[]> => page.evaluate(() => (globalThis as unknown as { told: string[] }).told);
    await expect.poll(async () => (await told()).length).toBe(2);
    // Between two polls, the server cannot tell the page that a topic has ended.
    const list = async () => (await fetch(`${server.origin}/v1/topics`)).json() as Promise<{ topics: Listed[] }>;
    const listening = async (name: string) => (await list()).topics.find(({ topic }) => topic === name)?.subscribers;
    await expect.poll(() => listening("a")).toBe(1);
    await send("DELETE", "a");
    await expect.poll(told).toContain("a deleted");
    await send("POST", "b", "second");
    await expect.poll(told).toContain("b second");
    await expect.poll(() => listening("b")).toBe(1);
    await send("DELETE", "b");
    await expect.poll(told).toContain("b deleted");
    await expect.poll(() => page.evaluate(() => e2e.session.status.state)).toBe("idle");
    expect((await told()).slice(2)).toEqual(["a deleted", "b second", "b deleted"]);
  });
}
