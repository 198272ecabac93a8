/** A server that requires a token: in a header where there are headers, otherwise as a ticket. */

import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, expect, more, open, over, subscribe, test } from "../harness/test.js";
import { breakable, HEARTBEAT, TRANSPORTS } from "./transports.js";

const SOURCE = ["--source", "rows=constant,batch=5,interval=1ms"];
const TOKEN = "read-me";

test.use({
  args: [
    ...HEARTBEAT,
    ...SOURCE,
    "--token",
    `subscriber=${TOKEN},subscribe=**`,
    "--token",
    "publisher=write-me,subscribe=**,publish=**,inspect=**,admin=true",
  ],
  expected: BROKEN_NETWORK,
});

const HEADERS: readonly string[] = ["http-streaming", "long-polling"];

for (const name of TRANSPORTS) {
  test(`${name} presents the token again for each connection`, async ({ page, network }) => {
    await open(page, { ...breakable(name), token: TOKEN });
    await subscribe(page, "rows");
    await more(page, 500);
    const before = network.asked.length;
    network.cut();
    await network.seen(({ kind }) => kind === name, before);
    expect(await more(page, 2000)).toMatchObject({ faults: [], gaps: [] });
    const tickets = network.asked.filter(({ url }) => url.pathname === "/v1/tickets");
    const connections = network.asked.filter(({ kind }) => kind === name);
    for (const { headers, url } of connections) {
      expect(headers.authorization).toBe(HEADERS.includes(name) ? `Bearer ${TOKEN}` : undefined);
      expect(url.searchParams.has("ticket")).toBe(!HEADERS.includes(name));
      // URLs end up in logs, so the token itself is never in a URL.
      expect(url.href).not.toContain(TOKEN);
    }
    const used = new Set(connections.map(({ url }) => url.searchParams.get("ticket")));
    expect(used.size).toBe(HEADERS.includes(name) ? 1 : connections.length);
    expect(tickets.length).toBe(HEADERS.includes(name) ? 0 : connections.length);
  });
}

for (const name of ["websocket", "http-streaming"] as const) {
  test(`${name}: a wrong token is reported, and not retried forever`, async ({ page, network }) => {
    await open(page, { transports: [name], token: "wrong-#" });
    await subscribe(page, "rows");
    const { statuses } = await page.evaluate(() => e2e.until((_, { state }) => state === "closed"));
    expect(statuses.at(-1)?.reason).toBeTruthy();
    // The token may have just expired: the session requests a fresh one before it gives up.
    const presented = network.asked.map(({ headers }) => headers.authorization).filter(Boolean);
    expect(presented.length).toBe(2);
    expect(new Set(presented).size).toBe(2);
  });
}

test("a token is requested once per connection", async ({ page, network }) => {
  await open(page, { transports: ["websocket"], token: "wrong-#" });
  await subscribe(page, "rows");
  await page.evaluate(() => e2e.until((_, { state }) => state === "closed"));
  expect(network.asked.map(({ headers }) => headers.authorization)).toEqual(["Bearer wrong-1", "Bearer wrong-2"]);
});

test("without a token the page gets the reason", async ({ page }) => {
  await open(page);
  const error = await page.evaluate(async () => {
    try {
      for await (const batch of e2e.session.subscribe("rows")) return String(batch);
    } catch (error) {
      return (error as { code: string }).code;
    }
    return "nothing";
  });
  expect(error).toBe("unauthorized");
});

test("a listener gets the error, too", async ({ page }) => {
  await open(page);
  const codes = page.evaluate(
    () =>
      new Promise<string[]>((tell) => {
        const codes: string[] = [];
        const onError = ({ code }: { code: string }): void => {
          codes.push(code);
          // Subscribe again, over the open connection.
          if (codes.length === 2) tell(codes);
          else e2e.session.subscribe("rows", { onError }, () => {});
        };
        e2e.session.subscribe("rows", { onError }, () => {});
      }),
  );
  expect(await codes).toEqual(["unauthorized", "unauthorized"]);
});

test.describe("a server with public topics", () => {
  test.use({ args: ["--token", `publisher=${TOKEN},publish=**`, "--token", "everybody,subscribe=**"] });

  test("publishing still requires a token", async ({ page, server }) => {
    await expect(publish(server, "numbers", 1, 2)).rejects.toThrow("unauthorized");
    await open(page, { token: TOKEN });
    await subscribe(page, "numbers");
    await over(page, "websocket");
    const { count } = await page.evaluate(() => e2e.session.publish("numbers", 1, 2, 3));
    expect(count).toBe(3);
  });
});
