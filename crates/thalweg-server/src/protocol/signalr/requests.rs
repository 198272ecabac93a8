//! Requests to a hub: negotiation, and the transports.

use http::{HeaderValue, Method, Response, header};
use thalweg_wire::{
    ErrorCode,
    signalr::{NegotiateVersion, Negotiation},
};

use super::{
    super::{
        contract::{Accepted, Opening},
        session::{Carrier, PollId, SessionAction, unknown},
    },
    Hub,
};
use crate::{
    clock::now_us,
    refusal::Refusal,
    transport::{Query, SubscribeRequest, Transport, parameter},
};

/// Browsers send the token in this parameter where they cannot set a header (RFC 6750 §2.3).
pub(in crate::protocol) const TOKEN_PARAMETER: &str = "access_token";

/// Accepts the requests of SignalR's clients.
pub(in crate::protocol) fn accept(opening: &Opening<'_>) -> Result<Option<Accepted>, Refusal> {
    match (&opening.request.method, opening.rest) {
        (&Method::POST, "/negotiate") => negotiate(opening).map(Some),
        (&Method::GET, "" | "/") => connect(opening).map(Some),
        (&Method::POST, "" | "/") => request(opening, SessionAction::Send).map(Some),
        (&Method::DELETE, "" | "/") => request(opening, SessionAction::End).map(Some),
        _ => Ok(None),
    }
}

/// Answers a negotiation ("`POST [endpoint-base]/negotiate` request"). For an unknown version, the answer has the newest one.
fn negotiate(opening: &Opening<'_>) -> Result<Accepted, Refusal> {
    let version = parameter(opening.request, "negotiateVersion");
    let version = NegotiateVersion::parse(version.as_deref()).ok_or_else(|| {
        let message = "negotiateVersion is not a whole number: send 0 or 1, as official clients do";
        Refusal::new(ErrorCode::BadParameter, message)
    })?;
    let token = opening.sessions.issue(opening.access.random()?, now_us()).text();
    // "Version 1": the token is secret, and the id is not.
    let id = format!("{:032x}", opening.access.random()?);
    let mut answer = Response::new(Negotiation::new(version, &id, &token).to_json());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(Accepted::Answer(answer))
}

/// Opens a connection, or accepts the next poll of one.
fn connect(opening: &Opening<'_>) -> Result<Accepted, Refusal> {
    let Opening { request, config, connection_us, .. } = *opening;
    let id = parameter(opening.request, "id");
    match Transport::asked(request, &Query::default()) {
        // "WebSockets": the id is optional. A second WebSocket of a connection is refused with 409.
        Some(Transport::WebSocket) => {
            let session = id.map(|id| opening.sessions.open(&id, Carrier::WebSocket, now_us()));
            let websocket = SubscribeRequest::websocket(request, config)?;
            let websocket = websocket.with_signalr();
            Ok(Accepted::Connection(websocket, Box::new(Hub::new(session.transpose()?))))
        }
        // "Server-Sent Events": 400 without an id, 404 if no connection has this id.
        Some(Transport::Sse) => {
            let session =
                opening.sessions.open(&id.ok_or_else(no_id)?, Carrier::Stream, now_us())?;
            let stream = SubscribeRequest::signalr_stream(request);
            Ok(Accepted::Connection(stream, Box::new(Hub::new(Some(session)))))
        }
        // "Long Polling": the first poll opens the connection.
        _ => {
            let id = id.ok_or_else(no_id)?;
            // Official clients for browsers give each poll a number.
            let number = parameter(opening.request, "_").and_then(|number| number.parse().ok());
            let poll = number.map(|number| PollId { number, connection_us });
            if let Some(poll) = opening.sessions.request(&id, SessionAction::Poll(poll))? {
                return Ok(Accepted::Session(poll));
            }
            let session = opening.sessions.open(&id, Carrier::Polls, now_us())?;
            let polls = SubscribeRequest::signalr_polls();
            Ok(Accepted::Connection(polls, Box::new(Hub::new(Some(session)))))
        }
    }
}

/// Accepts another request of a session ("HTTP Post": 400 without an id, 404 if no connection has this id).
fn request(opening: &Opening<'_>, action: SessionAction) -> Result<Accepted, Refusal> {
    let id = parameter(opening.request, "id").ok_or_else(no_id)?;
    let request = opening.sessions.request(&id, action)?;
    request.map(Accepted::Session).ok_or_else(unknown)
}

fn no_id() -> Refusal {
    let message = "the parameter id is missing: set it to the connectionToken that POST …/negotiate returned (in version 0 to the connectionId), or open a WebSocket, which needs no id";
    Refusal::new(ErrorCode::BadParameter, message)
}
