/**
 * What every connection got, against what it should have got: events are numbered, and each
 * is to be one more than the one before it. Pure.
 */

class Ledger {
  constructor() {
    this.counts = { delivered: 0, missing: 0, duplicated: 0, corrupt: 0, gaps: 0, cut: 0 };
    /**
     * By connection, the number that must come next; whichever comes first begins.
     * @type {number[]}
     */
    this.next = [];
  }

  /**
   * Events of consecutive numbers came on a connection.
   * @param {number} connection
   * @param {number} first
   * @param {number} last - less than `first` if there are none.
   * @returns {number} how many of them are new.
   */
  arrived(connection, first, last) {
    const next = this.next[connection] ?? first;
    if (first > next) this.counts.missing += first - next;
    const repeated = Math.max(0, Math.min(last + 1, next) - first);
    const fresh = Math.max(0, last + 1 - first - repeated);
    this.counts.duplicated += repeated;
    this.counts.delivered += fresh;
    this.next[connection] = Math.max(next, last + 1);
    return fresh;
  }

  /**
   * Events up to this number will not come, and the subject has said so.
   * @param {number} connection
   * @param {number} [last] - without it, whichever comes next is taken for the next.
   */
  gap(connection, last) {
    this.counts.gaps += 1;
    if (last === undefined) delete this.next[connection];
    else this.next[connection] = last + 1;
  }

  /** Something that is none of the wire, or has other contents than it says. */
  corrupt() {
    this.counts.corrupt += 1;
  }

  /** A connection ended by itself. */
  cut() {
    this.counts.cut += 1;
  }
}
