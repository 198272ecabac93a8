use std::borrow::Cow;

/// The answer without context takeover in either direction. The server may answer with `client_no_context_takeover` even
/// if the client did not offer it (RFC 7692 §7.1.1.2).
const ANSWER: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
/// The same answer to an offer with `server_max_window_bits`, which the answer must repeat (§7.1.2.1).
const ANSWER_WITH_WINDOW: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15";
/// The answer with context takeover by the server: the client must keep its window from message to message. The client
/// itself compresses without context takeover.
const IN_CONTEXT: &str = "permessage-deflate; client_no_context_takeover";
const IN_CONTEXT_WITH_WINDOW: &str =
    "permessage-deflate; client_no_context_takeover; server_max_window_bits=15";

/// The answer to an offer of permessage-deflate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateAnswer {
    /// The value of `Sec-WebSocket-Extensions`.
    pub header: &'static str,
    /// Whether messages of the server may refer to earlier ones.
    pub has_context: bool,
}

/// All parameters (RFC 7692 §7.1); each may occur once in an offer.
const PARAMETERS: [&str; 4] = [
    "server_no_context_takeover",
    "client_no_context_takeover",
    "server_max_window_bits",
    "client_max_window_bits",
];

/// Returns the answer to a request's `Sec-WebSocket-Extensions` (its lines, joined by commas): the first
/// offer of permessage-deflate that this server can fulfil (RFC 7692 §5.1). Returns `None` if there is no
/// acceptable offer, or the header is malformed (RFC 6455 §9.1). With `wants_context` the server uses context
/// takeover, unless the offer has `server_no_context_takeover`.
pub fn deflate_offer(sec_websocket_extensions: &str, wants_context: bool) -> Option<DeflateAnswer> {
    let mut header = Scanner { rest: sec_websocket_extensions };
    let mut answer = None;
    loop {
        // Elements of a list may be empty (RFC 9110 §5.6.1.2).
        while header.take(',') {}
        if header.rest.is_empty() {
            return answer;
        }
        let mut offer = Offer::new(header.token()?);
        while header.take(';') {
            let name = header.token()?;
            let value = if header.take('=') { Some(header.value()?) } else { None };
            offer.parameter(name, value.as_deref());
        }
        answer = answer.or(offer.answer(wants_context));
        if !header.rest.is_empty() && !header.take(',') {
            return None;
        }
    }
}

struct Offer {
    is_kept: bool,
    /// Which of [`PARAMETERS`] the offer has.
    has: [bool; PARAMETERS.len()],
}

impl Offer {
    fn new(name: &str) -> Self {
        Self { is_kept: name == "permessage-deflate", has: [false; PARAMETERS.len()] }
    }

    fn parameter(&mut self, name: &str, value: Option<&str>) {
        let Some(index) = PARAMETERS.iter().position(|known| *known == name) else {
            self.is_kept = false;
            return;
        };
        let can_be_kept = match index {
            0 | 1 => value.is_none(),
            // The server's window has a fixed size.
            2 => value == Some("15"),
            // The server inflates with the largest window (15 bits), so it accepts every value of the client.
            _ => value.is_none_or(is_window_bits),
        };
        self.is_kept &= can_be_kept && !self.has[index];
        self.has[index] = true;
    }

    fn answer(&self, wants_context: bool) -> Option<DeflateAnswer> {
        let [refuses_context, _, names_window, _] = self.has;
        let has_context = wants_context && !refuses_context;
        let header = match (has_context, names_window) {
            (false, false) => ANSWER,
            (false, true) => ANSWER_WITH_WINDOW,
            (true, false) => IN_CONTEXT,
            (true, true) => IN_CONTEXT_WITH_WINDOW,
        };
        self.is_kept.then_some(DeflateAnswer { header, has_context })
    }
}

/// Returns whether a value is 8 to 15, without leading zeros (RFC 7692 §7.1.2).
fn is_window_bits(value: &str) -> bool {
    matches!(value, "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15")
}

/// A scanner of the header's grammar, which allows space around every element.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, separator: char) -> bool {
        self.skip_space();
        let Some(rest) = self.rest.strip_prefix(separator) else { return false };
        self.rest = rest;
        self.skip_space();
        true
    }

    fn token(&mut self) -> Option<&'a str> {
        self.skip_space();
        let end = self.rest.find(|c| !is_token_character(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.skip_space();
        (!token.is_empty()).then_some(token)
    }

    /// Returns a token, or a quoted string that holds one (RFC 6455 §9.1).
    fn value(&mut self) -> Option<Cow<'a, str>> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            return self.token().map(Cow::Borrowed);
        };
        let mut value = String::new();
        let mut characters = quoted.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(characters.next()?),
                character => value.push(character),
            }
        }
        self.rest = characters.as_str();
        self.skip_space();
        let is_token = !value.is_empty() && value.chars().all(is_token_character);
        is_token.then_some(Cow::Owned(value))
    }
}

