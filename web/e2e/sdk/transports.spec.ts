/** Every transport delivers a numbered topic completely and in order, and supports publish and request. */

import { publish } from "../harness/server.js";
import { expect, expectAll, open, subscribe, test, until } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

for (const name of TRANSPORTS) {
  test(`${name} delivers everything in order, publishes, and requests`, async ({ page, network, server }) => {
    await publish(server, "numbers", 1, 5000);
    await open(page, { transports: [name] });
    await subscribe(page, "numbers");
    await until(page, 5000);
    for (const last of [5001, 5100, 20_000]) {
      await publish(server, "numbers", (await page.evaluate(() => e2e.book.last ?? 0)) + 1, last);
      await until(page, last);
    }
    const said = await page.evaluate(async () => {
      await e2e.session.publish("numbers", 20_001);
      const published = await e2e.session.publish("numbers", 20_002, 20_003);
      return { published, echo: await e2e.session.request({ any: ["JSON", null] }) };
    });
    expect(said).toMatchObject({ published: { first: 20_002, count: 2 }, echo: { any: ["JSON", null] } });
    expectAll(await until(page, 20_003), 20_003);
    const kinds = new Set(network.asked.map(({ kind }) => kind).filter((kind) => kind !== "other"));
    expect([...kinds]).toEqual([name]);
  });
}

for (const name of TRANSPORTS) {
  test(`${name} delivers a topic with special characters in its name`, async ({ page, server }) => {
    const topic = "a@b:c|d+e=f";
    await publish(server, encodeURIComponent(topic), 1, 100);
    await open(page, { transports: [name] });
    await subscribe(page, topic);
    await until(page, 100);
    const published = await page.evaluate((topic) => e2e.session.publish(topic, 101), topic);
    expect(published).toMatchObject({ topic, count: 1 });
    expectAll(await until(page, 101), 101);
  });
}

for (const name of TRANSPORTS) {
  test(`${name}: a topic that is left in mid-stream and subscribed to again starts again`, async ({ page, server }) => {
    await publish(server, "numbers", 1, 1000);
    await open(page, { transports: [name] });
    // Another topic keeps the connection open.
    await page.evaluate(() => void e2e.session.subscribe("others", {}, () => {}));
    await subscribe(page, "numbers");
    let last = 1000;
    for (let time = 0; time < 5; time++) {
      await until(page, 1000);
      const publishing = publish(server, "numbers", last + 1, (last += 2000));
      await page.evaluate(() => e2e.again("numbers", { from: "earliest" }));
      await publishing;
    }
    expectAll(await until(page, last), last);
  });
}

test("several topics share a connection", async ({ page, network, server }) => {
  for (const topic of ["a", "b/c"]) await publish(server, topic, 1, 100);
  for (const name of TRANSPORTS) {
    const counts = await page.goto("/e2e/subscriber.html").then(() =>
      page.evaluate(async (name) => {
        e2e.open({ transports: [name] });
        const counts: Record<string, number> = {};
        await Promise.all(
          ["a", "b/c"].map(async (topic) => {
            for await (const { events } of e2e.session.subscribe(topic, { from: "earliest" })) {
              counts[topic] = (counts[topic] ?? 0) + events.length;
              if (counts[topic] === 100) return;
            }
          }),
        );
        return counts;
      }, name),
    );
    expect(counts, name).toEqual({ a: 100, "b/c": 100 });
  }
  expect(network.asked.filter(({ kind }) => kind === "websocket").length).toBe(1);
});
