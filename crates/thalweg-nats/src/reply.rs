//! The reply subject of a message that a consumer delivers, which has the sequence numbers of the message.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplySubject {
    /// The sequence number in the stream, from 1.
    pub(crate) stream_sequence: u64,
    /// The sequence number of the delivery by this consumer, from 1.
    pub(crate) consumer_sequence: u64,
    /// When the message was stored, in ns since 1970, by the stream's clock.
    pub(crate) time_ns: u64,
    pub(crate) pending: u64,
}

/// Parses either form:
///
/// ```text
/// $JS.ACK.                       <stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>
/// $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>
/// ```
///
/// The second form may have further tokens at its end.
pub(crate) fn parse_reply(subject: &str) -> Option<ReplySubject> {
    let tokens = subject.strip_prefix("$JS.ACK.")?;
    let count = tokens.bytes().filter(|byte| *byte == b'.').count() + 1;
    let skipped = match count {
        SHORT => 0,
        _ if count >= LONG => LONG - SHORT,
        _ => return None,
    };
    let mut tokens = tokens.split('.').skip(skipped + NAMES);
    let mut number = || tokens.next()?.parse::<u64>().ok();
    let _delivered = number()?;
    let stream_sequence = number()?;
    let consumer_sequence = number()?;
    let time_ns = number()?;
    Some(ReplySubject { stream_sequence, consumer_sequence, time_ns, pending: number()? })
}

/// The number of tokens after the prefix, in each form.
const SHORT: usize = 7;
const LONG: usize = 9;
/// The number of names: the stream and the consumer.
const NAMES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let time_ns = 1_700_000_000_000_000_000;
        let reply = ReplySubject { stream_sequence: 42, consumer_sequence: 7, time_ns, pending: 3 };
        for subject in [
            "$JS.ACK.thalweg-a.c1.1.42.7.1700000000000000000.3",
            "$JS.ACK._.hash.thalweg-a.c1.1.42.7.1700000000000000000.3",
            "$JS.ACK.hub.hash.thalweg-a.c1.1.42.7.1700000000000000000.3.random",
        ] {
            assert_eq!(parse_reply(subject), Some(reply), "{subject}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        for subject in [
            "",
            "_INBOX.abc",
            "$JS.ACK.",
            "$JS.ACK.s.c.1.42.7.1700000000000000000",
            "$JS.ACK.x.s.c.1.42.7.1700000000000000000.3",
            "$JS.ACK.s.c.1.42.seven.1700000000000000000.3",
            "$JS.ACK.s.c.1.-42.7.1700000000000000000.3",
            "$JS.FC.s.c.abc",
        ] {
            assert_eq!(parse_reply(subject), None, "{subject}");
        }
    }
}
