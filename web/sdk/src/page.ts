/** The page around a session: visibility, network, the last working transport. Outside of a browser there is none. */

/** Time after which a hidden tab counts as hidden, ms. */
const HIDDEN_AFTER_MS = 5000;
/** Prefix of keys in the session storage, followed by the server's origin. */
const KEY = "thalweg:transport:";

/** Changes of the page, as a session observes them. @internal */
export interface PageEvents {
  /** The network is back, or the page is visible again: connect at once. */
  woke(): void;
  hidden(isHidden: boolean): void;
}

/** @internal */
export interface Page {
  /** Observes the page until the returned function is called. */
  watch(events: PageEvents): () => void;
  /** Returns the transport that worked last in this tab. */
  recall(origin: string): string | null;
  remember(origin: string, name: string): void;
}

/** The page that this code runs in. @internal */
export const thisPage: Page = {
  watch({ woke, hidden }) {
    if (!globalThis.document) return () => {};
    let timer: ReturnType<typeof setTimeout> | undefined;
    const seen = (): void => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => hidden(true), HIDDEN_AFTER_MS);
      else {
        hidden(false);
        woke();
      }
    };
    document.addEventListener("visibilitychange", seen);
    addEventListener("online", woke);
    if (document.hidden) seen();
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("online", woke);
    };
  },
  recall(origin) {
    try {
      return sessionStorage.getItem(KEY + origin);
    } catch {
      // No storage: private mode, a sandboxed frame, or not a browser.
      return null;
    }
  },
  remember(origin, name) {
    try {
      sessionStorage.setItem(KEY + origin, name);
    } catch {
      // As above.
    }
  },
};
