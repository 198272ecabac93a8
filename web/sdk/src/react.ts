/**
 * Hooks of React 18 and 19. Components that read the same topic share one subscription, and a component that is mounted
 * again soon continues with the same events. On the server, hooks return the `initial` events and open no connection.
 *
 * @packageDocumentation
 */

import {
  createContext,
  createElement,
  type ReactElement,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useSyncExternalStore,
} from "react";
import { Live } from "./react-live.js";
import { EMPTY, type Snapshot, type Spec } from "./react-store.js";
import {
  type ConnectOptions,
  connect,
  type Envelope,
  type Gap,
  type MemberEntry,
  type Position,
  type Session,
  type Status,
  type SubscribeOptions,
  type ThalwegError,
} from "./thalweg.js";

/** Default number of events to keep. */
const KEEP = 100;

/**
 * The props of {@link SessionProvider}: the server, and the options of the session. A change of `url` begins a new session.
 * The latest `token` and `onStatus` are called; changes of other options have no effect. For another user, change the `key`
 * of the provider.
 */
export type SessionProviderProps = ConnectOptions & {
  /** The server's root. Default: `"/"`. */
  url?: string | URL;
  /**
   * Creates the session. Default: `connect`. Pass a function that calls `connectInWorker` for a session in a Worker. It is called again
   * for topics that are read in different ways, and after a failure. The provider closes what it returns.
   */
  connect?: (url: string, options: ConnectOptions) => Session;
  /** The components that use the session. */
  children?: ReactNode;
};

/**
 * The session of a provider. Call its functions in effects and event handlers, not while rendering. They are stable, and are others
 * only when a new session replaces one that has failed: an effect that depends on them then runs again.
 */
export interface ReactSession extends Omit<Session, "close"> {
  /** The latest status. The component renders again when it changes. */
  readonly status: Status;
  /**
   * Connects at once if the session waits for its next attempt. If the session has failed or a topic has ended with an error,
   * subscribes again: topics continue at their positions.
   */
  reconnect(): void;
}

/**
 * The filter of a hook, on keyed topics only. A changed filter subscribes again. A new array with the same keys, in any order, is
 * the same filter.
 */
export interface KeyFilter {
  /** The keys to receive, at most 100. An empty list is an error: pass `null` as the topic instead. Default: all keys. */
  keys?: readonly string[] | undefined;
  /** Also receive the keys with this prefix. */
  prefix?: string | undefined;
}

/** The options of {@link useKeyed} and {@link usePresence}. */
export interface UseKeyedOptions extends KeyFilter {
  /** Shortest time between two changes, ms. */
  interval?: number | undefined;
  /**
   * The state that the server has rendered: a response to `GET /v1/topics/TOPIC?limit=1000`, with the same filter. It is shown
   * until the session has the state. Another topic or filter needs another object.
   */
  initial?: Envelope | undefined;
}

/** The options of {@link useValue}. */
export interface UseValueOptions extends KeyFilter {
  /** Shortest time between two changes, ms. */
  interval?: number | undefined;
  /**
   * The event that the server has rendered: a response to `GET /v1/topics/TOPIC?newest=1`. Another topic or filter needs another
   * object.
   */
  initial?: Envelope | undefined;
}

/** The options of {@link useTopic}. A change of `from` or `initial` has no effect until the topic or the filter changes. */
export interface UseTopicOptions extends KeyFilter {
  /** Number of newest events to keep. Default: 100. */
  keep?: number | undefined;
  /** The start. Default: the newest `keep` events. */
  from?: SubscribeOptions["from"] | undefined;
  /** Shortest time between two batches, ms. */
  interval?: number | undefined;
  /** The policy. Default: `skip`. */
  policy?: SubscribeOptions["policy"] | undefined;
  /**
   * The events that the server has rendered: a response to `GET /v1/topics/TOPIC?newest=50`. The subscription continues after
   * them. Another topic or filter needs another object.
   */
  initial?: Envelope | undefined;
}

