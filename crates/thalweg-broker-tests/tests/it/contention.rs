//! Servers of one process share the broker in memory.

use std::{sync::mpsc::channel, thread, time::Duration};

use thalweg_broker::{Append, Broker, Content};
use thalweg_broker_tests::memory::Streams;
use thalweg_testing::receive;
use thalweg_wire::Offset;
use tokio::runtime::Builder;

use crate::PATTERNS;

const SERVERS: usize = 8;
const APPENDS: usize = 50_000;

/// A pause behind an offset that no record has, so that nothing is stored.
fn refused() -> (Append, Offset) {
    let (topic, content) = ("log/a".parse().expect("a topic"), Content::Paused(300));
    (Append { stream: 0, topic, content, key: None, waited: Duration::ZERO }, Offset::MAX)
}

#[test]
fn servers_that_append_at_once_do_not_wait_for_each_other() {
    let streams = Streams::new(&PATTERNS);
    let (done, ended) = channel();
    for _ in 0..SERVERS {
        let (broker, done) = (streams.broker(), done.clone());
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                let conditional = broker.compare_and_set().expect("it can");
                for _ in 0..APPENDS {
                    let (append, newest) = refused();
                    let _ = conditional.append_after(append, newest).await;
                }
            });
            done.send(()).expect("the test waits");
        });
    }
    for _ in 0..SERVERS {
        assert_eq!(receive(&ended, "a server that appends"), Some(()));
    }
}
