/**
 * What a session must know of the page around it: whether it is looked at, whether the
 * network is back, and which transport worked last. Nothing of that exists outside of a
 * browser.
 */

/** A tab that is hidden for less is not worth a change, ms. */
const HIDDEN_AFTER_MS = 5000;
/** Where it is remembered, for each server. */
const KEY = "thalweg:transport:";

/** What happens to it. @internal */
export interface PageEvents {
  /** The network or the page is back: no time to wait any longer. */
  woke(): void;
  hidden(isHidden: boolean): void;
}

/** @internal */
export interface Page {
  /** Listens until what it returns is called. */
  watch(events: PageEvents): () => void;
  /** The name of the transport that worked last, for as long as the tab lives. */
  recall(origin: string): string | null;
  remember(origin: string, name: string): void;
}

/** The one that this runs in. @internal */
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
      // No storage: private, sandboxed, or not a browser.
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