/// Returns whether a token may contain a character (RFC 9110 §5.6.2).
fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Option<&str> = Some(ANSWER);
    const WINDOW: Option<&str> = Some(ANSWER_WITH_WINDOW);

    #[track_caller]
    fn check(header: &str, expected: Option<&str>) {
        let answer = |header: &str| deflate_offer(header, false).map(|answer| answer.header);
        assert_eq!(answer(header), expected, "{header}");
        let spaced = header.replace(',', " ,\t").replace(';', "  ; ").replace('=', " = ");
        assert_eq!(answer(&format!(" ,{spaced}\t, ")), expected, "{spaced}");
        let second = format!("x-other; mode=\"fast\", {header}");
        assert_eq!(answer(&second), expected, "{second}");
    }

    #[test]
    fn the_context_is_taken_over_unless_the_client_forbids_it() {
        let answer = |offer: &str| deflate_offer(offer, true);
        let expected = |header, has_context| Some(DeflateAnswer { header, has_context });
        for offer in ["permessage-deflate", "permessage-deflate; client_no_context_takeover"] {
            assert_eq!(answer(offer), expected(IN_CONTEXT, true));
        }
        let window = "permessage-deflate; server_max_window_bits=15";
        assert_eq!(answer(window), expected(IN_CONTEXT_WITH_WINDOW, true));
        let alone = "permessage-deflate; server_no_context_takeover";
        assert_eq!(answer(alone), expected(ANSWER, false));
        let less = "permessage-deflate; server_max_window_bits=12";
        assert_eq!(answer(less), None);
    }

    #[test]
    fn offers_of_browsers_are_granted() {
        check("permessage-deflate; client_max_window_bits", PLAIN);
        check("permessage-deflate", PLAIN);
    }

    #[test]
    fn an_offer_is_accepted_if_the_server_can_obey_it() {
        check("permessage-deflate; server_no_context_takeover", PLAIN);
        check("permessage-deflate; client_no_context_takeover", PLAIN);
        check("permessage-deflate; client_max_window_bits=8", PLAIN);
        check("permessage-deflate; client_max_window_bits=15", PLAIN);
        check("permessage-deflate; server_max_window_bits=15", WINDOW);
        check("permessage-deflate; server_max_window_bits=\"15\"", WINDOW);
        check("permessage-deflate; server_max_window_bits=\"1\\5\"", WINDOW);
        let all = "permessage-deflate; client_max_window_bits; server_max_window_bits=15; \
                   client_no_context_takeover; server_no_context_takeover";
        check(all, WINDOW);
    }

    #[test]
    fn another_offer_is_declined() {
        for parameter in [
            "server_max_window_bits=14",
            "server_max_window_bits=8",
            "server_max_window_bits=16",
            "server_max_window_bits=015",
            "server_max_window_bits",
            "client_max_window_bits=7",
            "client_max_window_bits=16",
            "client_max_window_bits=08",
            "client_max_window_bits=x",
            "server_no_context_takeover=1",
            "client_no_context_takeover=true",
            "unknown",
            "unknown=1",
            "Server_No_Context_Takeover",
            "server_no_context_takeover; server_no_context_takeover",
            "client_no_context_takeover; client_no_context_takeover",
            "client_max_window_bits; client_max_window_bits=10",
            "server_max_window_bits=15; server_max_window_bits=15",
        ] {
            let declined = format!("permessage-deflate; {parameter}");
            check(&declined, None);
            check(&format!("{declined}, permessage-deflate"), PLAIN);
            check(&format!("permessage-deflate; server_max_window_bits=15, {declined}"), WINDOW);
        }
        check("x-webkit-deflate-frame", None);
        check("permessage-deflat", None);
        check("permessage-deflate2; server_no_context_takeover", None);
        check("", None);
    }

    #[test]
    fn the_first_offer_that_can_be_kept_is_granted() {
        let offers = "permessage-deflate; server_max_window_bits=10, \
                      permessage-deflate; server_max_window_bits=15, permessage-deflate";
        check(offers, WINDOW);
        check("permessage-deflate, permessage-deflate; server_max_window_bits=15", PLAIN);
    }

    #[test]
    fn a_malformed_header_offers_nothing() {
        for bad in [
            "permessage-deflate;",
            "permessage-deflate; ;",
            "; permessage-deflate",
            "permessage-deflate permessage-deflate",
            "permessage-deflate; client_max_window_bits=",
            "permessage-deflate; =15",
            "permessage-deflate; server_max_window_bits=\"15",
            "permessage-deflate; server_max_window_bits=\"15\\",
            "permessage-deflate; server_max_window_bits=\"\"",
            "permessage-deflate; server_max_window_bits=\"1 5\"",
            "permessage-deflate; server_max_window_bits=15\"",
            "permessage-deflate; server_max_window_bits=15 15",
            "permessage-deflate/1",
            "permessage-deflate; a=é",
            "\"permessage-deflate\"",
        ] {
            check(bad, None);
            check(&format!("permessage-deflate, {bad}"), None);
        }
    }
}
