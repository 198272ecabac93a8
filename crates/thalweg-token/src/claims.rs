use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use thalweg_wire::{Excerpt, Topic, limits::MEMBER_INFO_BYTES};

use crate::{
    error::TokenError,
    rights::{Rights, TopicScope, Topics},
};

/// The default name of the claim with the topics.
pub const CLAIM: &str = "thalweg";

/// Stands for the token's subject in a pattern.
const SUBJECT: &str = "{sub}";

/// Maximum patterns of one right, because a check tests all of them.
const PATTERNS_MAX: usize = 64;

/// The claims of a token (RFC 7519 §4.1), unchecked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Claims {
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// The issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The audience: one text, or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    /// The expiry, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<Number>,
    /// The time from which the token is valid, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<Number>,
    /// All other claims.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The audience of a token (RFC 7519 §4.1.3).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One audience.
    One(String),
    /// Any of these.
    Several(Vec<String>),
}

/// The server's requirements for the claims of tokens.
#[derive(Debug, Clone)]
pub struct Expectations {
    /// The issuer. Without it, a token of any issuer with a known key is valid.
    pub issuer: Option<String>,
    /// The audience. Without it, a token must not name any.
    pub audience: Option<String>,
    /// The name of the claim with the topics.
    pub claim: String,
    /// The tolerated difference between clocks, in seconds.
    pub leeway_s: u64,
}

impl Default for Expectations {
    fn default() -> Self {
        Self { issuer: None, audience: None, claim: CLAIM.to_owned(), leeway_s: 30 }
    }
}

/// A token's grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The subject.
    pub subject: String,
    /// The expiry, in seconds since 1970.
    pub ends_s: u64,
    /// The rights of the holder.
    pub rights: Rights,
    /// The description of the holder for other members of its topics, as JSON.
    pub info: Option<String>,
}

/// The contents of the claim with the topics.
pub(crate) struct TopicsGranted {
    pub(crate) rights: Rights,
    pub(crate) info: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TopicsClaim {
    subscribe: Vec<String>,
    publish: Vec<String>,
    inspect: Vec<String>,
    admin: bool,
    info: Option<Value>,
}

impl Claims {
    /// Parses the claims of a token. `null` means an absent claim.
    ///
    /// # Errors
    /// Fails if the text is not a JSON object, or a claim has a wrong type.
    pub fn parse(json: &[u8]) -> Result<Self, TokenError> {
        let mut others: Map<String, Value> =
            serde_json::from_slice(json).map_err(|_| TokenError::NoObject("claims"))?;
        let mut taken = |name: &str| others.remove(name).filter(|value| !value.is_null());
        let text = |name, value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(TokenError::Type(name, "a text")),
        };
        let number = |name, value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(_) => Err(TokenError::Malformed(name)),
        };
        let audience = |value: Value| {
            Audience::deserialize(value)
                .map_err(|_| TokenError::Type("claim aud", "a text or a list of texts"))
        };
        Ok(Self {
            sub: text("claim sub", taken("sub"))?,
            iss: text("claim iss", taken("iss"))?,
            aud: taken("aud").map(audience).transpose()?,
            exp: number("exp", taken("exp"))?,
            nbf: number("nbf", taken("nbf"))?,
            others,
        })
    }

    /// Returns the grant of these claims at `now_s`, in seconds since 1970.
    ///
    /// # Errors
    /// Returns the first missing or invalid claim.
    pub fn granted(self, expected: &Expectations, now_s: u64) -> Result<Granted, TokenError> {
        if let Some(refusal) = self.refusals(expected, now_s).into_iter().next() {
            return Err(refusal);
        }
        let TopicsGranted { rights, info } = self.topics(expected)?;
        let ends_s = self.ends_s(expected)?;
        let subject = self.sub.ok_or(TokenError::Missing("sub"))?;
        Ok(Granted { subject, ends_s, rights, info })
    }

    /// Returns all reasons why a server rejects these claims at `now_s`, apart from the topics.
    pub(crate) fn refusals(&self, expected: &Expectations, now_s: u64) -> Vec<TokenError> {
        let checks = [
            self.check_end(expected, now_s),
            self.check_beginning(expected, now_s),
            self.check_issuer(expected),
            self.check_audience(expected),
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the expiry with the leeway, in seconds since 1970. Fails with `Missing` or `Malformed`.
    pub(crate) fn ends_s(&self, expected: &Expectations) -> Result<u64, TokenError> {
        let ends_s = self.exp.as_ref().ok_or(TokenError::Missing("exp"))?;
        let ends_s = seconds(ends_s).ok_or(TokenError::Malformed("exp"))?;
        // `as` saturates: nobody lives to see a time beyond 2^64 s.
        Ok((ends_s + expected.leeway_s as f64) as u64)
    }

    /// Returns the contents of the claim with the topics, whether or not a server accepts the token. Fails with `Missing`, `NoTopics`
    /// or `Topics`.
    pub(crate) fn topics(&self, expected: &Expectations) -> Result<TopicsGranted, TokenError> {
        let subject = self.sub.as_ref().ok_or(TokenError::Missing("sub"))?;
        let claim = self.others.get(&expected.claim);
        let claim = claim.ok_or_else(|| TokenError::NoTopics(expected.claim.clone()))?;
        topics_granted(claim, subject)
            .map_err(|why| TokenError::Topics(expected.claim.clone(), why))
    }

    fn check_end(&self, expected: &Expectations, now_s: u64) -> Result<(), TokenError> {
        if self.ends_s(expected)? <= now_s { Err(TokenError::Expired) } else { Ok(()) }
    }

    fn check_beginning(&self, expected: &Expectations, now_s: u64) -> Result<(), TokenError> {
        let Some(begins_s) = &self.nbf else { return Ok(()) };
        let begins_s = seconds(begins_s).ok_or(TokenError::Malformed("nbf"))?;
        let is_begun = begins_s <= now_s as f64 + expected.leeway_s as f64;
        if is_begun { Ok(()) } else { Err(TokenError::NotYetValid) }
    }

    fn check_issuer(&self, expected: &Expectations) -> Result<(), TokenError> {
        match (&self.iss, &expected.issuer) {
            (_, None) => Ok(()),
            (None, Some(_)) => Err(TokenError::Missing("iss")),
            (Some(own), Some(issuer)) if own == issuer => Ok(()),
            (Some(_), Some(_)) => Err(TokenError::OtherIssuer),
        }
    }

    /// Checks the audience. A token that names one is for nobody else (RFC 7519 §4.1.3).
    fn check_audience(&self, expected: &Expectations) -> Result<(), TokenError> {
        match (&self.aud, &expected.audience) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(TokenError::Missing("aud")),
            (Some(_), None) => Err(TokenError::OtherAudience),
            (Some(Audience::One(own)), Some(audience)) if own == audience => Ok(()),
            (Some(Audience::Several(own)), Some(audience)) if own.contains(audience) => Ok(()),
            (Some(_), Some(_)) => Err(TokenError::OtherAudience),
        }
    }
}

