//! The answers of the demo, in the order of the page's buttons.

/// Texts about positions, reconnecting, slow readers, and other readers.
pub(super) const TEXTS: [&str; 4] = [
    "Every event of a topic has a number, its offset. The first event has the offset 1, and each later one \
     the next number. A position is an offset together with an epoch, which names one life of the topic. \
     Your browser keeps the position of the last event that it received. When the connection breaks, it \
     opens another one and sends this position, and the server continues with the next event. Therefore no \
     event comes twice, and none is lost without notice. If the server no longer has some of the events, it \
     first sends a gap, which says why, and how many are missing if it knows. Each word that you read here \
     is such an event. Reload the page in the middle of this answer: your browser then reads the topic from \
     its beginning, and the other words follow as the server writes them. The server keeps the words, and \
     you keep the position.",
    "Kill the connection, and watch the numbers. Your browser connects again after a short random delay, \
     which grows with each failure, so that many browsers do not return at the same moment. The new \
     connection names each topic with the position of its last event. The server first sends the events that \
     came in between, from its history, and then new ones. If something on the way blocks WebSockets, the \
     browser tries HTTP streaming, then server-sent events, and in the end long polling, which passes almost \
     everywhere. A position means the same on each of them. A connection can also die in silence, for \
     example when a phone changes its network. The server therefore sends a heartbeat when it has nothing \
     else to send. If two heartbeats are missing, the browser gives the connection up and opens another \
     one. Publishers retry, too, and an idempotency key keeps the server from adding an event twice.",
    "The server has no queue for you. It keeps the newest events of each topic once, in its history, and \
     your connection is only a position in that history. If your network is slow, your position falls \
     behind, while other readers continue at full speed. Waiting events are sent together as soon as your \
     connection takes them. If you are so far behind that the history no longer has your next event, the \
     server tells you about the gap, and continues in the middle of the history. A connection that takes \
     almost nothing for thirty seconds is closed, because its buffers cost memory. The memory of a server \
     depends on its topics and connections, and not on the speed of its readers. You can also choose to be \
     slow: a subscription with an interval of one second gets the events of each second in one message.",
    "Everyone who knows its name and may subscribe to it. The address of this page ends with a random name \
     of twelve characters, and the answer is a topic with this name. Open the address in a second tab or in \
     another browser: the new reader begins with the first word, catches up at once, and then gets each new \
     word at the same time as you. The same bytes go to all readers. Nobody needs the page that asked. Close \
     it, and the server still writes the answer to its end. If the server has a data directory, the words \
     even survive when its process is killed: after the start, it finds the last word in the topic and \
     continues with the next one. A name that is hard to guess is no protection, however. A server in \
     production gives each user a token, which lists the topics that this user may read and publish to.",
];