/** The part that all hooks of a topic return. */
export interface TopicState {
  /** The status of the session. While it is not `open`, the shown events may be outdated. */
  readonly status: Status;
  /** Missed events; `null` if none were, or if the gap is before the oldest shown event. */
  readonly gap: Gap | null;
  /** The error that ended the subscription. The last events stay. */
  readonly error: ThalwegError | null;
  /** The position of the last event. Store it, and pass it as `from` to continue after a reload. */
  readonly position: Position | null;
}

/** The result of {@link useTopic}. */
export interface TopicEvents<T> extends TopicState {
  /** The newest events, the oldest first. Do not modify them. */
  readonly events: readonly T[];
  /** The position of each event: a unique `key` of a row. */
  readonly positions: readonly Position[];
}

/** The result of {@link useValue}. */
export interface TopicValue<T> extends TopicState {
  /** The newest event; `undefined` before the first one. Unchanged parts of a value topic's versions are the same objects. */
  readonly value: T | undefined;
}

/** The result of {@link useKeyed}. */
export interface TopicMap<T> extends TopicState {
  /** The newest event of each key. Each change is a new map with the same events. */
  readonly map: ReadonlyMap<string, T>;
  /**
   * Whether the map is a state that the topic had: `false` before the first state, and after a gap until the next one. After a change
   * of the filter, the map has the events that are known until then.
   */
  readonly isWhole: boolean;
}

/** A subscriber of a topic with presence. */
export interface PresentMember<Info> extends MemberEntry<Info> {
  /** The key of the member in `presence/TOPIC`. */
  readonly key: string;
}

/** The result of {@link usePresence}. */
export interface Presence<Info> extends TopicState {
  /** The members, in the order of their arrival. Empty if the server only counts them. */
  readonly members: readonly PresentMember<Info>[];
  /** The number of members. */
  readonly count: number;
  /** Whether the session has a state of the list, as in {@link TopicMap}. */
  readonly isWhole: boolean;
}

const Context = createContext<Live | null>(null);

/**
 * Gives a session to the components below it. The session connects when the first of them reads a topic, and closes soon after
 * the provider has been unmounted.
 *
 * ```jsx
 * <SessionProvider url="https://live.example/" token={() => fetchToken()}>
 *   <Dashboard />
 * </SessionProvider>
 * ```
 */
export function SessionProvider({ children, ...props }: SessionProviderProps): ReactElement {
  const latest = useRef(props);
  useEffect(() => {
    latest.current = props;
  });
  const url = String(props.url ?? "/");
  const live = useMemo(() => {
    const { url: _, connect: open = connect, token: __, ...options } = props;
    return new Live(
      // A later rendering may give a token.
      (onStatus) => open(url, { ...options, token: () => latest.current.token?.() ?? "", onStatus }),
      (status) => latest.current.onStatus?.(status),
    );
  }, [url]);
  useEffect(live.hold, [live]);
  return createElement(Context.Provider, { value: live }, children);
}

/**
 * Returns the session of the provider, and renders the component again when its status changes.
 *
 * ```jsx
 * const { status, publish, reconnect } = useSession();
 * ```
 */
export function useSession(): ReactSession {
  const live = useLive();
  const status = useSyncExternalStore(
    live.watch,
    () => live.status,
    () => EMPTY.status,
  );
  const methods = useSyncExternalStore(
    live.watch,
    () => live.methods,
    () => live.methods,
  );
  return useMemo(() => ({ ...methods, status }), [methods, status]);
}

/**
 * Returns the newest events of a topic.
 *
 * ```jsx
 * const { events, positions, status, gap, error } = useTopic("orders", { keep: 50 });
 * return events.map((order, index) => <Order key={positions[index]} {...order} />);
 * ```
 *
 * @param topic - without a topic, the hook subscribes to nothing.
 */
