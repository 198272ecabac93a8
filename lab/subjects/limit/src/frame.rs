//! Encodes batches as frames (`docs/reference/messages.md`).

/// A constant epoch, because the limit never restarts a stream. It is as long as Thalweg's random ones, and so are the frames.
const EPOCH: &str = "9f3c21d04b7e";

/// A WebSocket text frame in one piece (RFC 6455 §5.2): FIN and opcode 1.
const TEXT_FRAME: u8 = 0x81;

pub(crate) const ENVELOPE_END: &str = "]}";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Framing {
    WebSocket,
    /// Server-Sent Events of one topic: the position is the event's id.
    Sse,
    /// Server-Sent Events of several topics, without an id.
    SseSeveral,
    Ndjson,
}

/// The text around consecutive events of one topic.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    pub(crate) topic: &'a str,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Appends texts and decimal numbers to `$out`.
macro_rules! push {
    ($out:expr, $($part:expr),+ $(,)?) => {{ $( Part::push_to(&$part, $out); )+ }};
}

impl Envelope<'_> {
    /// Appends the text before events with `events_bytes` bytes in total, commas included.
    pub(crate) fn push_head(&self, framing: Framing, events_bytes: usize, out: &mut Vec<u8>) {
        match framing {
            Framing::WebSocket => push_websocket_header(out, self.length(events_bytes)),
            Framing::Sse | Framing::SseSeveral => push!(out, "data:"),
            Framing::Ndjson => {}
        }
        self.push_start(out);
    }

    pub(crate) fn push_tail(&self, framing: Framing, out: &mut Vec<u8>) {
        push!(out, ENVELOPE_END);
        match framing {
            Framing::WebSocket => {}
            Framing::Sse => push!(out, "\nid:", EPOCH, ".", self.position(), "\n\n"),
            Framing::SseSeveral => push!(out, "\n\n"),
            Framing::Ndjson => push!(out, "\n"),
        }
    }

    pub(crate) fn push_start(&self, out: &mut Vec<u8>) {
        push!(out, "{\"topic\":\"", self.topic);
        push!(out, "\",\"position\":\"", EPOCH, ".", self.position());
        push!(out, "\",\"first\":", self.first, ",\"events\":[");
    }

    /// Returns the length of the whole envelope, with which a WebSocket frame begins.
    fn length(&self, events_bytes: usize) -> usize {
        const FIXED: usize = r#"{"topic":"","position":".","first":,"events":["#.len();
        FIXED
            + EPOCH.len()
            + self.topic.len()
            + decimal_digits(self.position())
            + decimal_digits(self.first)
            + events_bytes
            + ENVELOPE_END.len()
    }

    /// Returns the offset of the last event; without events, of the event before the first.
    fn position(&self) -> u64 {
        self.first + self.count - 1
    }
}

/// Returns the answer to a publish request.
pub(crate) fn answer(topic: &str, position: u64, first: u64, count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    push!(&mut out, "{\"topic\":\"", topic, "\",\"position\":\"");
    push!(&mut out, EPOCH, ".", position, "\",\"first\":");
    push!(&mut out, first, ",\"count\":", count, "}");
    out
}

pub(crate) fn push_websocket_header(out: &mut Vec<u8>, payload_bytes: usize) {
    out.push(TEXT_FRAME);
    if payload_bytes < 126 {
        out.push(payload_bytes as u8);
    } else if let Ok(short) = u16::try_from(payload_bytes) {
        out.push(126);
        out.extend_from_slice(&short.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
    }
}

trait Part {
    fn push_to(&self, out: &mut Vec<u8>);
}

impl Part for &str {
    fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Part for u64 {
    fn push_to(&self, out: &mut Vec<u8>) {
        push_decimal(*self, out);
    }
}

pub(crate) fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARS: Envelope<'static> = Envelope { topic: "cars", first: 1041, count: 2 };
    const EVENTS: &[u8] = br#"{"id":7},{"id":8}"#;

    fn frame(envelope: &Envelope<'_>, events: &[u8], framing: Framing) -> Vec<u8> {
        let mut out = Vec::new();
        envelope.push_head(framing, events.len(), &mut out);
        out.extend_from_slice(events);
        envelope.push_tail(framing, &mut out);
        out
    }

    /// `docs/reference/topics.md` writes a shorter epoch.
    fn wire(text: &str) -> Vec<u8> {
        text.replace("9f3c21.", &format!("{EPOCH}.")).into_bytes()
    }

    #[test]
    fn frames_are_those_of_the_wire() {
        let envelope = r#"{"topic":"cars","position":"9f3c21.1042","first":1041,"events":[{"id":7},{"id":8}]}"#;
        assert_eq!(frame(&CARS, EVENTS, Framing::Ndjson), wire(&format!("{envelope}\n")));
        assert_eq!(
            frame(&CARS, EVENTS, Framing::Sse),
            wire(&format!("data:{envelope}\nid:9f3c21.1042\n\n"))
        );
        assert_eq!(
            frame(&CARS, EVENTS, Framing::SseSeveral),
            wire(&format!("data:{envelope}\n\n"))
        );
        let expected = wire(envelope);
        let websocket = frame(&CARS, EVENTS, Framing::WebSocket);
        assert_eq!(websocket[..2], [0x81, expected.len() as u8]);
        assert_eq!(websocket[2..], expected);
    }

    #[test]
    fn a_confirmation_names_the_event_to_come() {
        let first = Envelope { first: 1, count: 0, ..CARS };
        assert_eq!(
            frame(&first, b"", Framing::Ndjson),
            wire("{\"topic\":\"cars\",\"position\":\"9f3c21.0\",\"first\":1,\"events\":[]}\n")
        );
    }

    #[test]
    fn every_length_of_a_websocket_header_is_right() {
        for events_bytes in [0, 1, 30, 90, 200, 65_000, 66_000] {
            let events = vec![b'1'; events_bytes];
            let frame = frame(&CARS, &events, Framing::WebSocket);
            let (header, length) = match frame[1] {
                126 => (4, usize::from(u16::from_be_bytes([frame[2], frame[3]]))),
                127 => (10, u64::from_be_bytes(frame[2..10].try_into().unwrap()) as usize),
                short => (2, usize::from(short)),
            };
            assert_eq!(frame.len(), header + length);
            assert_eq!(length, CARS.length(events_bytes));
        }
    }

    #[test]
    fn an_answer_names_the_published_range() {
        let expected = r#"{"topic":"cars","position":"9f3c21.1042","first":1040,"count":3}"#;
        assert_eq!(answer("cars", 1042, 1040, 3), wire(expected));
        let nothing = r#"{"topic":"cars","position":"9f3c21.0","first":1,"count":0}"#;
        assert_eq!(answer("cars", 0, 1, 0), wire(nothing));
    }

    #[test]
    fn decimals_are_written_like_anywhere() {
        for number in [0, 9, 10, 99, 100, 1042, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
            assert_eq!(out.len(), decimal_digits(number));
        }
    }
}
