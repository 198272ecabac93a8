/** Checks the events of every connection: events are numbered, and each number must be one more than the previous one. Pure. */

class Ledger {
  constructor() {
    this.counts = { delivered: 0, missing: 0, duplicated: 0, corrupt: 0, gaps: 0, cut: 0 };
    /** The next expected number, by connection. The first event sets it. @type {number[]} */
    this.next = [];
  }

  /**
   * Records events with consecutive numbers. @param {number} connection @param {number} first
   * @param {number} last - less than `first` without events. @returns {number} the number of new events.
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
   * Records events that the subject reported as lost, up to this number.
   * @param {number} connection @param {number} [last] - if missing, the next event sets the number.
   */
  gap(connection, last) {
    this.counts.gaps += 1;
    if (last === undefined) delete this.next[connection];
    else this.next[connection] = last + 1;
  }

  /** Records an invalid message, or one with wrong contents. */
  corrupt() {
    this.counts.corrupt += 1;
  }

  /** Records a connection that ended on its own. */
  cut() {
    this.counts.cut += 1;
  }
}
