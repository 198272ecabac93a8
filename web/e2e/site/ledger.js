/** Checks numbered events: each number is one more than the previous one, or than the last one of an announced gap. Pure. */

/** Number of recorded faults; one is already too many. */
const FAULTS_MAX = 20;

export function ledger() {
  return { count: 0, batches: 0, first: null, last: null, next: null, faults: [], gaps: [], schemas: [], statuses: [] };
}

/** The number of an event: the event itself, the first column of a row, or a member of a dummy event. */
function number(event) {
  return typeof event === "object" ? (event[0] ?? event.seq) : event;
}

export function enter(book, { events, gap }) {
  book.batches += 1;
  if (gap) {
    book.gaps.push(gap);
    book.next = gap.missed === null || book.next === null ? null : book.next + gap.missed;
  }
  for (const event of events) {
    const came = number(event);
    if (book.next !== null && came !== book.next && book.faults.length < FAULTS_MAX) {
      book.faults.push({ expected: book.next, came });
    }
    book.first ??= came;
    book.last = came;
    book.next = came + 1;
    book.count += 1;
  }
}
