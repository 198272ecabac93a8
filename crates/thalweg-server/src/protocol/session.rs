//! Sessions: connections that a client has negotiated. Unless a session is a WebSocket, its client sends
//! messages in separate HTTP requests, which contain the token of the session.
//!
//! A negotiation takes no memory, because the server signs the token. The server keeps a session while it has
//! a connection, which holds a permit. It remembers the id of an ended session until its token expires.
//! Quoted names are those of sections in SignalR's `TransportProtocols.md`.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ring::hmac;
use thalweg_wire::ErrorCode;

use crate::{
    access::Identity,
    config::{ENDED_SESSIONS_MAX, NEGOTIATION_LIFE_US},
    refusal::Refusal,
};

/// Where a connection is: its shard, and its key and serial there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionPlace {
    pub(crate) shard: usize,
    pub(crate) key: u32,
    pub(crate) serial: u64,
}

#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) place: SessionPlace,
    /// The client of the session's connection. Only its requests are accepted.
    pub(crate) client: Identity,
    pub(crate) action: SessionAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionAction {
    /// The body of the request has records.
    Send,
    /// The request waits for messages.
    Poll(Option<PollId>),
    /// The browser has repeated a poll by itself, because it did not receive the answer. The messages in that
    /// answer are lost, so the server ends the session.
    Repeat,
    End,
}

/// Identifies a poll: the number in its URL, which official clients set to the time in ms, and the time at
/// which its HTTP connection was opened, in µs. A browser repeats a poll with the same number over another
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PollId {
    pub(crate) number: u64,
    pub(crate) connection_us: u64,
}

impl PollId {
    fn repeats(self, last: Self) -> bool {
        self.number == last.number && self.connection_us != last.connection_us
    }
}

/// How the server sends messages to the client of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A WebSocket, which also receives.
    WebSocket,
    /// A response without an end.
    Stream,
    /// The responses to polls.
    Polls,
}

/// The sessions of a server, and the key of their tokens.
pub(crate) struct Sessions {
    key: hmac::Key,
    table: Mutex<SessionTable>,
}

#[derive(Debug, Default)]
struct SessionTable {
    sessions: HashMap<u128, SessionState>,
    /// Ended sessions: when the token of each expires, in µs, and its id. Until then the token must not open
    /// a session again ("HTTP Post": a connection that was terminated is not found, 404).
    ended: VecDeque<(u64, u128)>,
}

#[derive(Debug, Clone, Copy)]
enum SessionState {
    /// Its connection is being opened.
    Opening,
    Open {
        carrier: Carrier,
        place: SessionPlace,
        client: Identity,
        last_poll: Option<PollId>,
    },
    Ended,
}

impl SessionTable {
    /// Forgets ended sessions whose tokens have expired and, above the maximum, the oldest ones.
    fn forget_ended(&mut self, now_us: u64) {
        while let Some((end_us, id)) = self.ended.front().copied()
            && (end_us < now_us || self.ended.len() > ENDED_SESSIONS_MAX)
        {
            self.ended.pop_front();
            self.sessions.remove(&id);
        }
    }
}

/// A token: a random number, when it was issued, and a signature of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionToken {
    id: u128,
    issued_us: u64,
    signature: [u8; SIGNATURE_BYTES],
}

/// Bytes of a signature: half of SHA-256, as RFC 2104 §5 allows.
const SIGNATURE_BYTES: usize = 16;

const TOKEN_LEN: usize = 2 * (16 + 8 + SIGNATURE_BYTES);

/// A session, which ends when this is dropped.
pub(crate) struct SessionGuard {
    sessions: Arc<Sessions>,
    token: SessionToken,
    carrier: Carrier,
}

impl fmt::Debug for SessionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is part of a secret.
        f.write_str("(session)")
    }
}

impl SessionToken {
    /// Parses a token. Does not check its signature.
    fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != TOKEN_LEN || !is_hex {
            return None;
        }
        let (id, rest) = text.split_at(32);
        let (issued_us, signature) = rest.split_at(16);
        Some(Self {
            id: u128::from_str_radix(id, 16).ok()?,
            issued_us: u64::from_str_radix(issued_us, 16).ok()?,
            signature: u128::from_str_radix(signature, 16).ok()?.to_be_bytes(),
        })
    }

    pub(crate) fn text(&self) -> String {
        let signature = u128::from_be_bytes(self.signature);
        format!("{:032x}{:016x}{signature:032x}", self.id, self.issued_us)
    }

    fn signed_bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.id.to_be_bytes());
        bytes[16..].copy_from_slice(&self.issued_us.to_be_bytes());
        bytes
    }
}

