/** examples/chat: rooms, the newest messages, who is here, and who is typing. */

import type { Browser, BrowserContext, Page } from "@playwright/test";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";

test.use({
  args: [
    ...["--topic", "chat/rooms,kind=keyed"],
    ...["--topic", "chat/room/*,presence=users,presence-grace=1s"],
    ...["--topic", "chat/typing/*,kind=keyed,ttl=1s"],
  ],
  expected: BROKEN_NETWORK,
});

interface Person {
  readonly page: Page;
  readonly context: BrowserContext;
}

/** Opens the chat as somebody. */
async function join(browser: Browser, origin: string, name: string): Promise<Person> {
  const context = await browser.newContext();
  await context.addInitScript((name) => localStorage.setItem("name", name), name);
  const page = await context.newPage();
  await page.goto(`${origin}/chat/index.html?server=${encodeURIComponent(origin)}`);
  return { page, context };
}

const people = (page: Page) => page.getByRole("complementary", { name: "Here" }).getByRole("listitem");
const messages = (page: Page) => page.getByRole("list", { name: "Messages" }).getByRole("listitem");

test("people talk, see who is here and who is typing, and survive a crash of the server", async ({
  browser,
  server,
  network: { origin },
}) => {
  const ann = await join(browser, origin, "Ann");
  const bob = await join(browser, origin, "Bob");
  for (const { page } of [ann, bob]) await expect(people(page)).toHaveText(["Ann", "Bob"]);

  await ann.page.getByLabel("Message", { exact: true }).pressSequentially("Hi");
  await expect(bob.page.getByText("Ann typing …")).toBeVisible();
  await ann.page.keyboard.press("Enter");
  await expect(messages(bob.page)).toHaveText(["Ann: Hi"]);
  await expect(bob.page.getByText("Ann typing …")).toBeHidden();

  // A key expires by itself.
  await bob.page.getByLabel("Message", { exact: true }).pressSequentially("Well");
  await expect(ann.page.getByText("Bob typing …")).toBeVisible();
  await expect(ann.page.getByText("Bob typing …")).toBeHidden();
  await bob.page.keyboard.press("Enter");
  await expect(messages(ann.page)).toHaveText(["Ann: Hi", "Bob: Well"]);

  // A newcomer gets the newest messages.
  const cid = await join(browser, origin, "Cid");
  await expect(messages(cid.page)).toHaveText(["Ann: Hi", "Bob: Well"]);
  await expect(people(ann.page)).toHaveText(["Ann", "Bob", "Cid"]);
  await cid.context.close();
  await expect(people(ann.page)).toHaveText(["Ann", "Bob"]);

  // A reload is neither a leave nor a join.
  await bob.page.reload();
  await expect(messages(bob.page)).toHaveText(["Ann: Hi", "Bob: Well"]);
  await expect(people(bob.page)).toHaveText(["Ann", "Bob"]);

  await ann.page.getByLabel("New room").fill("kitchen");
  await ann.page.keyboard.press("Enter");
  await expect(people(bob.page)).toHaveText(["Bob"]);
  await bob.page.getByRole("link", { name: "kitchen" }).click();
  for (const { page } of [ann, bob]) await expect(people(page)).toHaveText(["Ann", "Bob"]);

  await server.kill();
  await server.restart();
  for (const { page } of [ann, bob]) await expect(people(page)).toHaveText(["Ann", "Bob"]);
  await ann.page.getByLabel("Message", { exact: true }).fill("Still here");
  await ann.page.keyboard.press("Enter");
  await expect(messages(bob.page).last()).toHaveText("Ann: Still here");
  for (const { context } of [ann, bob]) await context.close();
});
