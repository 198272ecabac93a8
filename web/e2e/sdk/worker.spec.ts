/** A session whose connection runs in a Worker, with a busy page. */

import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, expectAll, open, over, subscribe, test, until } from "../harness/test.js";
import { PASS } from "../harness/treatments.js";

test.use({ expected: BROKEN_NETWORK });

for (const name of ["websocket", "http-streaming", "sse"] as const) {
  test(`${name} delivers everything in order, even after a break`, async ({ page, network, server }) => {
    await publish(server, "numbers", 1, 5000);
    await open(page, { transports: [name], isInWorker: true });
    await subscribe(page, "numbers");
    await until(page, 5000);
    const before = network.asked.length;
    network.cut();
    await publish(server, "numbers", 5001, 6000);
    await network.seen(({ kind }) => kind === name, before);
    expectAll(await until(page, 6000), 6000);
  });
}

test("a session falls back in a Worker, too", async ({ page, network, server }) => {
  network.treat(({ kind }) =>
    kind === "websocket" || kind === "http-streaming" ? { by: "refuse", status: 403 } : PASS,
  );
  await publish(server, "numbers", 1, 100);
  await open(page, { isInWorker: true });
  await subscribe(page, "numbers");
  await over(page, "sse");
  expectAll(await until(page, 100), 100);
});
