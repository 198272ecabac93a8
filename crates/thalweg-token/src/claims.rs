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
    /// What these claims grant at `now_s`, in seconds since 1970.
    ///
    /// # Errors
    /// What is missing or wrong in them.
    pub fn granted(mut self, expected: &Expectations, now_s: u64) -> Result<Granted, TokenError> {
        let leeway_s = expected.leeway_s as f64;
        let seconds = |number: &Number| number.as_f64().filter(|seconds| seconds.is_finite());
        let ends_s = self.exp.as_ref().ok_or(TokenError::Missing("exp"))?;
        let ends_s = seconds(ends_s).ok_or(TokenError::Malformed("exp"))? + leeway_s;
        if ends_s <= now_s as f64 {
            return Err(TokenError::Expired);
        }
        if let Some(begins_s) = &self.nbf {
            let begins_s = seconds(begins_s).ok_or(TokenError::Malformed("nbf"))?;
            if begins_s > now_s as f64 + leeway_s {
                return Err(TokenError::NotYetValid);
            }
        }
        if let Some(issuer) = &expected.issuer {
            match &self.iss {
                None => return Err(TokenError::Missing("iss")),
                Some(iss) if iss != issuer => return Err(TokenError::OtherIssuer),
                Some(_) => {}
            }
        }
        self.check_audience(expected)?;
        let claim = self.others.remove(&expected.claim);
        let subject = self.sub.ok_or(TokenError::Missing("sub"))?;
        let claim = claim.ok_or_else(|| TokenError::NoTopics(expected.claim.clone()))?;
        let rights = rights(claim, &subject)
            .map_err(|why| TokenError::Topics(expected.claim.clone(), why))?;
        // A time beyond 2^64 s is none that anybody lives to see.
        Ok(Granted { subject, ends_s: ends_s as u64, rights })
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

/// The rights that a claim names.
///
/// # Errors
/// One sentence.
fn rights(claim: Value, subject: &str) -> Result<Rights, String> {
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
