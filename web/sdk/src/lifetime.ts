/** How long a token lasts, so that the next one is there before it ends. */

/** A page whose clock is wrong does not ask without end. */
const MS_MIN = 5000;
/** A timer for longer would end at once. */
const MS_MAX = 1e9;

/**
 * How long a JSON Web Token lasts from now on, ms; `null` for any other token. By when it was made, if
 * the page's clock is behind that.
 *
 * @internal
 */
export function lifetime(token: string | null): number | null {
  try {
    const claims = `${token}`.split(".")[1] as string;
    const { exp, iat = 0 } = JSON.parse(atob(claims.replace(/-/g, "+").replace(/_/g, "/")));
    return exp > 0 ? exp * 1000 - Math.max(Date.now(), iat * 1000) : null;
  } catch {
    return null;
  }
}

/**
 * When the next token is asked for: after three quarters of the life of this one or a little later, so
 * that tabs do not come at once. @internal
 */
export function renewal(lifetimeMs: number): number {
  return Math.min(Math.max(lifetimeMs * (0.75 + Math.random() * 0.15), MS_MIN), MS_MAX);
}
