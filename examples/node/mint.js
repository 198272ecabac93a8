// Prints a token for a user, signed with jose (npm install jose): node mint.js private.pem alice
// A server with --jwt-key @public.pem --jwt-audience push accepts it.

import { readFileSync } from "node:fs";
import { importPKCS8, SignJWT } from "jose";

const [keyFile, user] = process.argv.slice(2);
const key = await importPKCS8(readFileSync(keyFile, "utf8"), "ES256");
const rights = { subscribe: ["users/{sub}/**", "news/*"], publish: ["users/{sub}/out"] };
const token = await new SignJWT({ thalweg: rights })
  .setProtectedHeader({ alg: "ES256" })
  .setSubject(user)
  .setAudience("push")
  .setIssuedAt()
  .setExpirationTime("5m")
  .sign(key);
console.log(token);
