/**
 * Requests to the server that serves these pages, with the reader's token. The browser tab stores the token until it
 * is closed. Paths are relative, because a proxy may serve the pages under a path of its own.
 */

const KEY = "thalweg:token";

let current = stored();
let tokenRefused = (): void => {};

/** Returns the token of all requests; an empty string without one. */
export function token(): string {
  return current;
}

export function setToken(token: string): void {
  current = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // Without storage the token lasts until the page is reloaded.
  }
}

/** Sets the listener that is called when the server answers 401, for a missing or an invalid token. */
export function onUnauthorized(listener: () => void): void {
  tokenRefused = listener;
}

export function serverUrl(path: string): string {
  return new URL(path, document.baseURI).href;
}

export function askForToken(): void {
  tokenRefused();
}

interface RequestOptions {
  method?: string;
  /** The value to send as JSON. */
  body?: object;
  /** JSON to send as it is, instead of `body`. */
  json?: string;
  /** Whether a 401 must not show the form for a token. */
  isQuiet?: boolean;
  signal?: AbortSignal;
}

/** Calls `fetch` with the token. */
export async function request(
  path: string,
  { method = "GET", body, json, isQuiet = false, signal }: RequestOptions = {},
): Promise<Response> {
  const sentBody = json ?? (body && JSON.stringify(body));
  const sent = current;
  const response = await fetch(path, {
    method,
    headers: {
      Accept: "application/json",
      ...(sentBody && { "Content-Type": "application/json" }),
      ...(sent && { Authorization: `Bearer ${sent}` }),
    },
    ...(sentBody && { body: sentBody }),
    ...(signal && { signal }),
  });
  // The reader may have presented another token in the meantime.
  if (response.status === 401 && sent === current && !isQuiet) tokenRefused();
  return response;
}

/** Returns whether this token, or an empty one, grants the right to subscribe. */
export async function maySubscribe(token: string): Promise<boolean> {
  // The right to subscribe includes acks. An ack of a topic that does not exist has no effect.
  const body = JSON.stringify({ command: "ack", topic: "lab", position: "1.1" });
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch("v1/commands", { method: "POST", headers, body });
  return response.status !== 401;
}

export async function isAccepted(token: string): Promise<boolean> {
  // A header can carry only these characters.
  return /^[!-~]+$/.test(token) && maySubscribe(token);
}

/** Returns the path with a one-time ticket. Frames and links cannot send headers, so they need one. */
export async function withTicket(path: string): Promise<string> {
  if (!current) return path;
  const response = await request("v1/tickets", { method: "POST" });
  if (!response.ok) throw new Error(await errorMessage(response));
  const { ticket } = (await response.json()) as { ticket: string };
  return `${path}?ticket=${encodeURIComponent(ticket)}`;
}

/** Returns the error of a response: the server's own message, or the status if there is none. */
export async function refusal(response: Response): Promise<{ readonly code: string | null; readonly message: string }> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    return { code: error.code, message: error.message };
  } catch {
    return { code: null, message: `the server answered ${response.status}` };
  }
}

export async function errorMessage(response: Response): Promise<string> {
  return (await refusal(response)).message;
}

export interface Problem {
  /** A sentence without its full stop. */
  readonly text: string;
  readonly isUnreachable: boolean;
}

export function problemOf(error: unknown): Problem {
  // `fetch` throws a TypeError if no server answers; its message differs between browsers.
  const isUnreachable = error instanceof TypeError;
  return { text: isUnreachable ? `No server answers at ${serverUrl(".")}` : sentence(error), isUnreachable };
}

/** Returns an error's message as a sentence without its full stop. */
export function sentence(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  // Messages of browsers end with a full stop.
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
}

function stored(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
