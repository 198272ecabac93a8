//! The methods of a hub.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use thalweg_core::{fanout::Terms, stream::Payloads};
use thalweg_wire::{
    ErrorCode, Excerpt, StartAt, event,
    excerpt::told,
    signalr::{Invocation, StreamId},
};

use super::super::command::Command;
use crate::{config::nearest, refusal::Refusal, transport::parameters};

const METHODS: [&str; 4] = ["Subscribe", "Unsubscribe", "Publish", "Ack"];

/// The terms of a subscription, named as in the query of a URL.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SubscribeOptions<'a> {
    #[serde(borrow)]
    policy: Option<Cow<'a, str>>,
    #[serde(borrow)]
    interval: Option<Cow<'a, str>>,
    #[serde(borrow)]
    window: Option<Cow<'a, str>>,
    #[serde(borrow)]
    keys: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow)]
    prefix: Option<Cow<'a, str>>,
}

/// Returns the command of an invocation. `event_bytes_max` limits each event of a client that may publish; without it
/// events are not parsed.
pub(crate) fn command(
    invocation: &Invocation<'_>,
    event_bytes_max: Option<usize>,
) -> Result<Command, Refusal> {
    let Invocation { target, is_stream, .. } = invocation;
    if invocation.has_uploads {
        return Err(bad(
            "client-to-server streaming is not supported: invoke Publish for each event",
        ));
    }
    let mut arguments = Arguments { target, rest: &invocation.arguments };
    // "Invocations": the name of a method is case-sensitive.
    let command = match &**target {
        "Subscribe" => subscribe(invocation, &mut arguments)?,
        "Unsubscribe" if !is_stream => {
            Command::Unsubscribe { topic: arguments.text("a topic")?.parse()? }
        }
        "Publish" if !is_stream => {
            let topic = arguments.text("a topic")?.parse()?;
            if arguments.rest.is_empty() {
                return Err(bad(
                    "Publish lacks a topic or an event: pass a topic, and at least one event",
                ));
            }
            let mut payloads = Payloads::default();
            for raw in std::mem::take(&mut arguments.rest) {
                if let Some(bytes_max) = event_bytes_max {
                    payloads.push(|out| event::push_value(raw, bytes_max, out))?;
                }
            }
            Command::Publish { topic, payloads, key: None, condition: None, ttl_us: None }
        }
        "Ack" if !is_stream => Command::Ack {
            topic: arguments.text("a topic")?.parse()?,
            position: arguments.text("a position")?.parse()?,
        },
        // "Completion and results": the stream of a method with a single result is completed with an error.
        known if METHODS.contains(&known) => {
            return Err(bad(format!("{known} does not return a stream: call it with invoke")));
        }
        unknown => {
            let in_other_case = METHODS.iter().find(|method| method.eq_ignore_ascii_case(unknown));
            let near = nearest(in_other_case.unwrap_or(&unknown), &METHODS);
            return Err(bad(format!("unknown method {:?}{near}", Excerpt(unknown))));
        }
    };
    if !arguments.rest.is_empty() {
        return Err(bad(format!("{target} has too many arguments: remove the last ones")));
    }
    Ok(command)
}

fn subscribe(
    invocation: &Invocation<'_>,
    arguments: &mut Arguments<'_>,
) -> Result<Command, Refusal> {
    let topic = arguments.text("a topic")?.parse()?;
    let start = arguments.optional_text("a cursor")?;
    let start = start.as_deref().map_or(Ok(StartAt::default()), parameters::start)?;
    let options = arguments.options()?;
    let stream = match invocation.id.filter(|_| invocation.is_stream) {
        Some(id) => Some(StreamId::parse(id).ok_or_else(|| {
            bad("the invocation id of a stream is a whole number: use an official client")
        })?),
        None => None,
    };
    let SubscribeOptions { policy, interval, window, keys, prefix } = &options;
    let terms = parameters::terms(policy.as_deref(), interval.as_deref(), window.as_deref())?;
    // As in the command of a WebSocket: a client that has no key does not want all of them.
    if keys.as_ref().is_some_and(Vec::is_empty) {
        return Err(bad("keys has no key: add one, or remove the member"));
    }
    let filter = parameters::filter(keys.as_deref().unwrap_or_default(), prefix.as_deref())?;
    Ok(Command::Subscribe { topic, start, terms: Terms { stream, ..terms }, filter })
}

/// The arguments of an invocation that are not read yet.
struct Arguments<'a> {
    target: &'a str,
    rest: &'a [&'a RawValue],
}

impl<'a> Arguments<'a> {
    /// Takes the next argument. `null`, which clients send for an omitted argument in the middle, counts as none.
    fn next(&mut self) -> Option<&'a RawValue> {
        let (next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*next).filter(|next| next.get() != "null")
    }

    fn optional_text(&mut self, what: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
        let Some(next) = self.next() else { return Ok(None) };
        let text = serde_json::from_str::<Cow<'a, str>>(next.get());
        text.map(Some).map_err(|_| {
            bad(format!("{} has {what} that is not a string: pass a string", self.target))
        })
    }

    fn text(&mut self, what: &str) -> Result<Cow<'a, str>, Refusal> {
        let text = self.optional_text(what)?;
        text.ok_or_else(|| bad(format!("{} needs {what}: pass a string", self.target)))
    }

    fn options(&mut self) -> Result<SubscribeOptions<'a>, Refusal> {
        let Some(next) = self.next() else { return Ok(SubscribeOptions::default()) };
        let form = "the last argument must be an object, as in {policy: \"latest\"}";
        if !next.get().starts_with('{') {
            return Err(bad(form));
        }
        serde_json::from_str(next.get()).map_err(|error| bad(format!("{form}: {}", told(&error))))
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::BadCommand, message)
}

