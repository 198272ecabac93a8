//! The head of an HTTP answer (RFC 9112 §2), as any server writes it.

/// A longer head is no answer: room for the cookies of a large site.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// An answer's head, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// `503 Service Unavailable`.
    pub(super) status_line: String,
    /// Names in lower case, in order.
    headers: Vec<(String, String)>,
}

impl Head {
    /// Reads the head that `bytes` begin with, and says how long it is; `None`
    /// while it is incomplete. The error says what is wrong.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
        check_beginning(bytes)?;
        let Some(length) = length(bytes) else {
            if bytes.len() > HEAD_BYTES_MAX {
                return Err("its answer's head does not end within 64 KiB".to_owned());
            }
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes[..length]);
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let status_line = first.split_once(' ').map_or("", |(_, rest)| rest).trim();
        let digits = status_line.split(' ').next().unwrap_or_default();
        let status = digits.parse().ok().filter(|status| (100..1000).contains(status));
        let Some(status) = status else {
            return Err(format!("its answer has no status: {}", first.escape_debug()));
        };
        let mut head = Head { status, status_line: shown(status_line), headers: Vec::new() };
        for line in lines.take_while(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once(':') else {
                return Err(format!(
                    "its answer's head has a line without a colon: {}",
                    shown(line)
                ));
            };
            head.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Some((head, length)))
    }

    /// Whether the answer is yet to come (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// The first value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// Every element of a header that is a list, in lower case (RFC 9110 §5.6.1).
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let values = self.headers.iter().filter(|(own, _)| own == name);
        values
            .flat_map(|(_, value)| value.split(','))
            .map(|element| element.trim().to_ascii_lowercase())
            .filter(|element| !element.is_empty())
            .collect()
    }
}

/// For a person: short, and on one line.
pub(super) fn shown(text: &str) -> String {
    text.trim().chars().take(200).flat_map(char::escape_debug).collect()
}

/// What is no HTTP is told at once.
fn check_beginning(bytes: &[u8]) -> Result<(), String> {
    const BEGINNING: &[u8] = b"HTTP/1.";
    let length = bytes.len().min(BEGINNING.len());
    if bytes[..length] == BEGINNING[..length] {
        return Ok(());
    }
    // A TLS alert (RFC 8446 §5.1).
    if bytes.starts_with(&[0x15, 0x03]) {
        return Err("it speaks TLS: write the URL with wss:// or https://".to_owned());
    }
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    Err(format!("it does not answer in HTTP/1.1 but with \"{}\"", beginning.escape_debug()))
}

/// Length of the head with its empty line; lines may end without a CR (§2.2).
fn length(bytes: &[u8]) -> Option<usize> {
    let head = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    memchr::memchr_iter(b'\n', head).find_map(|end| match &head[end + 1..] {
        [b'\n', ..] => Some(end + 2),
        [b'\r', b'\n', ..] => Some(end + 3),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_is_a_status_and_headers() {
        let bytes = b"HTTP/1.1 200 OK\r\nConnection: keep-alive, Upgrade\r\nX:a:b\r\nconnection:z\r\n\r\nmore";
        let (head, length) = Head::read(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len() - 4);
        assert_eq!((head.status, &*head.status_line), (200, "200 OK"));
        assert_eq!(head.header("x"), Some("a:b"));
        assert_eq!(head.list("connection"), ["keep-alive", "upgrade", "z"]);
        for cut in 0..length {
            assert_eq!(Head::read(&bytes[..cut]), Ok(None), "{cut}");
        }
        let (bare, length) = Head::read(b"HTTP/1.0 404\nA: b\n\nbody").unwrap().unwrap();
        assert_eq!((bare.status, &*bare.status_line, length), (404, "404", 19));
    }

    #[test]
    fn what_is_no_answer_is_named() {
        let check = |bytes: &[u8], expected: &str| {
            let said = Head::read(bytes).unwrap_err();
            assert!(said.contains(expected), "{said:?} should say {expected:?}");
        };
        check(b"\x15\x03\x03\0\x02", "wss://");
        check(b"SSH-2.0-OpenSSH\r\n", "SSH-2.0");
        check(b"HTTP/2 200\r\n\r\n", "does not answer in HTTP/1.1");
        check(b"HTTP/1.1 OK\r\n\r\n", "no status");
        check(b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n", "without a colon");
        let endless = [b"HTTP/1.1 200 OK\r\n", &vec![b'a'; HEAD_BYTES_MAX][..]].concat();
        check(&endless, "does not end");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(rest in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Head::read(&rest);
            let _ = Head::read(&[b"HTTP/1.1 2", &rest[..], b"\r\n\r\n"].concat());
        }
    }
}
