//! Tokens with rights, and the keys of signed ones. No error and no `Debug` shows a secret.

use std::{fmt, fs::File, io::Read, path::Path, str::FromStr};

use serde::{Deserialize, Deserializer, de};
use thalweg_server::config::{Access, NamedToken, Secret};
use thalweg_token::{Key, KeyError, Rights, TopicScope, Topics};

use super::{document::keys_of, short};

/// The token of all clients, which has no secret.
const EVERYBODY: &str = "everybody";

/// Maximum size of a file that contains a secret or a key.
const SECRET_FILE_BYTES_MAX: u64 = 4096;

/// A token, with the rights of its clients.
#[derive(Clone, Debug)]
pub(super) struct TokenTable(
    /// Clap prints a value that it rejects, so a mistake in the short form is reported later.
    Result<TokenFields, String>,
);

/// A token and its rights. All clients have the rights of the token everybody, even without a token.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct TokenFields {
    /// Name for logs and limits; everybody has no secret
    name: String,
    /// The secret that clients present; @FILE reads it from a file
    secret: Option<SecretText>,
    /// Patterns of topics to subscribe to and to read
    #[serde(default)]
    subscribe: Vec<String>,
    /// Patterns of topics to publish to and to delete
    #[serde(default)]
    publish: Vec<String>,
    /// Patterns of topics to show in the list of topics; ** includes /metrics
    #[serde(default)]
    inspect: Vec<String>,
    /// Whether clients with this token may close connections of other clients
    #[serde(default)]
    admin: bool,
}

/// A secret, or `@` followed by the path of its file.
#[derive(Clone)]
struct SecretText(String);

/// `KEY` or `ID=KEY`: a key that verifies signed tokens.
#[derive(Clone)]
pub(super) struct TokenKey(String);

impl<'de> Deserialize<'de> for TokenTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TokenFields::deserialize(deserializer).map(|fields| Self(Ok(fields)))
    }
}

impl FromStr for TokenTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(short_form(text)))
    }
}

/// Reads `NAME=SECRET,subscribe=PATTERN …,…`, or `everybody,subscribe=…`.
fn short_form(text: &str) -> Result<TokenFields, String> {
    let (name, rest) = match text.find(['=', ',']) {
        Some(at) if text[at..].starts_with('=') => (&text[..at], Some(&text[at + 1..])),
        Some(at) if &text[..at] == EVERYBODY => (EVERYBODY, None),
        None if text == EVERYBODY => (EVERYBODY, None),
        _ => {
            return Err("write NAME=@FILE,subscribe=PATTERN …, for instance \
                        dashboard=@/etc/thalweg/dashboard,subscribe=cars/** bikes"
                .to_owned());
        }
    };
    check_name(name)?;
    let wrong = |error| format!("{name}: {error}");
    let Some(rest) = rest else {
        let options = text.split_once(',').map_or("", |(_, options)| options);
        return short::read("token", &[("name", name)], options).map_err(wrong);
    };
    let (secret, options) = rest.split_once(',').unwrap_or((rest, ""));
    let is_right = |option: &str| {
        let key = option.split_once('=').map_or(option, |(key, _)| key);
        key.len() < 12 && (key.is_empty() || names_right(key))
    };
    if !options.split(',').all(is_right) {
        // Do not print the text: it may be the rest of a secret that contains a comma.
        return Err(wrong(
            "after the secret write subscribe=, publish=, inspect= or admin=true; a secret with a \
             comma must be in a file (@FILE)"
                .to_owned(),
        ));
    }
    short::read("token", &[("name", name), ("secret", secret)], options).map_err(wrong)
}

/// Returns whether a text looks like a value of `--token` that gives a right.
pub(super) fn has_rights(text: &str) -> bool {
    let mut options = text.split([',', '\n']).skip(1);
    options.any(|option| option.split_once('=').is_some_and(|(key, _)| names_right(key)))
}

/// Returns whether this key gives a right. All keys do, except `name` and `secret`.
fn names_right(key: &str) -> bool {
    keys_of::<TokenFields>()[2..].contains(&key)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok(()),
        false => {
            Err("the name of a token has a character that is not allowed: use letters, digits, -, _ and . only"
                .to_owned())
        }
    }
}

