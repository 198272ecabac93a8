/**
 * Consumers of messages. Each consumer enters the events of a connection in the ledger, and reads one column of every
 * row, or every value.
 *
 * - `raw`: no parsing; positions are found in the first bytes
 * - `rows`, `rows-every-value`: JSON, an array for each row
 * - `columns`: JSON, an object of arrays for each batch
 *
 * Rows arrive in Thalweg's envelope, alone (`raw`: the message is an array of rows), or parsed by a client's library
 * (`socketio`).
 *
 * @typedef {{ events: number, dueUs: number }} Taken - the number of new events, and the due time of the first one, µs
 *   of the machine's monotonic clock.
 * @typedef {(connection: number, message: any) => Taken} Consumer - takes a message's text, or rows.
 */

/** Number of characters that contain an envelope's head, with the number and the due time of its first row. */
const HEAD_MAX = 400;
/** A gap: events up to this position are lost. */
const GAP = /^\{"topic":"[^"]*","position":"[0-9a-f]+\.(\d+)","gap":/;
const HEAD =
  /^\{"topic":"[^"]*","position":"[0-9a-f]+\.(\d+)","first":(\d+),(?:"after":\d+,)?"events":(?:\[\[\d+,(\d+))?/;
/** Messages without events. */
const OTHER = /^\{"(?:heartbeat|close|answer)":/;
const NOTHING = { events: 0, dueUs: 0 };
/** The column that is read: a number. */
const READ = 4;

/** @param {Ledger} ledger @param {string} dialect - the subject's. @returns {Record<string, Consumer>} by name. */
function consumers(ledger, dialect) {
  /** Difference between the rows' own numbers and their offsets, by connection. @type {number[]} */
  const shifts = [];
  let sum = 0;

  /** @type {Consumer} */
  const raw = (connection, message) => {
    const start = message.slice(0, HEAD_MAX);
    const head = HEAD.exec(start);
    if (head) {
      const [, last, first, due] = head;
      return { events: ledger.arrived(connection, Number(first), Number(last)), dueUs: Number(due ?? 0) };
    }
    return special(connection, start);
  };

  /** @param {number} connection @param {string} start @param {boolean} [isNumbered] - the rows' numbers are offsets. */
  const special = (connection, start, isNumbered = true) => {
    const gap = GAP.exec(start);
    if (gap) ledger.gap(connection, isNumbered ? Number(gap[1]) : undefined);
    else if (start !== "" && !OTHER.test(start)) ledger.corrupt();
    return NOTHING;
  };

  /**
   * @param {number} connection @param {string} message @param {boolean} isNumbered
   * @returns {any} the envelope, if it has events.
   */
  const parsed = (connection, message, isNumbered) => {
    const envelope = JSON.parse(message);
    if (!envelope.events) {
      special(connection, message.slice(0, HEAD_MAX), isNumbered);
      return null;
    }
    if (envelope.events.length > 0) return envelope;
    // No event may be missing after the start of the subscription.
    if (isNumbered) ledger.arrived(connection, envelope.first, envelope.first - 1);
    return null;
  };

  /**
   * @param {number} connection @param {any[]} rows @param {number} first - offset of the first row.
   * @param {number} last - offset of the last row. @param {(row: any[]) => number} read - reads a row.
   */
  const entered = (connection, rows, first, last, read) => {
    for (const row of rows) sum += read(row);
    const shift = (shifts[connection] ??= rows[0][0] - first);
    const isWhole =
      rows.length === last - first + 1 && rows[0][0] === first + shift && rows[rows.length - 1][0] === last + shift;
    if (!isWhole) {
      ledger.corrupt();
      return NOTHING;
    }
    return { events: ledger.arrived(connection, first, last), dueUs: rows[0][1] };
  };

  /** Returns a consumer of JSON rows. @param {(row: any[]) => number} read @returns {Consumer} */
  const rows = (read) => (connection, message) => {
    const envelope = parsed(connection, message, true);
    return envelope ? entered(connection, envelope.events, envelope.first, offset(envelope), read) : NOTHING;
  };

  /**
   * Returns a consumer of rows without an envelope. The rows' own numbers are their offsets.
   * @param {(message: any) => any[]} rowsOf @param {(row: any[]) => number} read @returns {Consumer}
   */
  const alone = (rowsOf, read) => (connection, message) => {
    const rows = rowsOf(message);
    return entered(connection, rows, rows[0][0], rows[rows.length - 1][0], read);
  };

  /** @param {{ position: string }} envelope */
  const offset = ({ position }) => Number(position.slice(position.indexOf(".") + 1));

  const oneValue = (/** @type {any[]} */ row) => row[READ];
  if (dialect === "raw" || dialect === "socketio") {
    const rowsOf = dialect === "raw" ? rowsOfLines : (/** @type {any[]} */ rows) => rows;
    return { rows: alone(rowsOf, oneValue), "rows-every-value": alone(rowsOf, valuesOf) };
  }
  return {
    raw,

    rows: rows(oneValue),

    "rows-every-value": rows(valuesOf),

    columns(connection, message) {
      const envelope = parsed(connection, message, false);
      if (!envelope) return NOTHING;
      let fresh = 0;
      for (const { column0: seq, column4: read } of envelope.events) {
        for (const value of read) sum += value;
        const [first, last] = [seq[0], seq[seq.length - 1]];
        if (seq.length !== last - first + 1 || read.length !== seq.length) ledger.corrupt();
        else fresh += ledger.arrived(connection, first, last);
      }
      return { events: fresh, dueUs: envelope.events[0].column1[0] };
    },
  };
}

/** Parses an array of rows, or several arrays separated by line feeds. @param {string} message @returns {any[]} */
function rowsOfLines(message) {
  if (!message.includes("\n")) return JSON.parse(message);
  return message.split("\n").flatMap((line) => JSON.parse(line));
}

/** Adds up all values (for a text, its length), so that each is read. @param {ArrayLike<any>} values - a row or column. */
function valuesOf(values) {
  let sum = 0;
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    sum += typeof value === "string" ? value.length : Number(value);
  }
  return sum;
}

/** Adds up a column of numbers. @param {ArrayLike<number>} values */
function sumOf(values) {
  let sum = 0;
  for (let index = 0; index < values.length; index++) sum += /** @type {number} */ (values[index]);
  return sum;
}

/**
 * Splits a streamed body into lines without parsing them: only the first bytes of each line become text.
 * @param {(message: string, bytes: number) => void} onLine @returns {(bytes: Uint8Array) => void}
 */
function rawLines(onLine) {
  const decoder = new TextDecoder();
  let start = "";
  let length = 0;
  return (bytes) => {
    let begin = 0;
    for (;;) {
      const end = bytes.indexOf(10, begin);
      const until = end < 0 ? bytes.length : end;
      if (start.length < HEAD_MAX) {
        // ASCII: each byte is a character.
        start += decoder.decode(bytes.subarray(begin, Math.min(until, begin + HEAD_MAX - start.length)));
      }
      length += until - begin;
      if (end < 0) return;
      onLine(start, length);
      start = "";
      length = 0;
      begin = end + 1;
    }
  };
}
