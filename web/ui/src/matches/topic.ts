/** Value topics, as hooks: the newest version of each, and what came for it. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { connect, type Session, type Status } from "thalweg";
import { Savings } from "../live/savings.js";
import { sentence, token } from "../server.js";

/** A session for as long as the component lives, and its status. */
export function useSession(): { session: Session; status: Status } {
  const [status, setStatus] = useState<Status>({ state: "connecting", transport: null, reason: null });
  const session = useMemo(() => connect(".", { token, onStatus: setStatus }), []);
  useEffect(() => () => session.close(), [session]);
  return { session, status };
}

/** A topic, as far as it has come. */
export interface Followed {
  /** The newest version; `undefined` before the first. */
  readonly document: unknown;
  readonly savings: Savings;
  /** Since when nobody knows whether the version is the newest, ms; `null` while it is. */
  readonly unknownSinceMs: number | null;
  /** Why nothing comes any more; `null` while something may. */
  readonly failure: string | null;
}

/** Follows a value topic; none if `null`. */
export function useTopic(session: Session, topic: string | null): Followed {
  const [followed, setFollowed] = useState<Followed & { topic: string | null }>(() => nothing(topic));
  useEffect(() => {
    if (topic === null) return;
    setFollowed(nothing(topic));
    const savings = new Savings();
    const subscription = session.subscribe(
      topic,
      { onError: (error) => setFollowed((last) => ({ ...last, failure: sentence(error) })) },
      ({ events, gap, bytes }) => {
        if (gap) setFollowed((last) => ({ ...last, unknownSinceMs: last.unknownSinceMs ?? Date.now() }));
        if (!events.length) return;
        const document = events.at(-1);
        savings.add(document, bytes);
        setFollowed({ topic, document, savings, unknownSinceMs: null, failure: null });
      },
    );
    return () => subscription.close();
  }, [session, topic]);
  // Until it has rendered with the other topic it has what was of this one.
  return followed.topic === topic ? followed : nothing(topic);
}

function nothing(topic: string | null): Followed & { topic: string | null } {
  return { topic, document: undefined, savings: new Savings(), unknownSinceMs: null, failure: null };
}
