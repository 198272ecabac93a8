/** Tokens that expire: the server closes the first connection; later tokens are replaced before they expire. */

import { createHmac } from "node:crypto";
import { expect, more, open, subscribe, test } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

// Tokens expire after a few seconds of real time, even if the page gets little CPU time.
test.describe.configure({ retries: 2 });

const SECRET = "a secret of the tests, and of nobody else";
const SOURCE = ["--source", "users/alice/rows=constant,batch=5,interval=1ms"];

test.use({
  args: [...SOURCE, "--jwt-secret", SECRET, "--set", "jwt-leeway=0"],
  // A poll with a token that has just expired is rejected.
  expected: /Failed to load resource/,
});

/** Creates a token for alice (RFC 7519, RFC 7515). */
function signed(lastsS: number): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const rights = { subscribe: ["users/{sub}/**"] };
  const text = `${part({ alg: "HS256" })}.${part({ sub: "alice", iat: now, exp: now + lastsS, thalweg: rights })}`;
  return `${text}.${createHmac("sha256", SECRET).update(text).digest("base64url")}`;
}

for (const name of TRANSPORTS) {
  test(`${name} continues when tokens expire, without lost or repeated events`, async ({ page }) => {
    const lasting = [2, 6];
    let asked = 0;
    await page.exposeFunction("mint", () => {
      asked++;
      return signed(lasting.shift() ?? 600);
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
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  await page.exposeFunction("mint", () => {
    const now = Math.floor(Date.now() / 1000);
    const claims = { sub: "alice", iat: now, exp: now + 7, thalweg: { subscribe: [...rights] } };
    rights.length = 1;
    const text = `${part({ alg: "HS256" })}.${part(claims)}`;
    return `${text}.${createHmac("sha256", SECRET).update(text).digest("base64url")}`;
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
