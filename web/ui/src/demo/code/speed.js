export function speed(session, show) {
  const options = { from: { newest: 60 } };
  session.subscribe("max-speed", options, ({ events }) => {
    for (const [time, kmh] of events) show(Date.parse(time), kmh);
  });
}
