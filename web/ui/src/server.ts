/**
 * Asks the server that these pages are of, with a token where it wants one. The token is
 * kept for as long as the tab is. Paths are relative: a proxy may have put the server below
 * a path of its own.
 */

const KEY = "thalweg:token";

let held = recalled();
/** Hears that the server wants a token, or another one. */
let hear = (): void => {};

/** What is presented; empty if nothing is. */
export function token(): string {
  return held;
}

/** What is presented from now on. */
export function present(token: string): void {
  held = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // No storage: until the page is loaded again, then.
  }
}

/** @param listener - is called when what is presented, or nothing, does not do. */
export function whenRefused(listener: () => void): void {
  hear = listener;
}

/** Where a path of this server is, in full. */
export function serverUrl(path: string): string {
  return new URL(path, document.baseURI).href;
}

/** Has the reader asked for a token, or for another one. */
export function askForToken(): void {
  hear();
}

/**
 * As `fetch`; that somebody must first present a token is told to {@link whenRefused} as well.
 * @param isQuiet - not this time
 */
export async function ask(
  path: string,
  { method = "GET", body, isQuiet = false }: { method?: string; body?: object; isQuiet?: boolean } = {},
): Promise<Response> {
  const shown = held;
  const response = await fetch(path, {
    method,
    headers: {
      Accept: "application/json",
      ...(body && { "Content-Type": "application/json" }),
      ...(shown && { Authorization: `Bearer ${shown}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  // It may have been presented meanwhile.
  if (response.status === 401 && shown === held && !isQuiet) hear();
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
export async function isTaken(token: string): Promise<boolean> {
  // Nothing else can stand in a header.
  return /^[!-~]+$/.test(token) && maySubscribe(token);
}

/** The path for a frame or a link, which present no token: with a ticket, to be used once and soon. */
export async function ticketed(path: string): Promise<string> {
  if (!held) return path;
  const response = await ask("v1/tickets", { method: "POST" });
  if (!response.ok) throw new Error(await errorMessage(response));
  const { ticket } = (await response.json()) as { ticket: string };
  return `${path}?ticket=${encodeURIComponent(ticket)}`;
}

/** The server's own sentence, or what it comes to without one. */
export async function errorMessage(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error: { message: string } };
    return error.message;
  } catch {
    return `the server answers ${response.status}`;
  }
}

/** Why the server could not be asked. */
export interface Problem {
  /** A sentence without its full stop. */
  readonly text: string;
  /** Whether there was no answer at all. */
  readonly isSilent: boolean;
}

export function problemOf(error: unknown): Problem {
  // So `fetch` says that there was no answer at all, in each browser with other words.
  const isSilent = error instanceof TypeError;
  return { text: isSilent ? `Nothing answers at ${serverUrl(".")}` : sentence(error), isSilent };
}

/** What went wrong, as a sentence. */
export function sentence(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function recalled(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
