// Signs tokens as your backend would, after it has checked who is logged in.

import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Returns a JSON Web Token with which a user may subscribe to `orders` for five minutes. */
export function token(user) {
  const secret = readFileSync(process.env.SECRET ?? "secret", "utf8").trim();
  const claims = { sub: user, exp: Math.floor(Date.now() / 1000) + 300, thalweg: { subscribe: ["orders"] } };
  const signed = `${part({ alg: "HS256" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}
