//! Messages that are sent to endpoints, and their answers.

use super::server::{Peer, script, serve};
use super::{run_with, typed};
use crate::swarm::Blind;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_lab::load_generator::Outcome;
use thalweg_lab::measure::Exchanged;
use thalweg_lab::scenario::{OpeningStep, Settings, Typed};
use thalweg_testing::undisturbed;

const CONNECTIONS: u32 = 3;
const RATE: u32 = 200;

/// Sends to a server that does this with the messages of a connection, by their number.
fn send_to(
    more: Typed,
    attend: impl Fn(&mut Peer, u64, Vec<u8>) -> io::Result<()> + Send + Sync + 'static,
) -> Outcome {
    let address = serve(script(move |mut peer| {
        peer.upgrade("")?;
        for number in 0.. {
            let (first, _, message) = peer.read_frame()?;
            if first & 0x0F == 8 {
                break;
            }
            attend(&mut peer, number, message)?;
        }
        Ok(())
    }));
    let typed = Typed { url: format!("ws://{address}{}", more.url), ..more };
    let settings = Settings { connections: CONNECTIONS, rate: RATE, ..Settings::default() };
    run_with(&typed, settings, 20, 200, &mut Blind).expect("an endpoint that is sent to")
}

fn exchanged(outcome: &Outcome) -> Exchanged {
    outcome.received.as_ref().and_then(|received| received.exchanged).expect("what was sent")
}

/// As many messages as the schedule has in the span, but for those that are due at its edges.
fn assert_on_schedule(outcome: &Outcome) {
    let sent = exchanged(outcome).sent as f64;
    let due = f64::from(RATE * CONNECTIONS) * outcome.span_us as f64 / 1e6;
    assert!((sent - due).abs() <= f64::from(CONNECTIONS) + 0.1 * due, "{sent} of {due}");
}

#[test]
fn a_message_with_the_id_is_the_answer() {
    undisturbed(|| {
        let outcome = send_to(typed(String::new()), |peer, _, message| {
            assert_eq!(message.len(), Settings::default().event_bytes as usize);
            peer.frame(0x81, br#"{"said":"something else"}"#)?;
            peer.frame(0x82, &[b"you said: ", &message[..]].concat())
        });
        assert_on_schedule(&outcome);
        let Exchanged { sent, answered, unanswered, latency } = exchanged(&outcome);
        assert_eq!((answered, unanswered), (sent, 0));
        let trips = outcome.round_trips.unwrap();
        assert_eq!(trips.count, answered);
        assert!(
            latency.is_some_and(|latency| latency.max_us >= trips.max_us),
            "{latency:?} {trips:?}"
        );
        assert!(outcome.latency.quantile_us(0.5) >= Some(trips.p50_us / 2));
        assert!(outcome.pacing.is_some_and(|pacing| pacing.scheduled.abs_diff(sent) <= 1));
    });
}

/// A client that waits for an answer before its next message would never have one.
#[test]
fn messages_are_sent_whether_or_not_there_are_answers() {
    undisturbed(|| {
        let held = Mutex::new(Vec::<u8>::new());
        let outcome = send_to(typed(String::new()), move |peer, number, message| {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            held.extend(message);
            match number % 4 {
                // Four of them in one message, on any connection: a third are its own.
                3 => peer.frame(0x81, &std::mem::take(&mut *held)),
                _ => Ok(()),
            }
        });
        assert_on_schedule(&outcome);
        assert!(exchanged(&outcome).answered > 0, "{outcome:?}");
    });
}

#[test]
fn unanswered_messages_are_counted() {
    undisturbed(|| {
        let outcome = send_to(typed(String::new()), |peer, number, message| match number % 4 {
            0 => Ok(()),
            _ => peer.frame(0x81, &message),
        });
        let Exchanged { sent, answered, unanswered, .. } = exchanged(&outcome);
        assert_eq!(answered + unanswered, sent);
        let expected = sent as f64 / 4.0;
        assert!((unanswered as f64 - expected).abs() <= f64::from(CONNECTIONS), "{unanswered}");
    });
}

#[test]
fn lines_are_sent_in_turn_and_filled_in() {
    undisturbed(|| {
        let sent_lines = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&sent_lines);
        let lines = ["a {id}", "b {connection} {token}", "c {other}"];
        let more = Typed {
            data: Some(lines.map(str::to_owned).to_vec()),
            tokens: Some(vec!["t0".to_owned(), "t1".to_owned(), "t2".to_owned()]),
            headers: vec!["X-Token: {token}".to_owned()],
            opening: vec![OpeningStep::Send("hello {token}".to_owned())],
            binary: true,
            ..typed("/live?token={token}".to_owned())
        };
        let outcome = send_to(more, move |peer, number, message| {
            let message = String::from_utf8_lossy(&message).into_owned();
            let (path, header) =
                (peer.head.split(' ').nth(1).unwrap_or_default(), peer.header("X-Token"));
            let sent_lines = format!("{number} {path} {header} {message}");
            received.lock().unwrap_or_else(PoisonError::into_inner).push(sent_lines);
            // The others' events were not requested.
            peer.frame(0x81, message.as_bytes())
        });
        let Exchanged { sent, answered, unanswered, .. } = exchanged(&outcome);
        assert_eq!(unanswered, 0, "{outcome:?}");
        assert!(sent / 3 <= answered + 2 && answered <= sent / 3 + 2, "{answered} of {sent}");
        let sent_lines = sent_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |connection: usize| {
            let head = format!("/live?token=t{connection} t{connection} ");
            let lines = sent_lines.iter().filter_map(|line| line.split_once(&head));
            let id = |text: &str| match text.split_once("a ") {
                Some(("", id)) if id.len() == 15 => "a ID".to_owned(),
                _ => text.to_owned(),
            };
            lines.map(|(number, text)| format!("{number}{}", id(text))).take(4).collect::<Vec<_>>()
        };
        assert_eq!(of(0), ["0 hello t0", "1 a ID", "2 b 0 t0", "3 c {other}"]);
        assert_eq!(of(1), ["0 hello t1", "1 b 1 t1", "2 c {other}", "3 a ID"]);
        assert_eq!(of(2), ["0 hello t2", "1 c {other}", "2 a ID", "3 b 2 t2"]);
    });
}

