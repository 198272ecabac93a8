/** Signed tokens of users. */

import { createHmac } from "node:crypto";

export const SECRET = "a secret of the tests, and of nobody else";

/** Creates a token (RFC 7519, RFC 7515) with these rights. */
export function signed(rights: object, { sub = "alice", lastsS = 600 } = {}): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const text = `${part({ alg: "HS256" })}.${part({ sub, iat: now, exp: now + lastsS, thalweg: rights })}`;
  return `${text}.${createHmac("sha256", SECRET).update(text).digest("base64url")}`;
}
