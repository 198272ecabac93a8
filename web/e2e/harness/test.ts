/** A server, a proxy, and a page that must log no errors, request no other origins and obey its security policy. */

import { test as base, expect, type Page } from "@playwright/test";
import type { Book, Opening } from "../site/subscriber.js";
import { patience } from "./patience.js";
import { type Network, proxy } from "./proxy.js";
import { type Server, serve } from "./server.js";

export { expect };

interface Settings {
  args: readonly string[];
  /** Errors of the page that the test causes. */
  expected: RegExp | null;
}

interface Parts {
  server: Server;
  network: Network;
  complaints: string[];
  patient: undefined;
}

/** Errors that a browser logs if a test breaks the network. */
export const BROKEN_NETWORK = /net::ERR_|Failed to load resource|WebSocket connection to/;

export const test = base.extend<Settings & Parts>({
  args: [[], { option: true }],
  expected: [null, { option: true }],

  patient: [
    async ({}, use, info) => {
      const end = patience(info);
      await use(undefined);
      end();
    },
    { auto: true },
  ],

  server: async ({ args }, use, info) => {
    const server = await serve(args);
    await use(server);
    await server.stop();
    if (info.status !== info.expectedStatus) await info.attach("server", { body: server.log() });
  },

  network: async ({ server }, use) => {
    const network = await proxy(server.address);
    await use(network);
    await network.close();
  },

  baseURL: async ({ network }, use) => use(network.origin),

  complaints: [
    async ({ page, baseURL, server, expected }, use) => {
      const complaints: string[] = [];
      page.on("console", (message) => {
        if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
      });
      page.on("pageerror", (error) => complaints.push(String(error.stack)));
      page.on("request", (request) => {
        const { protocol, origin } = new URL(request.url());
        const isOwn =
          [baseURL, server.origin].includes(origin) ||
          protocol === "data:" ||
          protocol === "blob:" ||
          protocol === "about:";
        if (!isOwn) complaints.push(`a request to ${request.url()}`);
      });
      await use(complaints);
      // A page that switches topics may close a connection before it is open; how often depends on the machine.
      const isOfHaste = (complaint: string) => complaint.includes("closed before the connection is established");
      expect(complaints.filter((complaint) => !expected?.test(complaint) && !isOfHaste(complaint))).toEqual([]);
    },
    { auto: true },
  ],

  page: async ({ page }, use, info) => {
    await use(page);
    if (info.status === info.expectedStatus || page.isClosed()) return;
    const book = await page.evaluate(() => JSON.stringify(globalThis.e2e?.book ?? null)).catch(String);
    await info.attach("ledger", { body: book });
  },
});

export async function open(page: Page, opening: Opening = {}): Promise<void> {
  await page.goto("/e2e/subscriber.html");
  await page.waitForFunction(() => "e2e" in globalThis);
  await page.evaluate((opening) => e2e.open(opening), opening);
}

export async function subscribe(page: Page, topic: string): Promise<void> {
  await page.evaluate((topic) => e2e.subscribe(topic, { from: "earliest" }), topic);
}

/** Returns the ledger once event `last` has arrived. */
export function until(page: Page, last: number): Promise<Book> {
  return page.evaluate((last) => e2e.until((book) => (book.last ?? 0) >= last), last);
}

/** Returns the ledger once this number of further events has arrived. */
export function more(page: Page, count: number): Promise<Book> {
  return page.evaluate((count) => {
    const goal = e2e.book.count + count;
    return e2e.until((book) => book.count >= goal);
  }, count);
}

/** Returns the ledger once data arrives over a transport. */
export function over(page: Page, transport: string): Promise<Book> {
  return page.evaluate(
    (transport) => e2e.until((_, status) => status.state === "open" && status.transport === transport),
    transport,
  );
}

/** Expects events 1 to `last`, each once and in order. */
export function expectAll(book: Book, last: number): void {
  expect(book).toMatchObject({ first: 1, last, count: last, faults: [], gaps: [] });
}
