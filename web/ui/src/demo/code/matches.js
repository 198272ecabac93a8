export function matches(session, id, show) {
  const topic = id ? `matchesfeed/${id}/matchcentre` : "matchesfeed/all";
  return session.subscribe(topic, {}, ({ events, gap }) => {
    // The newest version. Its unchanged parts are the same objects.
    show(events.at(-1), gap);
  });
}
