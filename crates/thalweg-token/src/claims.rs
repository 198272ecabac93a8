use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use thalweg_wire::{Excerpt, Pattern, Topic};

use crate::{
    error::TokenError,
    rights::{Rights, Topics},
};

/// The claim that names topics, unless it is configured otherwise.
pub const CLAIM: &str = "thalweg";

/// What stands for the token's subject in a pattern.
const SUBJECT: &str = "{sub}";

/// Patterns of one right at most: a check looks at all of them.
const PATTERNS_MAX: usize = 64;

/// The claims of a token (RFC 7519 §4.1), as they stand in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Claims {
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// For whom: one text, or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    /// From when on it is not valid any more, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<Number>,
    /// From when on it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<Number>,
    /// All others.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// For whom a token is (RFC 7519 §4.1.3).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Any of these.
    Several(Vec<String>),
}

/// What tokens must say.
#[derive(Debug, Clone)]
pub struct Expectations {
    /// Who made it. Anybody with a key, if this is not said.
    pub issuer: Option<String>,
    /// For whom it is. Without this it must be for nobody in particular.
    pub audience: Option<String>,
    /// The name of the claim of topics.
    pub claim: String,
    /// How far clocks may be apart, in seconds.
    pub leeway_s: u64,
}

impl Default for Expectations {
    fn default() -> Self {
        Self { issuer: None, audience: None, claim: CLAIM.to_owned(), leeway_s: 30 }
    }
}

/// What a token grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Whose it is.
    pub subject: String,
    /// From when on it is not valid any more, in seconds since 1970.
    pub ends_s: u64,
    /// What it lets its holder do.
    pub rights: Rights,
}

/// The claim of topics.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TopicsClaim {
    subscribe: Vec<String>,
    publish: Vec<String>,
    inspect: Vec<String>,
    admin: bool,
}

impl Claims {
    /// Reads the claims of a token. `null` is as good as nothing.
    ///
    /// # Errors
    /// When they are no JSON object, or one of them is of a type that it must not be.
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

    /// Returns what these claims grant at `now_s`, in seconds since 1970.
    ///
    /// # Errors
    /// What is missing or wrong in them.
    pub fn granted(self, expected: &Expectations, now_s: u64) -> Result<Granted, TokenError> {
        if let Some(refusal) = self.refusals(expected, now_s).into_iter().next() {
            return Err(refusal);
        }
        let rights = self.rights(expected)?;
        let ends_s = self.ends_s(expected)?;
        let subject = self.sub.ok_or(TokenError::Missing("sub"))?;
        Ok(Granted { subject, ends_s, rights })
    }

    /// Why a server does not take these claims at `now_s`, whatever they name.
    pub(crate) fn refusals(&self, expected: &Expectations, now_s: u64) -> Vec<TokenError> {
        let checks = [
            self.check_end(expected, now_s),
            self.check_beginning(expected, now_s),
            self.check_issuer(expected),
            self.check_audience(expected),
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    /// Returns when these claims end, in seconds since 1970, with the leeway.
    ///
    /// # Errors
    /// `Missing`, `Malformed`.
    pub(crate) fn ends_s(&self, expected: &Expectations) -> Result<u64, TokenError> {
        let ends_s = self.exp.as_ref().ok_or(TokenError::Missing("exp"))?;
        let ends_s = seconds(ends_s).ok_or(TokenError::Malformed("exp"))?;
        // A time beyond 2^64 s is none that anybody lives to see.
        Ok((ends_s + expected.leeway_s as f64) as u64)
    }

    /// Returns the rights that these claims name, whether or not a server takes them.
    ///
    /// # Errors
    /// `Missing`, `NoTopics`, `Topics`.
    pub(crate) fn rights(&self, expected: &Expectations) -> Result<Rights, TokenError> {
        let subject = self.sub.as_ref().ok_or(TokenError::Missing("sub"))?;
        let claim = self.others.get(&expected.claim);
        let claim = claim.ok_or_else(|| TokenError::NoTopics(expected.claim.clone()))?;
        rights(claim, subject).map_err(|why| TokenError::Topics(expected.claim.clone(), why))
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

    /// A token that names an audience is for nobody else (RFC 7519 §4.1.3).
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

/// The rights that a claim names.
///
/// # Errors
/// One sentence.
fn rights(claim: &Value, subject: &str) -> Result<Rights, String> {
    // Serde would read a list as the rights in the order of their declaration.
    if !claim.is_object() {
        return Err("write an object, as {\"subscribe\":[\"public/**\"]}".to_owned());
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
    Ok(Rights {
        subscribe: topics("subscribe", claim.subscribe)?,
        publish: topics("publish", claim.publish)?,
        inspect: topics("inspect", claim.inspect)?,
        admin: claim.admin,
    })
}

/// The pattern that a text means, with the subject put in. The subject is a name there, and never a
/// wildcard or several segments: else whoever may choose it chose the rights.
fn pattern(text: &str, subject: &str) -> Result<Pattern, String> {
    let parse = |text: &str| text.parse::<Pattern>().map_err(|error| error.to_string());
    if !text.contains(SUBJECT) {
        return parse(text);
    }
    let is_name = !subject.contains('/') && subject.parse::<Topic>().is_ok();
    if !is_name {
        return Err(format!(
            "the subject is no segment of a topic, so {SUBJECT} cannot stand for it"
        ));
    }
    parse(&text.replace(SUBJECT, subject))
}