impl TokenTable {
    /// Adds the token to those that the server accepts. The error is one sentence without the secret.
    pub(super) fn add_to(self, access: &mut Access) -> Result<(), String> {
        let TokenFields { name, secret, subscribe, publish, inspect, admin } = self.0?;
        check_name(&name)?;
        let wrong = |error| format!("{name}: {error}");
        let topics = |right: &str, patterns: &[String]| -> Result<Topics, String> {
            let pattern = |text: &String| {
                text.parse::<TopicScope>()
                    .map_err(|error| format!("{name}: {right}: {text:?}: {error}"))
            };
            patterns.iter().map(pattern).collect()
        };
        let rights = Rights {
            subscribe: topics("subscribe", &subscribe)?,
            publish: topics("publish", &publish)?,
            inspect: topics("inspect", &inspect)?,
            admin,
        };
        if rights.inspect.have_limits() {
            return Err(wrong(
                "inspect cannot be limited to keys: remove ?key= and ?prefix=".to_owned(),
            ));
        }
        if name == EVERYBODY {
            return match (secret, &access.everybody) {
                (Some(_), _) => Err(wrong(
                    "this token is for clients that present none: remove its secret, or choose \
                     another name"
                        .to_owned(),
                )),
                (None, Some(_)) => Err(wrong("occurs twice: write one token".to_owned())),
                (None, None) => {
                    access.everybody = Some(rights);
                    Ok(())
                }
            };
        }
        let Some(secret) = secret else {
            return Err(wrong("set secret; only the token everybody has none".to_owned()));
        };
        if rights == Rights::default() {
            return Err(wrong("set subscribe, publish, inspect or admin".to_owned()));
        }
        let secret = Secret::new(text_of(&secret.0).map_err(wrong)?);
        access.tokens.push(NamedToken { name, secret, rights });
        Ok(())
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, "write the secret as a string, in quotes").map(Self)
    }
}

impl<'de> Deserialize<'de> for TokenKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, "write the key as a string, in quotes").map(Self)
    }
}

/// Reads a text. The error does not show a value of another type.
fn text<'de, D: Deserializer<'de>>(deserializer: D, remedy: &str) -> Result<String, D::Error> {
    String::deserialize(deserializer).map_err(|_| de::Error::custom(remedy))
}

impl FromStr for TokenKey {
    type Err = String;

    /// Accepts any text, because clap prints a value that it rejects.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl TokenKey {
    /// Reads a public key. The error is one sentence.
    pub(super) fn public(&self) -> Result<Key, String> {
        self.read(Key::public)
    }

    /// Reads a secret. The error is one sentence without the secret.
    pub(super) fn secret(&self) -> Result<Key, String> {
        self.read(Key::secret)
    }

    fn read(&self, read: fn(&str, Option<&str>) -> Result<Key, KeyError>) -> Result<Key, String> {
        if let Some(remedy) = self.remedy() {
            return Err(remedy);
        }
        let (id, text) = match self.0.split_once("=@") {
            Some((id, path)) => (Some(id), text_of(&format!("@{path}"))?),
            None => (None, text_of(&self.0)?),
        };
        let from_file = "; to read it from a file, write @ before the file's name";
        let hint = if self.0.contains('@') { "" } else { from_file };
        read(&text, id).map_err(|error| format!("{error}{hint}"))
    }

    /// If the value is the name of a file without `@`, returns a message with the correct form. Otherwise the
    /// server would use the name itself as a key or, if it is long enough, as a secret.
    fn remedy(&self) -> Option<String> {
        let is_file = |path: &str| Path::new(path).is_file();
        let (id, path) = match self.0.split_once('=') {
            _ if is_file(&self.0) => ("", &*self.0),
            Some((id, path)) if is_file(path) => (id, path),
            _ => return None,
        };
        let equals = if id.is_empty() { "" } else { "=" };
        Some(format!("{path} is a file: write {id}{equals}@{path} to read the key from it"))
    }
}

/// Returns a text, or the contents of the file after `@`.
fn text_of(text: &str) -> Result<String, String> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let bytes = read.map_err(|error| {
        format!("cannot read {path} ({error}): name a file that this user may read")
    })?;
    if bytes as u64 > SECRET_FILE_BYTES_MAX {
        return Err(format!(
            "{path} has more than 4 KiB: name a file with nothing but the secret or key"
        ));
    }
    // Editors and `echo` end a file with a line break, which no secret has.
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Returns the keys of a token in the file.
pub(super) fn token_keys() -> &'static [&'static str] {
    keys_of::<TokenFields>()
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The schema of secrets and keys is that of a text.
#[cfg(test)]
mod schemas {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator};

    use super::{SecretText, TokenFields, TokenKey, TokenTable};

    macro_rules! same {
        ($($type:ident = $other:ident)*) => {$(
            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    $other::schema_name()
                }

                fn inline_schema() -> bool {
                    $other::inline_schema()
                }

                fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                    $other::json_schema(generator)
                }
            }
        )*};
    }

    same! { SecretText = String TokenKey = String TokenTable = TokenFields }
}