export function useTopic<T = unknown>(topic: string | null | undefined, options: UseTopicOptions = {}): TopicEvents<T> {
  const keep = Math.max(1, options.keep ?? KEEP);
  const snapshot = useSnapshot(topic, false, keep, options);
  return useMemo(() => {
    const cut = Math.max(0, snapshot.events.length - keep);
    return {
      ...stateOf(snapshot, cut),
      events: (cut ? snapshot.events.slice(cut) : snapshot.events) as readonly T[],
      positions: cut ? snapshot.positions.slice(cut) : snapshot.positions,
    };
  }, [snapshot, keep]);
}

/**
 * Returns the newest event of a topic; on a value topic its newest version.
 *
 * ```jsx
 * const { value: match, status } = useValue("matches/8");
 * ```
 *
 * @param topic - without a topic, the hook subscribes to nothing.
 */
export function useValue<T = unknown>(topic: string | null | undefined, options: UseValueOptions = {}): TopicValue<T> {
  const snapshot = useSnapshot(topic, false, 1, options);
  return useMemo(() => {
    const { events } = snapshot;
    return { ...stateOf(snapshot, events.length - 1), value: events.at(-1) as T | undefined };
  }, [snapshot]);
}

/**
 * Returns the newest event of each key of a keyed topic.
 *
 * ```jsx
 * const { map, isWhole } = useKeyed("cars", { keys: ["c7", "c9"] });
 * return [...map].map(([key, car]) => <Car key={key} {...car} />);
 * ```
 *
 * @param topic - without a topic, the hook subscribes to nothing.
 */
export function useKeyed<T = unknown>(topic: string | null | undefined, options: UseKeyedOptions = {}): TopicMap<T> {
  const snapshot = useSnapshot(topic, true, 1, options);
  return useMemo(() => {
    const { map, isWhole } = snapshot;
    return { ...stateOf(snapshot), map: map as ReadonlyMap<string, T>, isWhole };
  }, [snapshot]);
}

/**
 * Returns the subscribers of a topic. The server must publish them: see its setting `presence`. A component that is to be listed
 * itself also reads the topic.
 *
 * ```jsx
 * const { members } = usePresence("rooms/7");
 * return members.map(({ key, user, info }) => <li key={key}>{user ?? info.name}</li>);
 * ```
 *
 * @param topic - the topic whose subscribers are listed; the hook reads `presence/TOPIC`.
 */
export function usePresence<Info = unknown>(
  topic: string | null | undefined,
  options: UseKeyedOptions = {},
): Presence<Info> {
  const keyed = useKeyed<Omit<PresentMember<Info>, "key"> | number>(topic && `presence/${topic}`, options);
  return useMemo(() => {
    const { map, ...state } = keyed;
    const members = [...map].flatMap(([key, member]) => (typeof member === "number" ? [] : [{ key, ...member }]));
    const count = map.get("count");
    return { ...state, members, count: typeof count === "number" ? count : members.length };
  }, [keyed]);
}

function useLive(): Live {
  const live = useContext(Context);
  if (!live) throw new Error("hooks of thalweg/react need a <SessionProvider> above the component");
  return live;
}

function useSnapshot(
  topic: string | null | undefined,
  isMap: boolean,
  keep: number,
  { from, initial, interval, keys, policy, prefix }: UseTopicOptions,
): Snapshot {
  const live = useLive();
  // Each rendering may pass another array with the same keys.
  const names = keys && [...new Set(keys)].sort();
  const subject = JSON.stringify([topic, names, prefix]);
  // The server has rendered these events for the topic and the filter that they came with.
  const rendered = useMemo(() => subject, [initial]);
  const reader = useMemo(() => {
    const terms = { from, interval, keys: names, policy, prefix } as Spec["terms"];
    return live.reader(
      topic ? { topic, isMap, keep, terms, initial: rendered === subject ? initial : undefined } : null,
    );
    // Each rendering may pass another start, such as the time ten minutes ago.
  }, [live, subject, isMap, keep, interval, policy]);
  return useSyncExternalStore(reader.subscribe, reader.snapshot, reader.initial);
}

function stateOf({ status, gap, before, error, position }: Snapshot, cut = 0): TopicState {
  return { status, gap: before < cut ? null : gap, error, position };
}