#[cfg(test)]
mod tests {
    use thalweg_core::fanout::Policy;
    use thalweg_wire::signalr::HubMessage;

    use super::*;

    fn read(json: &str) -> Result<Command, Refusal> {
        let record = format!("{json}\u{1e}");
        let Ok(HubMessage::Invocation(invocation)) = HubMessage::parse(&record) else {
            panic!("{json} is no invocation")
        };
        command(&invocation, Some(20))
    }

    fn invoke(target: &str, arguments: &str) -> Result<Command, Refusal> {
        read(&format!(
            r#"{{"type":1,"invocationId":"3","target":"{target}","arguments":[{arguments}]}}"#
        ))
    }

    fn stream(id: &str, target: &str, arguments: &str) -> Result<Command, Refusal> {
        read(&format!(
            r#"{{"type":4,"invocationId":"{id}","target":"{target}","arguments":[{arguments}]}}"#
        ))
    }

    #[test]
    fn a_subscription_has_a_cursor_and_terms() {
        let Ok(Command::Subscribe { topic, start, terms, .. }) = invoke("Subscribe", r#""cars""#)
        else {
            panic!()
        };
        assert_eq!((topic.as_str(), start, terms), ("cars", StartAt::Latest, Terms::default()));
        let with = r#""cars","ab.7",{"policy":"close","interval":"5ms","window":"2KiB"}"#;
        let Ok(Command::Subscribe { start, terms, .. }) = stream("12", "Subscribe", with) else {
            panic!()
        };
        assert_eq!(start, "ab.7".parse().unwrap());
        assert_eq!((terms.policy, terms.interval_us), (Policy::Close, 5_000));
        assert_eq!(terms.window_bytes, Some(2048));
        assert_eq!(terms.stream.map(StreamId::number), Some(12));
        let with = r#""cars",null,{"keys":["a","b"],"prefix":"c/"}"#;
        let Ok(Command::Subscribe { filter: Some(filter), .. }) = invoke("Subscribe", with) else {
            panic!()
        };
        assert!(filter.matches(br#""b""#) && filter.matches(br#""c/d""#));
        assert!(invoke("Subscribe", r#""cars",null,{"keys":[]}"#).is_err());
        let Ok(Command::Subscribe { start, .. }) = stream("0", "Subscribe", r#""a",null,null"#)
        else {
            panic!()
        };
        assert_eq!(start, StartAt::Latest);
    }

    #[test]
    fn events_are_published_together() {
        let Ok(Command::Publish { topic, payloads, .. }) =
            invoke("Publish", r#""a/b",{"x": 1},[2]"#)
        else {
            panic!()
        };
        assert_eq!(topic.as_str(), "a/b");
        assert_eq!((payloads.joined(), payloads.count()), (&br#"{"x":1},[2]"#[..], 2));
    }

    #[test]
    fn wrong_invocations_are_refused_with_the_remedy() {
        let check = |read: Result<Command, Refusal>, code, says: &str| {
            let refusal = read.err().expect("a refusal");
            assert_eq!(refusal.code, code, "{}", refusal.message);
            assert!(refusal.message.contains(says), "{}", refusal.message);
        };
        use ErrorCode::{BadCommand, BadCursor, BadParameter, BadTopic, EventTooLarge};
        check(invoke("subscribe", r#""a""#), BadCommand, "\"Subscribe\"");
        check(invoke("Subscribe", ""), BadCommand, "needs a topic");
        check(invoke("Subscribe", "7"), BadCommand, "a string");
        check(invoke("Subscribe", r#""a b""#), BadTopic, "' '");
        check(invoke("Subscribe", r#""a","soon""#), BadCursor, "earliest");
        check(invoke("Subscribe", r#""a","latest",{"polcy":"skip"}"#), BadCommand, "policy");
        check(invoke("Subscribe", r#""a","latest",["skip"]"#), BadCommand, "object");
        check(invoke("Subscribe", r#""a",null,{"policy":"skp"}"#), BadParameter, "\"skip\"");
        check(invoke("Subscribe", r#""a",null,null,1"#), BadCommand, "too many arguments");
        check(invoke("Unsubscribe", r#""a","b""#), BadCommand, "too many arguments");
        check(invoke("Publish", r#""a""#), BadCommand, "event");
        check(invoke("Publish", &format!("\"a\",\"{}\"", "x".repeat(30))), EventTooLarge, "20");
        check(invoke("Ack", r#""a""#), BadCommand, "needs a position");
        check(stream("0", "Publish", r#""a",1"#), BadCommand, "invoke");
        check(stream("zero", "Subscribe", r#""a""#), BadCommand, "whole number");
        let uploads = r#"{"type":1,"target":"Publish","arguments":["a"],"streamIds":["1"]}"#;
        check(read(uploads), BadCommand, "client-to-server");
    }
}
