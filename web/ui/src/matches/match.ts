/**
 * What the documents of a match feed say. They come from elsewhere: whatever is not as it should
 * be is left out, and shown as nothing. Pure.
 */

export interface Clock {
  readonly minute?: number;
  readonly second?: number;
}

/** A team, as far as the list of all matches has it. */
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

/** A match of the list. */
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

/** Topics of the feed begin with it. */
const FEED = "matchesfeed";
export const LIST_TOPIC = `${FEED}/all`;

/** The topic of one match. */
export function matchTopic(id: string): string {
  return `${FEED}/${id}/matchcentre`;
}

/** Whether a topic can be made of it. */
export function isId(id: string): boolean {
  return /^(?!\.{1,2}$)[\w.~@:|+=-]{1,64}$/.test(id);
}

/** The matches of a list; `null` if it is none. */
export function briefs(document: unknown): readonly Brief[] | null {
  const list = isObject(document) ? document["matches"] : null;
  return Array.isArray(list) ? (list.filter(isBrief) as Brief[]) : null;
}

/** A match; `null` if the document is none. */
export function match(document: unknown): Match | null {
  return isBrief(document) ? (document as unknown as Match) : null;
}

/** The objects of an array, and nothing else that there may be in its place. */
export function objects<T>(list: readonly T[] | undefined): readonly T[] {
  return Array.isArray(list) ? (list as readonly T[]).filter((it) => isObject(it)) : [];
}

/** `37:12`; before and after the match, and in between, what it is. */
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

/** Whether it is being played. */
export function isOn({ status }: Brief): boolean {
  return status === "first_half" || status === "second_half";
}

/** In words, for who cannot see the score board. */
export function score({ home, away }: Brief): string {
  return `${home.name} ${home.score ?? 0}, ${away.name} ${away.score ?? 0}`;
}

/** How a rating is coloured: whoever cannot see colours reads the figure. */
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
