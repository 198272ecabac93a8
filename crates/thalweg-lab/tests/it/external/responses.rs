//! Answers of a language model: one request after the other on each connection.

use super::server::{Peer, script, serve};
use super::{SSE, chunk, received_in, typed, visit_for};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_lab::measure::{Received, Responses};
use thalweg_lab::scenario::Typed;
use thalweg_testing::undisturbed;

const FIRST_AFTER: Duration = Duration::from_millis(30);
const APART: Duration = Duration::from_millis(10);

fn ask(url: String) -> Typed {
    Typed { dialect: Some("llm-stream".to_owned()), ..typed(url) }
}

fn visited(typed: &Typed) -> (Received, Responses) {
    let received = received_in(visit_for(typed, 2, 20, 500));
    let responses = received.responses.expect("responses");
    (received, responses)
}

/// Streams three pieces and the mark of the end.
fn answer(peer: &mut Peer) -> io::Result<()> {
    peer.say(&format!("{SSE}Transfer-Encoding: chunked\r\n\r\n"))?;
    thalweg_testing::let_pass(FIRST_AFTER);
    for piece in ["{\"a\":1}", "{\"a\":2}", "[DONE]"] {
        peer.say(&chunk(&format!("data: {piece}\n\n")))?;
        thalweg_testing::let_pass(APART);
    }
    peer.say("0\r\n\r\n")
}

#[test]
fn requests_follow_each_other_and_their_times_are_measured() {
    undisturbed(|| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let bodies = Arc::clone(&asked);
        let address = serve(script(move |mut peer| {
            let length = peer.header("Content-Length").parse().map_err(io::Error::other)?;
            let mut body = vec![0; length];
            peer.socket.read_exact(&mut body)?;
            let request = format!(
                "{} {} {}",
                peer.head.lines().next().unwrap_or_default(),
                peer.header("Content-Type"),
                body.escape_ascii()
            );
            bodies.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            answer(&mut peer)
        }));
        let typed = Typed {
            body: Some("prompt of {token}".to_owned()),
            tokens: Some(vec!["a".to_owned(), "the second".to_owned()]),
            ..ask(format!("http://{address}/chat"))
        };
        let (received, responses) = visited(&typed);
        assert_eq!((received.refused.count, received.ended_early.count), (0, 0), "{received:?}");
        assert!(responses.completed > 4, "{responses:?}");
        // The mark of the end is no event.
        assert_eq!(received.payload_bytes, received.events * 7);
        let (first, total) = (responses.first_event.unwrap(), responses.total.unwrap());
        // Histograms are exact to three digits; a sleep is not shorter than it should be.
        assert!(first.p50_us >= 29_900 && total.p50_us >= 49_800, "{responses:?}");
        assert!(first.max_us <= received.span_us && first.p50_us < total.p50_us, "{responses:?}");
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(asked.len() as u64 >= responses.completed);
        asked.sort();
        asked.dedup();
        let request = |token| format!("POST /chat HTTP/1.1 application/json prompt of {token}");
        assert_eq!(asked, [request("a"), request("the second")]);
    });
}

#[test]
fn the_mark_of_the_end_completes_a_response_without_an_end() {
    undisturbed(|| {
        let address = serve(script(|mut peer| {
            peer.say(&format!("{SSE}\r\ndata: 1\n\ndata: [DONE]\n\n"))?;
            thalweg_testing::let_pass(APART);
            Ok(())
        }));
        let (received, responses) = visited(&ask(format!("http://{address}/")));
        assert!(responses.completed > 4, "{responses:?}");
        assert_eq!(received.ended_early.count, 0, "{received:?}");
    });
}

#[test]
fn a_user_thinks_before_the_next_request() {
    undisturbed(|| {
        let address = serve(script(|mut peer| answer(&mut peer)));
        let thinks =
            Typed { think_us: Some((200_000, 300_000)), ..ask(format!("http://{address}/")) };
        let (_, responses) = visited(&thinks);
        // Each takes a quarter of a second, on two connections, for half a second.
        assert!((1..=6).contains(&responses.completed), "{responses:?}");
    });
}

#[test]
fn the_load_continues_after_refusals_and_cut_answers() {
    undisturbed(|| {
        let address = serve(script(|mut peer| match peer.number % 4 {
            2 => peer.say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nbusy\n"),
            3 => peer.say(&format!("{SSE}Transfer-Encoding: chunked\r\n\r\n{}", chunk("data"))),
            _ => answer(&mut peer),
        }));
        let (received, responses) = visited(&ask(format!("http://{address}/")));
        assert!(responses.completed > 1, "{received:?}");
        assert!(received.refused.count > 0 && received.ended_early.count > 0, "{received:?}");
        assert_eq!(received.refused.first[0].0, "503 Service Unavailable: busy");
    });
}
