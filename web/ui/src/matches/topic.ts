/** Hooks for value topics: a topic's newest version, and statistics of the bytes received. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { connect, type Session, type Status } from "thalweg";
import { Savings } from "../live/savings.js";
import { sentence, token } from "../server.js";

/** Returns a session that lasts as long as the component, and its status. */
export function useSession(): { session: Session; status: Status } {
  const [status, setStatus] = useState<Status>({ state: "connecting", transport: null, reason: null });
  const session = useMemo(() => connect(".", { token, onStatus: setStatus }), []);
  useEffect(() => () => session.close(), [session]);
  return { session, status };
}

export interface Followed {
  /** The newest version; `undefined` before the first one. */
  readonly document: unknown;
  readonly savings: Savings;
  /** Time since which the newest version is unknown, ms; `null` while it is known. */
  readonly unknownSinceMs: number | null;
  /** The reason why the topic has ended; `null` while it goes on. */
  readonly failure: string | null;
}

/** Subscribes to a value topic; to none if `topic` is `null`. */
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
  // Until the component renders again, the state belongs to the previous topic.
  return followed.topic === topic ? followed : nothing(topic);
}

function nothing(topic: string | null): Followed & { topic: string | null } {
  return { topic, document: undefined, savings: new Savings(), unknownSinceMs: null, failure: null };
}