impl Sessions {
    /// Creates an empty table. The key consists of random bytes and signs the tokens.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), table: Mutex::default() }
    }

    /// Returns a token for a client that negotiates.
    pub(crate) fn issue(&self, random: u128, now_us: u64) -> SessionToken {
        let token = SessionToken { id: random, issued_us: now_us, signature: Default::default() };
        let mut signature = [0; SIGNATURE_BYTES];
        let whole = hmac::sign(&self.key, &token.signed_bytes());
        signature.copy_from_slice(&whole.as_ref()[..SIGNATURE_BYTES]);
        SessionToken { signature, ..token }
    }

    /// Opens the session of a token, which must have been issued a short time ago. Fails with `NotFound` for
    /// a token that is not valid or whose session has ended ("WebSockets", "Server-Sent Events" and
    /// "Long Polling": 404 for an unknown id), and `InUse` if its session is open ("WebSockets": 409 for
    /// a second WebSocket).
    pub(crate) fn open(
        self: &Arc<Self>,
        token: &str,
        carrier: Carrier,
        now_us: u64,
    ) -> Result<SessionGuard, Refusal> {
        let token = SessionToken::parse(token).ok_or_else(unknown)?;
        let expected = self.issue(token.id, token.issued_us);
        let is_signed = subtle::ConstantTimeEq::ct_eq(&expected.signature[..], &token.signature);
        if !bool::from(is_signed) || now_us.saturating_sub(token.issued_us) > NEGOTIATION_LIFE_US {
            return Err(unknown());
        }
        let mut table = self.lock();
        table.forget_ended(now_us);
        match table.sessions.entry(token.id) {
            Entry::Occupied(session) => Err(match session.get() {
                SessionState::Ended => unknown(),
                SessionState::Opening | SessionState::Open { .. } => in_use(),
            }),
            Entry::Vacant(entry) => {
                entry.insert(SessionState::Opening);
                Ok(SessionGuard { sessions: Arc::clone(self), token, carrier })
            }
        }
    }

    /// Returns where to deliver a request, if the session of the token is open. Fails with `InUse` if its
    /// connection is being opened, or its transport does not accept this kind of request. ("HTTP Post" is for
    /// connections over Server-Sent Events and long polling only, and a request that is refused with 409 leaves
    /// the connection open.)
    pub(crate) fn request(
        &self,
        token: &str,
        action: SessionAction,
    ) -> Result<Option<SessionRequest>, Refusal> {
        let Some(token) = SessionToken::parse(token) else { return Ok(None) };
        let mut table = self.lock();
        let (carrier, place, client, last_poll) = match table.sessions.get_mut(&token.id) {
            None | Some(SessionState::Ended) => return Ok(None),
            Some(SessionState::Opening) => return Err(in_use()),
            Some(SessionState::Open { carrier, place, client, last_poll }) => {
                (*carrier, *place, *client, last_poll)
            }
        };
        let action = match (action, carrier) {
            // "Long Polling": a poll may come while the server believes that an earlier one waits.
            (SessionAction::Poll(poll), Carrier::Polls) => {
                let last_poll = std::mem::replace(last_poll, poll);
                let is_repeated =
                    poll.zip(last_poll).is_some_and(|(poll, last)| poll.repeats(last));
                if is_repeated { SessionAction::Repeat } else { action }
            }
            (SessionAction::Poll(_), Carrier::Stream) | (_, Carrier::WebSocket) => {
                return Err(in_use());
            }
            (_, Carrier::Stream | Carrier::Polls) => action,
        };
        Ok(Some(SessionRequest { place, client, action }))
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionGuard {
    pub(crate) fn opened(&self, place: SessionPlace, client: Identity) {
        let carrier = self.carrier;
        let state = SessionState::Open { carrier, place, client, last_poll: None };
        self.sessions.lock().sessions.insert(self.token.id, state);
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let SessionToken { id, issued_us, .. } = self.token;
        let mut table = self.sessions.lock();
        table.sessions.insert(id, SessionState::Ended);
        table.ended.push_back((issued_us.saturating_add(NEGOTIATION_LIFE_US), id));
    }
}

pub(crate) fn unknown() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "no connection has this id: negotiate again")
}