#[test]
fn messages_are_text_or_binary_and_nothing_is_expected_of_those_without_an_id() {
    undisturbed(|| {
        for binary in [false, true] {
            let first = Arc::new(Mutex::new(Vec::new()));
            let kinds = Arc::clone(&first);
            let address = serve(script(move |mut peer| {
                peer.upgrade("")?;
                loop {
                    let (first, ..) = peer.read_frame()?;
                    kinds.lock().unwrap_or_else(PoisonError::into_inner).push(first);
                }
            }));
            let typed = Typed {
                data: Some(vec!["ping".to_owned()]),
                binary,
                ..typed(format!("ws://{address}/"))
            };
            let settings = Settings { connections: 1, rate: RATE, ..Settings::default() };
            let outcome = run_with(&typed, settings, 20, 100, &mut Blind).unwrap();
            let Exchanged { sent, answered, unanswered, latency } = exchanged(&outcome);
            assert!(sent >= 19 && (answered, unanswered, latency) == (0, 0, None), "{outcome:?}");
            assert_eq!(outcome.round_trips, None);
            let mut kinds = first.lock().unwrap_or_else(PoisonError::into_inner).clone();
            kinds.retain(|first| *first != 0x88);
            kinds.dedup();
            assert_eq!(kinds, [if binary { 0x82 } else { 0x81 }]);
        }
    });
}

#[test]
fn users_think_between_their_messages() {
    undisturbed(|| {
        let address = serve(script(|mut peer| peer.echo()));
        let think_us = Some((20_000, 40_000));
        let typed = Typed { think_us, ..typed(format!("ws://{address}/")) };
        let settings = Settings { connections: CONNECTIONS, ..Settings::default() };
        let outcome = run_with(&typed, settings, 20, 400, &mut Blind).unwrap();
        let Exchanged { sent, answered, unanswered, .. } = exchanged(&outcome);
        assert_eq!((answered, unanswered), (sent, 0));
        // Each sends once in 20 to 40 ms.
        let span_ms = outcome.span_us / 1000;
        let few = u64::from(CONNECTIONS) * (span_ms / 40 - 1);
        let many = u64::from(CONNECTIONS) * (span_ms / 20 + 1);
        assert!((few..=many).contains(&sent), "{sent} in {span_ms} ms");
    });
}
