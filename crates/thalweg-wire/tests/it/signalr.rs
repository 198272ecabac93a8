//! SignalR's hub protocol: any text is a message or an error, and a client reads exactly the messages of Thalweg's own protocol.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json, value::RawValue};
use thalweg_wire::{
    Format, Position,
    notice::{End, EndCode},
    signalr::{HubError, HubMessage, Outcome, StreamId, completion, record_len},
};

use super::arbitrary::{batch, config, missing, topic};

/// The formats of SignalR, for an invocation and for streams with these ids.
fn formats() -> impl Iterator<Item = (Format, Option<u32>)> {
    let websocket = Format::WEBSOCKET.with_signalr();
    let plain = [websocket, Format::SIGNALR_SSE, Format::SIGNALR_POLLS];
    let chunked = plain.into_iter().filter_map(Format::chunked);
    let all: Vec<Format> = plain.into_iter().chain(chunked).collect();
    [None, Some(0), Some(15), Some(16), Some(4_294_967_294)].into_iter().flat_map(move |number| {
        let all = all.clone().into_iter();
        all.map(move |format| (format.for_stream(number.map(stream_id)), number))
    })
}

fn stream_id(number: u32) -> StreamId {
    let json = format!("\"{number}\"");
    let id: &RawValue = serde_json::from_str(&json).expect("a string");
    StreamId::parse(id).expect("a number")
}

fn records(frame: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(frame);
    // The length before it may be any byte.
    let begin = text.find("{\"type\"").expect("JSON");
    let end = text.rfind('\u{1e}').expect("a separator");
    text[begin..end].split('\u{1e}').map(str::to_owned).collect()
}

fn value(record: &str) -> Value {
    serde_json::from_str(record).expect("JSON")
}

fn check(frame: &[u8], target: &str, stream: Option<u32>, json: &str) -> Result<(), TestCaseError> {
    let expected = match stream {
        None => format!(r#"{{"type":1,"target":"{target}","arguments":[{json}]}}"#),
        Some(number) => format!(r#"{{"type":2,"invocationId":"{number}","item":{json}}}"#),
    };
    let records = records(frame);
    prop_assert_eq!(&records[0], &expected);
    prop_assert_eq!(records.len() > 1, target == "End" && stream.is_some());
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn messages_about_topics_wrap_those_of_the_own_protocol(
        batch in batch(),
        missing in missing(),
        topic in topic(),
    ) {
        for (format, stream) in formats() {
            let mut frame = Vec::new();
            format.batch(&batch.envelope(), &mut frame);
            check(&frame, "Events", stream, &batch.json())?;
            let mut around = Vec::new();
            let before = format.around(&batch.envelope(), &mut around).expect("events as they are");
            let (before, after) = around.split_at(before);
            prop_assert_eq!(&[before, batch.envelope().events, after].concat(), &frame);

            frame.clear();
            format.gap(&missing.gap(), &mut frame);
            check(&frame, "Gap", stream, &missing.json())?;

            let position: Position = batch.position();
            for code in EndCode::ALL {
                let end = End { topic: &topic, position, code };
                let (mut frame, mut json) = (Vec::new(), Vec::new());
                format.topic_end(&end, &mut frame);
                end.write(&mut json);
                check(&frame, "End", stream, &String::from_utf8(json).expect("UTF-8"))?;
                if let Some(number) = stream {
                    let completion = value(&records(&frame)[1]);
                    prop_assert_eq!(&completion["type"], 3);
                    prop_assert_eq!(&completion["invocationId"], &number.to_string());
                    let is_error = !matches!(code, EndCode::Deleted | EndCode::Gone);
                    prop_assert_eq!(completion["error"].is_string(), is_error);
                }
            }
        }
    }

    #[test]
    fn a_text_is_read_record_by_record(text in "[ -~\u{1e}]{0,80}") {
        let mut rest = &*text;
        while !rest.is_empty() {
            let (record, after) = rest.split_at(record_len(rest));
            prop_assert!(!record.is_empty());
            let is_ended = record.ends_with('\u{1e}');
            prop_assert_eq!(record.matches('\u{1e}').count(), usize::from(is_ended));
            prop_assert!(is_ended || after.is_empty());
            let _ = HubMessage::parse(record);
            rest = after;
        }
    }

    #[test]
    fn an_invocation_is_read_as_it_was_written(
        number in 0..=u32::MAX,
        target in "\\PC{0,20}",
        arguments in vec("[a-z]{0,9}", 0..5),
        is_stream in any::<bool>(),
    ) {
        let invocation = json!({
            "type": if is_stream { 4 } else { 1 },
            "invocationId": number.to_string(),
            "target": target,
            "arguments": arguments,
        });
        let record = format!("{invocation}\u{1e}");
        let Ok(HubMessage::Invocation(read)) = HubMessage::parse(&record) else {
            return Err(TestCaseError::fail(record));
        };
        prop_assert_eq!((&*read.target, read.is_stream), (&*target, is_stream));
        let id = read.id.expect("an id");
        prop_assert_eq!(StreamId::parse(id).map(StreamId::number), (number < u32::MAX).then_some(number));
        let read: Vec<String> =
            read.arguments.iter().map(|raw| serde_json::from_str(raw.get()).expect("text")).collect();
        prop_assert_eq!(read, arguments);
        let cut = &record[..record.len() - 1];
        prop_assert_eq!(HubMessage::parse(cut).err(), Some(HubError));
    }

    #[test]
    fn a_completion_is_one_record_with_the_id_of_its_invocation(id in "\\PC{1,30}", error in "\\PC{0,30}") {
        let raw = serde_json::value::to_raw_value(&id).expect("a string");
        let mut out = Vec::new();
        completion(&raw, Outcome::Error(&error), &mut out);
        let read = records(&out);
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(value(&read[0]), json!({ "type": 3, "invocationId": id, "error": error }));
    }
}

#[test]
fn heartbeats_are_pings_and_closes_are_left_to_the_protocol() {
    for (format, _) in formats() {
        let mut frame = Vec::new();
        format.heartbeat(&mut frame);
        assert_eq!(records(&frame), [r#"{"type":6}"#]);
        frame.clear();
        format.close(thalweg_wire::close::DRAINING, &mut frame);
        let is_websocket = format.framing() == thalweg_wire::Framing::WebSocket;
        assert_eq!(frame.is_empty(), !is_websocket, "{format:?}");
        assert!(format.takes_commands() && !format.has_trailer());
        frame.clear();
        format.text(b"{\"type\":7}\x1e", &mut frame);
        assert_eq!(records(&frame), [r#"{"type":7}"#]);
    }
}

#[test]
fn the_first_streams_of_connections_share_their_frames() {
    for (format, stream) in formats() {
        assert_eq!(format.is_shared(), stream.is_none_or(|number| number < 16), "{stream:?}");
    }
    let native = Format::SSE;
    assert_eq!(native.for_stream(Some(stream_id(3))), native);
}
