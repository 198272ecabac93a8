use std::{
    collections::{HashMap, HashSet},
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use thalweg_client::{Client, Options, Position, StartAt, Subscribe, Transport, Update};

use super::nodes::{Addresses, Nodes};
use crate::harness::DEADLINE;

const TOPIC: &str = "cars";

/// Half of them publish with keys, and repeat what was not answered.
const PUBLISHERS: usize = 4;

/// One for each transport.
const SUBSCRIBERS: usize = Transport::ALL.len();

/// An event: its publisher, and its number there.
type Event = (usize, u64);

/// What a publisher was told of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Its offset.
    Stored(u64),
    /// That it is not stored.
    NotStored,
    /// Nothing, or that nobody knows.
    Unknown,
}

/// Publishers and subscribers, each of which goes from node to node.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    told: Arc<Mutex<HashMap<Event, Told>>>,
    publishers: Vec<JoinHandle<()>>,
    subscribers: Vec<JoinHandle<Vec<(u64, Event)>>>,
}

impl Load {
    pub(super) fn start(nodes: &Nodes) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::<Mutex<HashMap<Event, Told>>>::default();
        // From where on all subscribers must have everything.
        let (_, begin) = post(nodes.addresses().any(), "[9,0]", None).expect("a node");
        let begin = position_of(&begin).expect("a position");
        let publishers = (0..PUBLISHERS).map(|number| {
            let (nodes, is_over, told) =
                (nodes.addresses(), Arc::clone(&is_over), Arc::clone(&told));
            thread::spawn(move || publish(&nodes, number, &is_over, &told))
        });
        let subscribers = Transport::ALL.map(|transport| {
            let nodes = nodes.addresses();
            thread::spawn(move || subscribe(&nodes, transport, begin))
        });
        let (publishers, subscribers) = (publishers.collect(), subscribers.into());
        Self { is_over, told, publishers, subscribers }
    }

    /// Ends it, and checks what each subscriber got. Returns how many publishes nobody knows of.
    pub(super) fn end(self, nodes: &Nodes) -> usize {
        self.is_over.store(true, Relaxed);
        self.publishers.into_iter().for_each(|it| it.join().expect("a publisher"));
        nodes.await_ready();
        let heard: Vec<_> =
            self.subscribers.into_iter().map(|it| it.join().expect("a subscriber")).collect();
        let told = self.told.lock().expect("what was told");
        for of_one in &heard {
            check(of_one, &told);
        }
        let count = |is: fn(&Told) -> bool| told.values().filter(|told| is(told)).count();
        let stored = count(|told| matches!(told, Told::Stored(_)));
        let unknown = count(|told| *told == Told::Unknown);
        let not = count(|told| *told == Told::NotStored);
        println!("{stored} stored, {not} not, {unknown} unknown, to {SUBSCRIBERS} subscribers");
        assert!(stored > 100, "a load");
        unknown
    }
}

/// Everything that was answered, once, in each publisher's order, where the answer said.
fn check(heard: &[(u64, Event)], told: &HashMap<Event, Told>) {
    let mut last = HashMap::new();
    let mut seen = HashSet::new();
    for (offset, event) in heard {
        assert!(seen.insert(*event), "{event:?} twice");
        let Some(Told::Stored(stored)) = told.get(event) else { continue };
        assert_eq!(offset, stored, "{event:?} is elsewhere");
        let (publisher, number) = *event;
        let before = last.insert(publisher, number);
        assert!(before.is_none_or(|before| before < number), "{event:?} after {before:?}");
    }
    for (event, told) in told {
        match told {
            Told::Stored(_) => assert!(seen.contains(event), "{event:?} was answered, and is lost"),
            Told::NotStored => assert!(!seen.contains(event), "{event:?} was not to be stored"),
            Told::Unknown => {}
        }
    }
}

/// Publishes until it is over, and then one event that ends it, for sure.
fn publish(
    nodes: &Addresses,
    publisher: usize,
    is_over: &AtomicBool,
    told: &Mutex<HashMap<Event, Told>>,
) {
    let has_keys = publisher.is_multiple_of(2);
    for number in 0.. {
        let is_last = is_over.load(Relaxed);
        let number = if is_last { u64::MAX } else { number };
        let event = format!("[{publisher},{number}]");
        let key = (has_keys || is_last).then(|| format!("{publisher}-{number}"));
        let result = loop {
            let result = match post(nodes.any(), &event, key.as_deref()) {
                Ok((200, body)) => Told::Stored(position_of(&body).expect("a position").offset),
                Ok((503, body)) if body.contains("\"unknown\"") => Told::Unknown,
                Ok((503, _)) => Told::NotStored,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Told::NotStored,
                Err(_) => Told::Unknown,
                Ok((status, body)) => panic!("{status} {body}"),
            };
            if key.is_none() || matches!(result, Told::Stored(_)) {
                break result;
            }
            thread::sleep(Duration::from_millis(20));
        };
        told.lock().expect("what was told").insert((publisher, number), result);
        if is_last {
            return;
        }
    }
}

/// A publish, answered or not.
fn post(node: SocketAddr, event: &str, key: Option<&str>) -> std::io::Result<(u16, String)> {
    let mut socket = TcpStream::connect(node)?;
    socket.set_read_timeout(Some(DEADLINE))?;
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /v1/topics/{TOPIC} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{event}",
        event.len()
    );
    socket.write_all(request.as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(cut)?, body.to_owned()))
}

fn position_of(body: &str) -> Option<Position> {
    let answer: serde_json::Value = serde_json::from_str(body).ok()?;
    answer["position"].as_str()?.parse().ok()
}

/// Hears everything from `begin` on, until each publisher has ended; goes to another node
/// whenever it loses one, and now and then without a reason.
fn subscribe(nodes: &Addresses, transport: Transport, begin: Position) -> Vec<(u64, Event)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (mut at, mut heard, mut ended) = (begin, Vec::new(), HashSet::new());
        while ended.len() < PUBLISHERS {
            let url = format!("http://{}", nodes.any());
            let client = Client::new(&url, Options::default()).expect("a client");
            let topic = TOPIC.parse().expect("a topic");
            let from = StartAt::After(at);
            let subscribe = Subscribe { from, transport: Some(transport), ..Subscribe::default() };
            let mut subscription = client.subscribe(vec![topic], subscribe).expect("a topic");
            while ended.len() < PUBLISHERS {
                match tokio::time::timeout(DEADLINE, subscription.next()).await {
                    Ok(Ok(Update::Events(events))) => {
                        for (offset, event) in events.iter() {
                            assert!(offset > at.offset, "{offset} again, over {transport:?}");
                            let event: Event = serde_json::from_str(event).expect("an event");
                            if event.1 == u64::MAX {
                                ended.insert(event.0);
                            }
                            heard.push((offset, event));
                            at.offset = offset;
                        }
                        if fastrand::u8(..) < 2 {
                            break;
                        }
                    }
                    Ok(Ok(Update::Connected(_))) => {}
                    Ok(Ok(Update::Gap(gap))) => panic!("{gap:?} over {transport:?}"),
                    Ok(_) => break,
                    Err(_) => panic!("{transport:?} waits for events in vain at {at}"),
                }
            }
        }
        heard
    })
}
