/** Tokens that expire: the server closes the first connection; later tokens are replaced before they expire. */

import { SECRET, signed } from "../harness/signed.js";
import { expect, more, open, subscribe, test } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

// Tokens expire after a few seconds of real time, even if the page gets little CPU time.
test.describe.configure({ retries: 2 });

const SOURCE = ["--source", "users/alice/rows=constant,batch=5,interval=1ms"];

test.use({
  args: [...SOURCE, "--jwt-secret", SECRET, "--set", "jwt-leeway=0"],
  // A poll with a token that has just expired is rejected.
  expected: /Failed to load resource/,
});

const RIGHTS = { subscribe: ["users/{sub}/**"] };

for (const name of TRANSPORTS) {
  test(`${name} continues when tokens expire, without lost or repeated events`, async ({ page }) => {
    const lasting = [2, 6];
    let asked = 0;
    await page.exposeFunction("mint", () => {
      asked++;
      return signed(RIGHTS, { lastsS: lasting.shift() ?? 600 });
    });
    await open(page, { transports: [name], token: "mint" });
    await subscribe(page, "users/alice/rows");
    await more(page, 1000);
    // The first token has expired, and the next connection requested the second one.
    await expect.poll(() => asked).toBe(2);
    const { statuses } = await more(page, 1000);
    expect(statuses.filter(({ state }) => state === "waiting").length).toBeLessThan(2);
    // The third token arrived before the second one expired: no connection was closed.
    await expect.poll(() => asked).toBe(3);
    const before = await more(page, 1000);
    const after = await more(page, 5000);
    expect(after).toMatchObject({ faults: [], gaps: [] });
    const changes = after.statuses.slice(before.statuses.length);
    if (name !== "forever-frame") expect(changes).toEqual([]);
    // The server replaces the document of a frame when it is long.
    expect(changes.filter(({ reason }) => reason !== null && reason !== "reload")).toEqual([]);
    expect(asked).toBe(3);
  });
}

test("a topic without a right in the next token ends, and the others continue", async ({ page }) => {
  const rights = ["users/{sub}/**", "news"];
  await page.exposeFunction("mint", () => {
    const token = signed({ subscribe: [...rights] }, { lastsS: 7 });
    rights.length = 1;
    return token;
  });
  await open(page, { transports: ["websocket"], token: "mint" });
  await subscribe(page, "users/alice/rows");
  const code = await page.evaluate(
    () =>
      new Promise((tell) => {
        e2e.session.subscribe("news", { onError: ({ code }) => tell(code) }, () => {});
      }),
  );
  expect(code).toBe("forbidden");
  expect(await more(page, 1000)).toMatchObject({ faults: [], gaps: [] });
});
