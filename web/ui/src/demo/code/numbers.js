export function numbers(session, seen) {
  session.subscribe("demo/numbers", {}, ({ events, gap }) => {
    if (gap?.missed === null) [seen.last, seen.lost] = [0, Number.NaN];
    for (const { seq } of events) {
      if (seen.last && seq > seen.last) seen.lost += seq - seen.last - 1;
      if (seq > 1 && seq <= seen.last) seen.repeated += 1;
      [seen.last, seen.received] = [seq, seen.received + 1];
    }
  });
}
