/** The controls of the live page. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { duration } from "../format.js";
import type { Column } from "./columns.js";
import { LIVE_TRANSPORTS, type LiveTransport } from "./connection.js";
import type { View } from "./defaults.js";
import type { Aggregate } from "./series.js";
import { type Search, TopicSearch } from "./topic-search.js";

/** Options for the shortest time between two updates of the page, ms. */
export const PACES = [50, 100, 200, 500, 1000];
/** Options for the time window of a chart, s. */
export const WINDOWS = [10, 60, 300, 900];
const VIEWS: readonly View[] = ["document", "table", "chart", "map"];
const AGGREGATES: Record<Aggregate, string> = {
  mean: "mean, range",
  max: "max in 1 s",
  min: "min in 1 s",
};

interface SelectProps<T> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly T[];
  text(option: T): string;
  choose(option: T): void;
}

export function Select<T>({ label, value, options, text, choose }: SelectProps<T>) {
  return (
    <label>
      {label}
      <select
        value={options.indexOf(value)}
        onChange={({ currentTarget }) => choose(options[currentTarget.selectedIndex] as T)}
      >
        {options.map((option, index) => (
          <option key={text(option)} value={index}>
            {text(option)}
          </option>
        ))}
      </select>
    </label>
  );
}

interface Props {
  readonly topic: string;
  readonly topics: readonly string[];
  readonly search: Search;
  /** Whether the page shows the topic of a query. */
  readonly isQuery: boolean;
  readonly isQueryOpen: boolean;
  readonly isManaged: boolean;
  readonly transport: LiveTransport | null;
  readonly view: View;
  /** Whether the topic is a value topic. */
  readonly hasDocument: boolean;
  readonly paceMs: number;
  readonly isPaused: boolean;
  chooseTopic(topic: string): void;
  openQuery(isOpen: boolean): void;
  manage(isOpen: boolean): void;
  chooseTransport(transport: LiveTransport | null): void;
  chooseView(view: View): void;
  choosePace(paceMs: number): void;
  pause(): void;
  readonly children: ComponentChildren;
}

export function QueryButton({ isOpen, open }: { isOpen: boolean; open(isOpen: boolean): void }) {
  return (
    <button type="button" aria-expanded={isOpen} aria-controls="query" onClick={() => open(!isOpen)}>
      Query
    </button>
  );
}

export function ManageButton({ isOpen, open }: { isOpen: boolean; open(isOpen: boolean): void }) {
  return (
    <button type="button" aria-expanded={isOpen} aria-controls="manage" onClick={() => open(!isOpen)}>
      Manage
    </button>
  );
}

export function Controls(props: Props) {
  const { topic, topics, isQuery } = props;
  // The menu may have thousands of options, and the page renders several times a second.
  const menu = useMemo(
    () => (
      <Select
        label="Topic"
        value={topic}
        options={topics}
        text={(option) => (isQuery && option === topic ? "this query" : option)}
        choose={props.chooseTopic}
      />
    ),
    [topic, topics, isQuery],
  );
  return (
    <form class="controls" onSubmit={(event) => event.preventDefault()}>
      {menu}
      <TopicSearch search={props.search} choose={props.chooseTopic} />
      <QueryButton isOpen={props.isQueryOpen} open={props.openQuery} />
      <ManageButton isOpen={props.isManaged} open={props.manage} />
      <Select
        label="Transport"
        value={props.transport}
        options={LIVE_TRANSPORTS}
        text={(name) => name ?? "automatic"}
        choose={props.chooseTransport}
      />
      <fieldset class="choice">
        <legend>View</legend>
        {VIEWS.filter((name) => name !== "document" || props.hasDocument).map((name) => (
          <label key={name}>
            <input type="radio" name="view" checked={props.view === name} onChange={() => props.chooseView(name)} />
            {name}
          </label>
        ))}
      </fieldset>
      <Select
        label="Update at most every"
        value={props.paceMs}
        options={PACES}
        text={duration}
        choose={props.choosePace}
      />
      <button type="button" aria-pressed={props.isPaused} onClick={props.pause}>
        Pause
      </button>
      {props.children}
    </form>
  );
}

interface TableControlsProps {
  readonly words: string;
  readonly follows: boolean;
  readonly canFollow: boolean;
  filter(words: string): void;
  follow(follows: boolean): void;
}

export function TableControls({ words, follows, canFollow, filter, follow }: TableControlsProps) {
  return (
    <>
      <button type="button" aria-pressed={follows} disabled={!canFollow} onClick={() => follow(!follows)}>
        Follow
      </button>
      <label class="filter">
        Filter
        <input
          type="search"
          value={words}
          placeholder="words, speed_kmh>40"
          onInput={({ currentTarget }) => filter(currentTarget.value)}
        />
      </label>
    </>
  );
}

interface ChartControlsProps {
  readonly columns: readonly Column[];
  /** Names of the columns in the chart. */
  readonly drawn: readonly string[];
  readonly windowS: number;
  readonly aggregate: Aggregate;
  draw(names: readonly string[]): void;
  chooseWindow(windowS: number): void;
  chooseAggregate(aggregate: Aggregate): void;
}

export function ChartControls({ columns, drawn, draw, ...props }: ChartControlsProps) {
  return (
    <>
      <Select
        label="Aggregate"
        value={props.aggregate}
        options={Object.keys(AGGREGATES) as Aggregate[]}
        text={(aggregate) => AGGREGATES[aggregate]}
        choose={props.chooseAggregate}
      />
      <Select
        label="Time window"
        value={props.windowS}
        options={WINDOWS}
        text={(s) => duration(s * 1000)}
        choose={props.chooseWindow}
      />
      <fieldset class="choice series">
        <legend>Columns</legend>
        {columns.map(({ name }) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={drawn.includes(name)}
              onChange={({ currentTarget }) =>
                draw(currentTarget.checked ? [...drawn, name] : drawn.filter((other) => other !== name))
              }
            />
            {name}
          </label>
        ))}
      </fieldset>
    </>
  );
}
