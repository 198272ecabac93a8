use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body;
use serde_json::value::RawValue;
use thalweg_wire::{
    ErrorCode,
    answer::{Published, refusal},
};

use super::content::Content;
use crate::refusal::Refusal;

pub(super) type Answer = Response<Content>;

/// The refusal of a request, and the events that it published before.
pub(super) struct ErrorResponse {
    pub(super) refusal: Refusal,
    pub(super) published: Option<Published>,
    /// Id of the refused command.
    pub(super) id: Option<Box<RawValue>>,
    pub(super) allow: Option<&'static str>,
}

impl From<Refusal> for ErrorResponse {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, published: None, id: None, allow: None }
    }
}

impl ErrorResponse {
    pub(super) fn method(allow: &'static str) -> Self {
        let message = format!("this path does not support the method: use {allow}");
        let refusal = Refusal::new(ErrorCode::MethodNotAllowed, message);
        Self { allow: Some(allow), ..refusal.into() }
    }

    pub(super) fn into_answer(self) -> Answer {
        let code = self.refusal.code;
        let published = self.published.as_ref();
        let body = self.refusal.to_json(self.id.as_deref(), published);
        let mut answer = json(status(code), body);
        let headers = answer.headers_mut();
        let mut insert = |name, value| headers.insert(name, HeaderValue::from_static(value));
        if let Some(allow) = self.allow {
            insert(header::ALLOW, allow);
        }
        match code {
            ErrorCode::UpgradeRequired => {
                // RFC 9110 §15.5.22, RFC 6455 §4.4.
                insert(header::CONNECTION, "upgrade");
                insert(header::UPGRADE, "websocket");
                insert(header::SEC_WEBSOCKET_VERSION, "13");
            }
            ErrorCode::UnsupportedEncoding => {
                // RFC 9110 §15.5.16.
                insert(header::ACCEPT_ENCODING, "identity");
            }
            ErrorCode::Unauthorized => {
                // RFC 9110 §11.6.1.
                insert(header::WWW_AUTHENTICATE, "Bearer");
            }
            ErrorCode::TooManyRequests => {
                let wait = self.refusal.retry_after().unwrap_or_default();
                let wait_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, wait_s.max(1).into());
            }
            ErrorCode::Busy | ErrorCode::Draining => {
                insert(header::RETRY_AFTER, "1");
            }
            _ => {}
        }
        answer
    }
}

/// Returns a refusal as bytes of HTTP/1.1, for a socket that hyper does not serve.
pub(super) fn bare(refused: &Refusal) -> Vec<u8> {
    let body = refusal(refused.code, &refused.message, None, None);
    let status = status(refused.code);
    let reason = status.canonical_reason().unwrap_or_default();
    // A repeated invalid request stays invalid.
    let again = if status == StatusCode::BAD_REQUEST { "" } else { "retry-after: 1\r\n" };
    let mut bytes = format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         {again}connection: close\r\n\r\n",
        status.as_u16(),
        body.len() + 1,
    )
    .into_bytes();
    bytes.extend_from_slice(&body);
    bytes.push(b'\n');
    bytes
}

#[inline]
pub(super) fn json(status: StatusCode, mut body: Vec<u8>) -> Answer {
    // A final line break: the shell's prompt after curl begins on a new line.
    body.push(b'\n');
    json_line(status, body)
}

/// Returns a response of JSON that already ends with a line break.
#[inline]
pub(super) fn json_line(status: StatusCode, body: impl Into<Content>) -> Answer {
    let mut answer = text("application/json", body);
    *answer.status_mut() = status;
    // The next request may get another answer.
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[inline]
pub(super) fn text(content_type: &'static str, body: impl Into<Content>) -> Answer {
    let mut answer = Response::new(body.into());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Removes the body: the answer to HEAD has none (RFC 9110 §9.3.2).
pub(super) fn leave_body_away(answer: &mut Answer) {
    let length = answer.body().size_hint().exact().map(HeaderValue::from);
    answer.headers_mut().extend(length.map(|length| (header::CONTENT_LENGTH, length)));
    *answer.body_mut() = Content::Nothing;
}

pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new("".into());
    *answer.status_mut() = status;
    answer
}

fn status(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
