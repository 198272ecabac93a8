/** Finds a topic where the menu does not have all of them. */

import { useEffect, useState } from "preact/hooks";
import { counted } from "../format.js";
import { COUNTED_MAX, PAGE } from "./topics.js";

/** Typing that pauses for so long is acted on, ms. */
const TYPED_MS = 250;

/** What is known of the list that the menu shows the beginning of. */
export interface Search {
  /** The menu has topics whose names begin with this. */
  readonly prefix: string;
  /** How many topics the menu has. */
  readonly shown: number;
  /** How many there are; `null` while they are counted. */
  readonly total: { readonly count: number; readonly isAll: boolean } | null;
  readonly isMore: boolean;
  /** Whether the server lists its topics to the reader. */
  readonly isListed: boolean;
  narrow(prefix: string): void;
  showMore(): void;
}

interface Props {
  readonly search: Search;
  choose(topic: string): void;
}

export function TopicSearch({ search, choose }: Props) {
  const { prefix, shown, isMore, isListed, narrow, showMore } = search;
  const [text, setText] = useState(prefix);
  useEffect(() => {
    const timer = setTimeout(() => narrow(text.trim()), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  // A menu that has been made longer stays as hard to search.
  if (isListed && !isMore && shown <= PAGE && !prefix && !text) return null;
  return (
    <>
      <label>
        Find by name
        <input
          type="search"
          value={text}
          placeholder={isListed ? "begins with, or all of it" : "all of it"}
          title="Enter opens the topic of exactly this name"
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !text.trim()) return;
            event.preventDefault();
            choose(text.trim());
          }}
        />
      </label>
      {isListed && (
        <p class="total" role="status">
          {summary(search)}
          {isMore && (
            <button type="button" onClick={showMore}>
              Show more
            </button>
          )}
        </p>
      )}
    </>
  );
}

/** `1,000 of 23,456 topics`. */
function summary({ prefix, shown, total, isMore }: Search): string {
  const such = prefix ? ` beginning with ${prefix}` : "";
  if (!isMore) return `${counted(shown, "topic")}${such}`;
  if (!total) return `${counted(shown, "topic")}${such}, and more`;
  const all = total.isAll ? "" : "over ";
  return `${shown.toLocaleString("en")} of ${all}${counted(total.isAll ? total.count : COUNTED_MAX, "topic")}${such}`;
}
