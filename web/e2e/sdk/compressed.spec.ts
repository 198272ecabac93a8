/** Compressed messages that refer to earlier ones, inflated by Chromium. A second page subscribes when the topic has a context. */

import { publish } from "../harness/server.js";
import { expectAll, open, subscribe, test, until } from "../harness/test.js";

test.use({ args: ["--compression"] });

for (const transport of ["websocket", "sse", "http-streaming"] as const) {
  test(`${transport}: every event arrives, whenever the page subscribes`, async ({ page, context, server }) => {
    const [first, last] = [200, 400];
    await open(page, { transports: [transport] });
    await subscribe(page, "numbers");
    for (let number = 1; number <= first; number++) await publish(server, "numbers", number, number);
    const later = await context.newPage();
    await open(later, { transports: [transport] });
    await subscribe(later, "numbers");
    expectAll(await until(later, first), first);
    for (let number = first + 1; number <= last; number++) await publish(server, "numbers", number, number);
    for (const each of [page, later]) expectAll(await until(each, last), last);
  });
}
