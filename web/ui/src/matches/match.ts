/** The documents of a match feed. Another program publishes them, so members with a wrong type are ignored. Pure. */

export interface Clock {
  readonly minute?: number;
  readonly second?: number;
}

/** A team. The list of matches has only `id`, `name` and `score`. */
export interface Side {
  readonly id?: string;
  readonly name?: string;
  readonly score?: number;
  readonly formation?: string;
  readonly stats?: Readonly<Record<string, number>>;
}

export interface Moment {
  readonly id?: string;
  readonly minute?: number;
  readonly type?: string;
  readonly team?: string;
  readonly text?: string;
}

export interface Player {
  readonly id?: string;
  readonly team?: string;
  readonly number?: number;
  readonly name?: string;
  readonly position?: string;
  readonly starting?: boolean;
  readonly on_pitch?: boolean;
  readonly rating?: number;
  readonly stats?: Readonly<Record<string, number>>;
}

/** A match in the list. */
export interface Brief {
  readonly id: string;
  readonly home: Side;
  readonly away: Side;
  readonly status?: string;
  readonly clock?: Clock;
}

export interface Match extends Brief {
  readonly competition?: { readonly name?: string };
  readonly venue?: { readonly name?: string; readonly attendance?: number };
  /** Newest first. */
  readonly timeline?: readonly Moment[];
  readonly lineups?: readonly Player[];
  /** Newest first. */
  readonly commentary?: readonly Moment[];
}

/** The first segment of the feed's topics. */
const FEED = "matchesfeed";
export const LIST_TOPIC = `${FEED}/all`;

export function matchTopic(id: string): string {
  return `${FEED}/${id}/matchcentre`;
}

/** Returns whether a topic name may contain this id. */
export function isId(id: string): boolean {
  return /^(?!\.{1,2}$)[\w.~@:|+=-]{1,64}$/.test(id);
}

export function briefs(document: unknown): readonly Brief[] | null {
  const list = isObject(document) ? document["matches"] : null;
  return Array.isArray(list) ? (list.filter(isBrief) as Brief[]) : null;
}

export function match(document: unknown): Match | null {
  return isBrief(document) ? (document as unknown as Match) : null;
}

/** Returns the objects of an array, and drops its other elements. */
export function objects<T>(list: readonly T[] | undefined): readonly T[] {
  return Array.isArray(list) ? (list as readonly T[]).filter((item) => isObject(item)) : [];
}

/** Returns `37:12` while the match is played, otherwise a word such as `Half-time`. */
export function clock({ status, clock }: Brief): string {
  const said = STATUSES[status ?? ""];
  if (said) return said;
  const digits = (value: unknown): string => String(Number(value) || 0).padStart(2, "0");
  return `${digits(clock?.minute)}:${digits(clock?.second)}`;
}

const STATUSES: Record<string, string> = {
  scheduled: "Soon",
  half_time: "Half-time",
  full_time: "Full-time",
};

export function isOn({ status }: Brief): boolean {
  return status === "first_half" || status === "second_half";
}

/** Returns the score in words, for screen readers. */
export function score({ home, away }: Brief): string {
  return `${home.name} ${home.score ?? 0}, ${away.name} ${away.score ?? 0}`;
}

/** Returns the colour class of a rating. The figure itself is shown too. */
export function grade(rating: number): "high" | "middle" | "low" {
  return rating >= 7 ? "high" : rating >= 6 ? "middle" : "low";
}

function isBrief(document: unknown): boolean {
  return (
    isObject(document) && typeof document["id"] === "string" && isSide(document["home"]) && isSide(document["away"])
  );
}

function isSide(side: unknown): boolean {
  return isObject(side) && typeof side["name"] === "string";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
