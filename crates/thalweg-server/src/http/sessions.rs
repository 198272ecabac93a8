//! Requests of sessions. Over every transport but WebSocket, a client sends its records in such requests, and may poll for messages.
//! Quoted names are those of sections in SignalR's `TransportProtocols.md`.

use std::{rc::Rc, sync::Arc};

use http::{StatusCode, request::Parts};
use thalweg_wire::{ErrorCode, limits::COMMAND_BYTES_MAX};
use tokio::time::sleep;

use super::{
    body::RequestBody,
    context::Http,
    post::{client_permits, reject_encoded},
    respond::{Answer, ErrorResponse, empty},
};
use crate::{
    access::Holder,
    config::{SIGNALR_POLL_LEAST, SIGNALR_POLL_WAIT},
    connection_limits::Requester,
    protocol::{SessionAction, SessionRequest, unknown_session},
    refusal::Refusal,
    shard::Polled,
    transport::{Client, head},
};

/// A request of a session, and the holder of its token.
pub(super) struct OpenRequest {
    pub(super) session: SessionRequest,
    pub(super) holder: Arc<Holder>,
}

/// Answers a request of a session. Fails if the session belongs to another client or has ended, or if its records are refused.
pub(super) async fn answer(
    http: &Rc<Http>,
    OpenRequest { session, holder }: OpenRequest,
    requester: &Requester,
    parts: &Parts,
    body: &mut RequestBody,
) -> Result<Answer, ErrorResponse> {
    if session.client != holder.identity {
        let message = "the connection with this id belongs to another token: negotiate again";
        return Err(Refusal::new(ErrorCode::Forbidden, message).into());
    }
    match session.action {
        SessionAction::Send => {
            reject_encoded(parts)?;
            let client = Client::new(&holder, requester);
            let permits = client_permits(http, &holder, client);
            let permit = permits.try_take()?;
            // "HTTP Post": the answer follows when all records are processed. Clients then send the next
            // request, which keeps their messages in order ("Transport Requirements" in `HubProtocol.md`).
            let records = records(http, &holder, body).await?;
            http.shard.send_records(session.place, records, permit).await?;
            Ok(empty(StatusCode::OK))
        }
        SessionAction::Poll(id) => {
            if id.is_some() {
                // Clients number their polls in milliseconds, so the next poll must have a later number. The wait comes
                // first, so that the poll gets all messages of this time.
                sleep(SIGNALR_POLL_LEAST).await;
            }
            let polled = http.shard.poll(session.place, SIGNALR_POLL_WAIT).await?;
            // "Long Polling": 200 with an empty body if no messages came in time, and 204 if the
            // connection has ended, or a newer poll waits.
            match polled {
                Polled::Messages(messages) => Ok(head::messages().map(|_| messages.into())),
                Polled::Ended => Ok(empty(StatusCode::NO_CONTENT)),
            }
        }
        SessionAction::Repeat => {
            http.shard.end_session(session.place).await?;
            Err(unknown_session().into())
        }
        // "Long Polling": the client ends the connection, and its last poll gets 204. The section has no
        // status for this request; ASP.NET Core answers 202.
        SessionAction::End => {
            http.shard.end_session(session.place).await?;
            Ok(empty(StatusCode::ACCEPTED))
        }
    }
}

/// Reads the records of a request, which together may be as long as one WebSocket message.
async fn records(http: &Http, holder: &Holder, body: &mut RequestBody) -> Result<String, Refusal> {
    let bytes_max = match http.access().lets_publish(holder) {
        true => http.limits().command_bytes(),
        false => COMMAND_BYTES_MAX,
    };
    let too_large = || {
        let message = format!(
            "the messages of the request are larger than {bytes_max} bytes: send fewer in each request"
        );
        Refusal::new(ErrorCode::EventTooLarge, message)
    };
    let body = http.whole(body, bytes_max, too_large).await?;
    String::from_utf8(body).map_err(|_| {
        Refusal::new(ErrorCode::BadCommand, "the messages are not UTF-8: send JSON in UTF-8")
    })
}
