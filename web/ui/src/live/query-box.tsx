/** Where a query is written, and what the server says of it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { askForToken, problemOf } from "../server.js";
import { write } from "./address.js";
import { type Asked, type Example, explain, type Mistake, mistake, Refused, topicOf } from "./query.js";

interface Props {
  readonly isOpen: boolean;
  /** What it opens with, and runs at once. */
  readonly first: string | null;
  readonly examples: readonly Example[];
  /** A query runs. */
  show(asked: Asked): void;
  /** The one that it has opened with does not. */
  fail(): void;
}

/** What came of the query. */
type Answer = { readonly explained: string } | Failure;

interface Failure {
  /** A sentence without its full stop. */
  readonly text: string;
  readonly mistake: Mistake | null;
  readonly needsToken: boolean;
}

export function QueryBox({ isOpen, first, examples, show, fail }: Props) {
  const [text, setText] = useState(first ?? "");
  const [answer, setAnswer] = useState<Answer | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  /** Whoever asks again is not told what came before. */
  const asked = useRef(0);

  const ask = async (query: string, isExplained: boolean): Promise<void> => {
    const number = ++asked.current;
    const take = (answer: Answer | null): void => {
      if (number === asked.current) setAnswer(answer);
    };
    try {
      if (isExplained) return take({ explained: await explain(query) });
      const topic = await topicOf(query);
      take(null);
      if (number === asked.current) show({ query, topic });
    } catch (error) {
      const { text } = problemOf(error);
      const isRefused = error instanceof Refused;
      take({
        // A name stays as it is, also where a sentence begins with it.
        text: isRefused && query.includes(error.message.split(" ")[0] as string) ? error.message : text,
        mistake: mistake(query, text),
        needsToken: isRefused && error.status === 401,
      });
      fail();
    }
  };
  const run = (query: string): void => void ask(query, /^\s*explain\b/i.test(query));

  const wasOpen = useRef(isOpen);
  useEffect(() => {
    if (first) run(first);
  }, []);
  useEffect(() => {
    // Not when the page has opened with it: whoever follows a link wants to see what comes.
    if (isOpen && !wasOpen.current) field.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);

  const failure = answer && "text" in answer ? answer : null;
  return (
    <form
      id="query"
      class="query"
      hidden={!isOpen}
      onSubmit={(event) => {
        event.preventDefault();
        run(text);
      }}
    >
      <label for="query-text">Query</label>
      <textarea
        id="query-text"
        ref={field}
        rows={3}
        required
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        placeholder="SELECT … FROM …"
        value={text}
        aria-invalid={failure !== null}
        aria-describedby={failure ? "query-failure" : undefined}
        aria-keyshortcuts="Control+Enter Meta+Enter"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
      />
      <div class="controls">
        <button type="submit" class="primary" title="Ctrl+Enter does the same">
          Run
        </button>
        <button type="button" disabled={!text.trim()} onClick={() => void ask(text, true)}>
          Explain
        </button>
        {examples.length > 0 && (
          <select
            aria-label="Examples"
            value=""
            onChange={({ currentTarget }) => {
              const query = examples[currentTarget.selectedIndex - 1]?.query ?? "";
              currentTarget.selectedIndex = 0;
              setText(query);
              run(query);
            }}
          >
            <option value="">Examples</option>
            {examples.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </div>
      {failure && (
        <Wrong
          failure={failure}
          presentToken={() => {
            // The page begins anew with the token, and with what is in its address.
            history.replaceState(null, "", write({ topic: null, view: null, query: text }));
            askForToken();
          }}
        />
      )}
      {answer && "explained" in answer && <pre aria-label="What it does">{answer.explained}</pre>}
    </form>
  );
}

interface WrongProps {
  readonly failure: Failure;
  presentToken(): void;
}

function Wrong({ failure: { text, mistake, needsToken }, presentToken }: WrongProps) {
  return (
    <div class="wrong">
      {mistake && (
        <pre>
          {mistake.before}
          <mark>{mistake.word}</mark>
          {mistake.after}
        </pre>
      )}
      <p id="query-failure" role="alert">
        {text}.
      </p>
      {needsToken && (
        <button type="button" onClick={presentToken}>
          Present a token
        </button>
      )}
    </div>
  );
}
