use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Heard {
    events: Vec<Vec<u8>>,
    comments: usize,
}

impl Handler for Heard {
    fn on_message(&mut self, _: Kind, payload: &[u8]) {
        self.events.push(payload.to_vec());
    }
    fn on_sign_of_life(&mut self) {
        self.comments += 1;
    }
    fn on_ping(&mut self, _: &[u8]) {}
    fn on_close(&mut self, _: &[u8]) {}
}

fn received<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, usize) {
    let (mut sse, mut heard) = (Sse::default(), Heard::default());
    for piece in pieces {
        sse.feed(piece, &mut heard).unwrap();
    }
    let text = |event: &Vec<u8>| String::from_utf8_lossy(event).into_owned();
    (heard.events.iter().map(text).collect(), heard.comments)
}

/// The standard's algorithm, step by step, on a stream that is over.
fn naive(bytes: &[u8]) -> (Vec<String>, usize) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // What follows the last line's end is not a line.
    lines.pop();
    let (mut events, mut comments, mut data) = (Vec::new(), 0, String::new());
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                events.push(std::mem::take(&mut data));
            }
        } else if field.is_empty() {
            comments += 1;
        } else if field == "data" {
            data.push_str(value);
            data.push('\n');
        }
    }
    (events, comments)
}

#[test]
fn the_standards_own_examples() {
    let check = |text: &str, expected: &[&str], comments: usize| {
        let (events, found) = received([text.as_bytes()]);
        assert_eq!(
            (&events[..], found),
            (&expected.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..], comments),
            "{text:?}"
        );
    };
    check("data: YHOO\ndata: +2\ndata: 10\n\n", &["YHOO\n+2\n10"], 0);
    check(
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &["first event", "second event", " third event"],
        1,
    );
    check("data\n\ndata\ndata\n\ndata:", &["", "\n"], 0);
    check("data:test\n\ndata: test\n\n", &["test", "test"], 0);
    check("event: add\r\ndata: 1\r\n\r\ndata:2\r\rdata:3\n\n", &["1", "2", "3"], 0);
    check("\u{FEFF}data:1\n\n\u{FEFF}data:2\n\n", &["1"], 0);
    check("\u{FEFF}\ndata:1\n\n", &["1"], 0);
    check("datax:1\nDATA:2\n data:3\nid:4\n\n", &[], 0);
}

#[test]
fn an_event_without_an_end_is_refused_in_time() {
    let mut sse = Sse::default();
    let mut heard = Heard::default();
    sse.feed(b"data:", &mut heard).unwrap();
    let half = vec![b'x'; MESSAGE_BYTES_MAX / 2];
    sse.feed(&half, &mut heard).unwrap();
    let error = sse.feed(&half, &mut heard).unwrap_err();
    assert!(error.to_string().contains("over 64 MiB"), "{error}");
}

proptest! {
    #[test]
    fn the_same_as_the_standards_algorithm_however_it_is_cut(
        text in "(\u{FEFF})?(data|data:|data: |:|id: 1|event:x|retry|é|a|\r|\n|\r\n|\n\n){0,40}",
        cuts in prop::collection::vec(0usize..9, 0..60),
    ) {
        let bytes = text.as_bytes();
        let expected = naive(bytes);
        prop_assert_eq!(&received([bytes]), &expected);
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        prop_assert_eq!(received(pieces), expected);
    }

    #[test]
    fn any_bytes_are_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = received([&bytes[..]]);
    }
}
