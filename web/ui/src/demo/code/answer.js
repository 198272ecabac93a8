export function ask(session, answer, question) {
  return session.publish("demo/questions", { answer, question });
}

export function read(session, answer, show) {
  const [topic, from] = [`demo/answers/${answer}`, "earliest"];
  return session.subscribe(topic, { from }, ({ events, gap }) => {
    show(events, gap); // { index, text } for each word, then { done }
  });
}
