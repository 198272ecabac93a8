/** Finds a topic in a list that is too long for the menu. */

import { useEffect, useState } from "preact/hooks";
import { counted } from "../format.js";
import { COUNTED_MAX, PAGE } from "./topics.js";

/** Pause in typing after which the search starts, ms. */
const TYPED_MS = 250;

/** The state of the list whose beginning the menu shows. */
export interface Search {
  readonly prefix: string;
  /** Number of topics in the menu. */
  readonly shown: number;
  /** Number of topics on the server; `null` while they are counted. */
  readonly total: { readonly count: number; readonly isAll: boolean } | null;
  readonly isMore: boolean;
  /** Whether the server lists topics to this reader. */
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
  // The search field stays after "Show more".
  if (isListed && !isMore && shown <= PAGE && !prefix && !text) return null;
  return (
    <>
      <label>
        Find by name
        <input
          type="search"
          value={text}
          placeholder={isListed ? "prefix or full name" : "full name"}
          title="Press Enter to open the topic with exactly this name"
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

/** Returns `1,000 of 23,456 topics`. */
function summary({ prefix, shown, total, isMore }: Search): string {
  const such = prefix ? ` that begin with ${prefix}` : "";
  if (!isMore) return `${counted(shown, "topic")}${such}`;
  if (!total) return `${counted(shown, "topic")}${such}, and more`;
  const all = total.isAll ? "" : "over ";
  return `${shown.toLocaleString("en")} of ${all}${counted(total.isAll ? total.count : COUNTED_MAX, "topic")}${such}`;
}
