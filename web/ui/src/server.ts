/**
 * Requests to the server that these pages are of, with the reader's token. The token is kept
 * as long as the tab. Paths are relative: a proxy may have put the server below a path of its
 * own.
 */

const KEY = "thalweg:token";

let current = stored();
/** Called when the server wants a token, or another one. */
let tokenRefused = (): void => {};

/** The token of all requests; empty if there is none. */
export function token(): string {
  return current;
}

/** The token of all requests from now on. */
export function setToken(token: string): void {
  current = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // No storage: until the page is loaded again, then.
  }
}

/** @param listener - is called when a request is refused for its token, or for having none. */
export function onUnauthorized(listener: () => void): void {
  tokenRefused = listener;
}

/** The URL of a path of this server. */
export function serverUrl(path: string): string {
  return new URL(path, document.baseURI).href;
}

/** Shows the reader the form for a token. */
export function askForToken(): void {
  tokenRefused();
}

/**
 * As `fetch`, with the token.
 * @param isQuiet - a 401 does not ask the reader for a token.
 */
export async function request(
  path: string,
  { method = "GET", body, isQuiet = false }: { method?: string; body?: object; isQuiet?: boolean } = {},
): Promise<Response> {
  const sent = current;
  const response = await fetch(path, {
    method,
    headers: {
      Accept: "application/json",
      ...(body && { "Content-Type": "application/json" }),
      ...(sent && { Authorization: `Bearer ${sent}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  // The reader may have given another one meanwhile.
  if (response.status === 401 && sent === current && !isQuiet) tokenRefused();
  return response;
}

/** Whether whoever presents this token, or none, may subscribe. */
export async function maySubscribe(token: string): Promise<boolean> {
  // Whoever may subscribe may ack, and an ack of a topic that there is not does nothing.
  const body = JSON.stringify({ command: "ack", topic: "lab", position: "1.1" });
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch("v1/commands", { method: "POST", headers, body });
  return response.status !== 401;
}

/** Whether the server takes this token. */
export async function isAccepted(token: string): Promise<boolean> {
  // Nothing else can stand in a header.
  return /^[!-~]+$/.test(token) && maySubscribe(token);
}

/** The path for a frame or a link, which have no headers: with a ticket, to be used once and soon. */
export async function withTicket(path: string): Promise<string> {
  if (!current) return path;
  const response = await request("v1/tickets", { method: "POST" });
  if (!response.ok) throw new Error(await errorMessage(response));
  const { ticket } = (await response.json()) as { ticket: string };
  return `${path}?ticket=${encodeURIComponent(ticket)}`;
}

/** Why the server has refused a request: its own sentence, or the status without one. */
export async function refusal(response: Response): Promise<{ readonly code: string | null; readonly message: string }> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    return { code: error.code, message: error.message };
  } catch {
    return { code: null, message: `the server answers ${response.status}` };
  }
}

/** The sentence of {@link refusal}. */
export async function errorMessage(response: Response): Promise<string> {
  return (await refusal(response)).message;
}

/** Why a request has failed. */
export interface Problem {
  /** A sentence without its full stop. */
  readonly text: string;
  /** Whether there was no answer at all. */
  readonly isUnreachable: boolean;
}

export function problemOf(error: unknown): Problem {
  // So `fetch` says that there was no answer at all, in each browser with other words.
  const isUnreachable = error instanceof TypeError;
  return { text: isUnreachable ? `Nothing answers at ${serverUrl(".")}` : sentence(error), isUnreachable };
}

/** What went wrong, as a sentence. */
export function sentence(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function stored(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
