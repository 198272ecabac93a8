/** The form for a query, and the server's answer. */

import { useEffect, useRef, useState } from "preact/hooks";
import { askForToken, problemOf } from "../server.js";
import { write } from "./address.js";
import { type AdHocQuery, type Example, explain, type Mistake, mistake, Refused, topicOf } from "./query.js";

interface Props {
  readonly isOpen: boolean;
  /** The query that the page opens with. It runs at once. */
  readonly first: string | null;
  readonly examples: readonly Example[];
  show(query: AdHocQuery): void;
  /** Called when the first query fails. */
  fail(): void;
}

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
  /** Number of the last request. Answers to earlier requests are ignored. */
  const requests = useRef(0);

  const ask = async (query: string, isExplained: boolean): Promise<void> => {
    const number = ++requests.current;
    const take = (answer: Answer | null): void => {
      if (number === requests.current) setAnswer(answer);
    };
    try {
      if (isExplained) return take({ explained: await explain(query) });
      const topic = await topicOf(query);
      take(null);
      if (number === requests.current) show({ query, topic });
    } catch (error) {
      const { text } = problemOf(error);
      const isRefused = error instanceof Refused;
      take({
        // A message that begins with a name from the query keeps the name's case.
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
    // The field gets the focus only when the reader opens it, and not when a link opens the page.
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
        <button type="submit" class="primary" title="Shortcut: Ctrl+Enter">
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
            // The page restarts with the token, and with the query in its address.
            history.replaceState(null, "", write({ topic: null, view: null, query: text }));
            askForToken();
          }}
        />
      )}
      {answer && "explained" in answer && <pre aria-label="Query plan">{answer.explained}</pre>}
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
          Enter a token
        </button>
      )}
    </div>
  );
}
