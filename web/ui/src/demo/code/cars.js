export function cars(session, show) {
  const options = { from: { newest: 100 } };
  session.subscribe("car-positions", options, ({ events }) => {
    for (const [, car, x, y, kmh] of events) show(car, x, y, kmh);
  });
}
