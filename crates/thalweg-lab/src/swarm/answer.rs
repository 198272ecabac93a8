//! A whole answer over HTTP/1.1 that leaves the connection open (RFC 9112 §6).

use anyhow::{anyhow, bail};

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Of head and body, as they came.
    pub(super) length: usize,
}

/// The answer that the bytes begin with; `None` while it is incomplete.
pub(super) fn take(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
    let Some(head_end) = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| anyhow!("not an HTTP answer: {head}"))?;
    let field = |name: &str| {
        head.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    let rest = &bytes[head_end..];
    let body = match (field("transfer-encoding"), field("content-length")) {
        (Some("chunked"), _) => chunks(rest)?,
        (None, Some(length)) => {
            let length: usize = length.parse()?;
            rest.get(..length).map(|body| (body.to_vec(), length))
        }
        _ if status == 204 => Some((Vec::new(), 0)),
        _ => bail!("an answer of unknown length: {head}"),
    };
    Ok(body.map(|(body, length)| Answer { status, body, length: head_end + length }))
}

/// A body in chunks, without trailers, and its length on the wire.
fn chunks(bytes: &[u8]) -> anyhow::Result<Option<(Vec<u8>, usize)>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = memchr::memmem::find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let size = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)?;
        at += line + 2;
        let Some(chunk) = at.checked_add(size).and_then(|end| bytes.get(at..end.checked_add(2)?))
        else {
            return Ok(None);
        };
        body.extend_from_slice(&chunk[..size]);
        at += chunk.len();
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let bytes = format!("{text}more").into_bytes();
        let answer = take(&bytes).unwrap().unwrap();
        assert_eq!((answer.status, &*answer.body), (200, expected.as_bytes()));
        assert_eq!(answer.length, text.len());
        for cut in 0..text.len() {
            assert_eq!(take(&bytes[..cut]).unwrap(), None, "{cut}");
        }
    }

    #[test]
    fn answers_have_a_length_or_chunks() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"count\":42}", "{\"count\":42}");
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
            "abc0123456789",
        );
        assert!(take(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(take(b"nonsense\r\n\r\n").is_err());
    }
}
