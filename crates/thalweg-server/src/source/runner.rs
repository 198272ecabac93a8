use thalweg_core::stream::Payloads;
use thalweg_wire::{Offset, event::member};

use super::{Input, Source, push};

/// The published round trip between a hub and its client (2013): the source sends a record only after the
/// client has acked the previous one. The `id` of a record is its offset, because nothing else publishes to
/// the topic. The ack of the position that confirms a subscription starts the first record.
#[derive(Default)]
pub(super) struct Runner {
    last: Offset,
}

impl Source for Runner {
    fn input(&mut self, input: Input<'_>, now_us: u64, out: &mut Payloads) {
        let offset = match input {
            Input::Ack(offset) => offset,
            Input::Event(event) => match acked(event) {
                Some(id) => id,
                // Anybody may publish anything to that topic.
                None => return,
            },
        };
        if offset < self.last {
            return;
        }
        self.last += 1;
        let id = self.last;
        // About 200 bytes, as published.
        let members = [
            (r#"{"id":"#, id),
            (r#","name":"Runner "#, id),
            (r#"","club":"Thalweg Harriers","start_number":"#, 1000 + id % 9000),
            (r#","lap":"#, 1 + id % 25),
            (r#","lap_time_ms":"#, 61_000 + id * 7 % 9_000),
            (r#","total_time_ms":"#, 61_000 * (1 + id % 25)),
            (r#","speed_kmh":"#, 12 + id % 9),
            (".", id % 10),
            (r#","heart_rate":"#, 120 + id % 60),
            (r#","due":"#, now_us),
        ];
        push(out, |event| {
            for (text, number) in members {
                event.extend_from_slice(text.as_bytes());
                event.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            event.push(b'}');
        });
    }
}

/// Returns the `id` of the processed event, which the input repeats.
fn acked(event: &[u8]) -> Option<Offset> {
    std::str::from_utf8(member(event, "id")?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(acks: &[Offset]) -> Vec<Offset> {
        let (mut runner, mut out) = (Runner::default(), Payloads::default());
        for ack in acks {
            runner.input(Input::Ack(*ack), 7, &mut out);
        }
        let id = |event: &[u8]| {
            let event: serde_json::Value = serde_json::from_slice(event).unwrap();
            assert!((150..250).contains(&event.to_string().len()), "{event}");
            event["id"].as_u64().unwrap()
        };
        out.iter().map(id).collect()
    }

    #[test]
    fn an_event_acks_as_a_command_does() {
        let (mut runner, mut out) = (Runner::default(), Payloads::default());
        for event in ["{}", "7", r#"{"id":"0"}"#, r#"{"id":0,"by":"somebody"}"#, r#"{"id":0}"#] {
            runner.input(Input::Event(event.as_bytes()), 7, &mut out);
        }
        assert_eq!(out.count(), 1);
    }

    #[test]
    fn the_next_record_follows_the_ack_of_the_last() {
        assert_eq!(ids(&[0, 1, 2]), [1, 2, 3]);
        assert_eq!(ids(&[0, 0, 0, 1, 0, 1]), [1, 2]);
    }
}