fn seconds(number: &Number) -> Option<f64> {
    number.as_f64().filter(|seconds| seconds.is_finite())
}

/// Returns the contents of a claim, or one sentence with the problem.
fn topics_granted(claim: &Value, subject: &str) -> Result<TopicsGranted, String> {
    // serde would read a list as the rights in their declared order.
    if !claim.is_object() {
        return Err("write an object such as {\"subscribe\":[\"public/**\"]}".to_owned());
    }
    let claim = TopicsClaim::deserialize(claim).map_err(|error| error.to_string())?;
    let topics = |right: &str, patterns: Vec<String>| -> Result<Topics, String> {
        if patterns.len() > PATTERNS_MAX {
            return Err(format!("{right} has more than {PATTERNS_MAX} patterns"));
        }
        let pattern = |text: String| {
            pattern(&text, subject).map_err(|why| format!("{right}: {}: {why}", Excerpt(&text)))
        };
        patterns.into_iter().map(pattern).collect()
    };
    let info = claim.info.map(|info| info.to_string());
    if let Some(info) = info.as_ref().filter(|info| info.len() > MEMBER_INFO_BYTES) {
        let bytes = info.len();
        return Err(format!("info has {bytes} bytes as JSON: write at most {MEMBER_INFO_BYTES}"));
    }
    let rights = Rights {
        subscribe: topics("subscribe", claim.subscribe)?,
        publish: topics("publish", claim.publish)?,
        inspect: topics("inspect", claim.inspect)?,
        admin: claim.admin,
    };
    if rights.inspect.have_limits() {
        return Err("inspect cannot be limited to keys: remove ?key= and ?prefix=".to_owned());
    }
    Ok(TopicsGranted { rights, info })
}

/// Parses a pattern with the subject inserted. The subject must be one segment without wildcards: a user who chooses
/// the subject could otherwise choose the rights.
fn pattern(text: &str, subject: &str) -> Result<TopicScope, String> {
    if !text.contains(SUBJECT) {
        return text.parse();
    }
    let is_name = !subject.contains('/') && subject.parse::<Topic>().is_ok();
    if !is_name {
        return Err(format!(
            "the subject is not a segment of a topic, so {SUBJECT} cannot stand for it"
        ));
    }
    text.replace(SUBJECT, subject).parse()
}
