//! The answer to `POST [endpoint-base]/negotiate`.

use serde::Serialize;

/// The version of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NegotiateVersion {
    /// The connection id identifies the connection in URLs.
    Zero,
    /// A secret token identifies the connection in URLs.
    One,
}

/// An answer: the ids of a connection, and the transports that the client may choose.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Negotiation<'a> {
    negotiate_version: u8,
    connection_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_token: Option<&'a str>,
    available_transports: [AvailableTransport; 3],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AvailableTransport {
    transport: &'static str,
    transfer_formats: [&'static str; 1],
}

/// The transports in the order of preference. Hub messages are JSON, so no transport needs binary transfer ("Transfer Formats").
const TRANSPORTS: [&str; 3] = ["WebSockets", "ServerSentEvents", "LongPolling"];

impl NegotiateVersion {
    /// Returns the version for a client that names `negotiateVersion` in its query; `None` if that is no number. A
    /// version newer than 1 counts as 1.
    pub fn parse(version: Option<&str>) -> Option<Self> {
        match version.map(str::parse::<u32>) {
            None | Some(Ok(0)) => Some(Self::Zero),
            Some(Ok(_)) => Some(Self::One),
            Some(Err(_)) => None,
        }
    }
}

impl<'a> Negotiation<'a> {
    /// Returns the answer for a connection with a secret token. `id` names it to the client; version 0 has no such id.
    pub fn new(version: NegotiateVersion, id: &'a str, token: &'a str) -> Self {
        let (number, id, token) = match version {
            NegotiateVersion::Zero => (0, token, None),
            NegotiateVersion::One => (1, id, Some(token)),
        };
        let available_transports = TRANSPORTS
            .map(|transport| AvailableTransport { transport, transfer_formats: ["Text"] });
        Self {
            negotiate_version: number,
            connection_id: id,
            connection_token: token,
            available_transports,
        }
    }

    /// Returns the answer as JSON. It offers no stateful reconnect (`useStatefulReconnect`).
    pub fn to_json(&self) -> Vec<u8> {
        // Serializing this cannot fail: each value has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_newest_that_both_have() {
        let check =
            |text, expected| assert_eq!(NegotiateVersion::parse(text), expected, "{text:?}");
        check(None, Some(NegotiateVersion::Zero));
        check(Some("0"), Some(NegotiateVersion::Zero));
        check(Some("1"), Some(NegotiateVersion::One));
        check(Some("7"), Some(NegotiateVersion::One));
        check(Some("-1"), None);
        check(Some(""), None);
    }

    #[test]
    fn version_0_has_no_token() {
        let json =
            |version| String::from_utf8(Negotiation::new(version, "i", "t").to_json()).unwrap();
        let zero = json(NegotiateVersion::Zero);
        assert!(
            zero.starts_with(r#"{"negotiateVersion":0,"connectionId":"t","availableTr"#),
            "{zero}"
        );
        let one = json(NegotiateVersion::One);
        let expected = r#"{"negotiateVersion":1,"connectionId":"i","connectionToken":"t","availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]},{"transport":"ServerSentEvents","transferFormats":["Text"]},{"transport":"LongPolling","transferFormats":["Text"]}]}"#;
        assert_eq!(one, expected);
    }
}