/// Returns the refusal of a request that conflicts with the state of its session.
pub(crate) fn in_use() -> Refusal {
    let message =
        "another request or transport already uses the connection with this id: negotiate again";
    Refusal::new(ErrorCode::InUse, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;

    const NOW_US: u64 = 5_000_000;

    fn sessions() -> Arc<Sessions> {
        Arc::new(Sessions::new(&[7; 32]))
    }

    impl Sessions {
        /// Returns the number of sessions, ended ones included.
        fn count(&self) -> usize {
            self.lock().sessions.len()
        }
    }

    fn code<T>(result: Result<T, Refusal>) -> Option<ErrorCode> {
        result.err().map(|refusal| refusal.code)
    }

    #[test]
    fn a_token_opens_one_session_at_a_time_and_not_for_long() {
        let sessions = sessions();
        let token = sessions.issue(1, NOW_US).text();
        assert_eq!(sessions.count(), 0, "a token takes no memory");
        let open = |now_us| sessions.open(&token, Carrier::Polls, now_us);
        let session = open(NOW_US + NEGOTIATION_LIFE_US).unwrap();
        assert_eq!(code(open(NOW_US)), Some(ErrorCode::InUse));
        drop(session);
        assert_eq!(code(open(NOW_US)), Some(ErrorCode::NotFound), "it has ended");
        assert_eq!(code(open(NOW_US + NEGOTIATION_LIFE_US + 1)), Some(ErrorCode::NotFound));
    }

    #[test]
    fn sessions_that_have_ended_are_forgotten() {
        let sessions = sessions();
        let open = |random, now_us| {
            let token = sessions.issue(random, now_us).text();
            sessions.open(&token, Carrier::Stream, now_us).unwrap()
        };
        for random in 0..2 * ENDED_SESSIONS_MAX as u128 {
            drop(open(random, NOW_US));
        }
        assert!(sessions.count() <= ENDED_SESSIONS_MAX + 1);
        let _open = open(u128::MAX, NOW_US + NEGOTIATION_LIFE_US + 1);
        assert_eq!(sessions.count(), 1);
    }

    #[test]
    fn a_token_that_was_changed_opens_none() {
        let sessions = sessions();
        let token = sessions.issue(u128::MAX, NOW_US).text();
        assert_eq!(token.len(), TOKEN_LEN);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            let opened = sessions.open(&changed, Carrier::Stream, NOW_US);
            assert_eq!(code(opened), Some(ErrorCode::NotFound), "{at}");
        }
        for other in ["", "x", &token[1..], &format!("{token}0"), &token.to_uppercase()] {
            let opened = sessions.open(other, Carrier::Stream, NOW_US);
            assert_eq!(code(opened), Some(ErrorCode::NotFound), "{other}");
        }
        let elsewhere = Arc::new(Sessions::new(&[8; 32]));
        assert_eq!(
            code(elsewhere.open(&token, Carrier::Stream, NOW_US)),
            Some(ErrorCode::NotFound)
        );
    }

    #[test]
    fn requests_reach_the_connection_that_takes_them() {
        use SessionAction::{End, Send};
        const POLL: SessionAction = SessionAction::Poll(None);
        let sessions = sessions();
        let place = SessionPlace { shard: 1, key: 2, serial: 3 };
        let client = Identity::new(Kind::Nobody, "");
        for (random, carrier, taken) in [
            (1, Carrier::WebSocket, vec![]),
            (2, Carrier::Stream, vec![Send, End]),
            (3, Carrier::Polls, vec![Send, POLL, End]),
        ] {
            let token = sessions.issue(random, NOW_US).text();
            assert!(sessions.request(&token, Send).unwrap().is_none(), "not open");
            let session = sessions.open(&token, carrier, NOW_US).unwrap();
            assert_eq!(
                code(sessions.request(&token, Send)),
                Some(ErrorCode::InUse),
                "being opened"
            );
            session.opened(place, client);
            for action in [Send, POLL, End] {
                let request = sessions.request(&token, action);
                if taken.contains(&action) {
                    let request = request.unwrap().unwrap();
                    assert_eq!((request.place, request.client), (place, client));
                } else {
                    assert_eq!(code(request), Some(ErrorCode::InUse), "{carrier:?} {action:?}");
                }
            }
        }
        assert!(sessions.request("nonsense", End).unwrap().is_none());
    }

    #[test]
    fn a_poll_that_a_browser_repeats_is_told_from_the_next_one() {
        let sessions = sessions();
        let token = sessions.issue(1, NOW_US).text();
        let session = sessions.open(&token, Carrier::Polls, NOW_US).unwrap();
        let place = SessionPlace { shard: 1, key: 2, serial: 3 };
        session.opened(place, Identity::new(Kind::Nobody, ""));
        let poll = |number, connection_us| {
            let poll = SessionAction::Poll(Some(PollId { number, connection_us }));
            sessions.request(&token, poll).unwrap().unwrap().action == SessionAction::Repeat
        };
        assert!(!poll(1, 1));
        assert!(!poll(1, 1), "over the same connection");
        assert!(!poll(2, 2), "the next one, over another connection");
        assert!(poll(2, 3));
        let unnumbered = sessions.request(&token, SessionAction::Poll(None)).unwrap().unwrap();
        assert_eq!(unnumbered.action, SessionAction::Poll(None));
    }
}
