/**
 * Subscribes to a topic of a hub at a cursor, and resumes at the position of the last message after each reconnect of a
 * connection with `withAutomaticReconnect()`. `onMessage` gets events, gaps and the end of the topic. Returns a function
 * that unsubscribes.
 */
export function follow(connection, topic, onMessage, { cursor = "latest", onError = console.error } = {}) {
  let isOver = false;
  const take = (message) => {
    if (isOver || message.topic !== topic) return;
    onMessage(message);
    cursor = message.position ?? cursor;
  };
  const begin = () =>
    connection.invoke("Subscribe", topic, cursor).catch((error) => {
      // `onreconnected` calls this again after a reconnect. If the server is busy, try again in 2 to 5 s.
      if (isOver || connection.state !== "Connected") return;
      if (/^(busy|draining|too_many_\w+|unavailable):/.test(error.message)) setTimeout(begin, 2000 + 3000 * Math.random());
      else onError(error);
    });
  for (const name of ["Events", "Gap", "End"]) connection.on(name, take);
  connection.onreconnected(begin);
  begin();
  return () => {
    isOver = true;
    for (const name of ["Events", "Gap", "End"]) connection.off(name, take);
    return connection.invoke("Unsubscribe", topic).catch(onError);
  };
}
