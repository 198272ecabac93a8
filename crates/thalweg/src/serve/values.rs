//! Values of settings: written alike on the command line and in a file, and refused
//! there with the same words.

use std::{fmt, fs::File, io::Read, net::SocketAddr, path::Path, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de};
use thalweg_client::Topic;
use thalweg_server::config::{
    Config, NamedToken, Network, Options, QueryConfig, Rates, Secret, SourceConfig, StreamConfig,
    Subscribing, UpstreamConfig, UpstreamUrl, nearest, parse_bytes, parse_duration,
};
use thalweg_token::{Key, KeyError, Pattern, Rights, Topics};

use crate::address::parse_address;

/// No wait is longer: a day, in µs.
const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A file with a token holds nothing else.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// A whole number from MIN to MAX.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count<const MIN: u32 = 1, const MAX: u32 = { u32::MAX }>(u32);

/// Bytes, from MIN to MAX.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size<const MIN: usize = 1, const MAX: usize = { usize::MAX }>(usize);

/// A duration from MIN to MAX, in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time<const MIN_US: u64 = 1_000, const MAX_US: u64 = DAY_US>(Duration);

/// Where to listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(pub(super) SocketAddr);

/// A trusted proxy, or several of one network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proxy(pub(super) Network);

/// A WebSocket subprotocol: a token of HTTP (RFC 9110 §5.6.2).
#[derive(Clone, Debug)]
pub(super) struct Protocol(pub(super) String);

/// `TOPIC=KIND,key=value,…`
#[derive(Clone, Debug)]
pub(super) struct Source(pub(super) SourceConfig);

/// `TOPIC=SELECT …`
#[derive(Clone, Debug)]
pub(super) struct QueryTopic(pub(super) QueryConfig);

/// What a table of the file says of one topic.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(super) struct TopicTable {
    /// The query whose rows are its events.
    query: Option<String>,
    /// Its columns, each name:type.
    columns: Vec<String>,
}

/// `PATTERN=URL,key=value,…`
#[derive(Clone, Debug)]
pub(super) struct Upstream(pub(super) UpstreamConfig);

/// `NAME=PATTERN,key=value,…`
#[derive(Clone, Debug)]
pub(super) struct Stream(pub(super) StreamConfig);

/// `TOPIC,key=value,…`, known to be right whatever it is put upon.
#[derive(Clone, Debug)]
pub(super) struct TopicBounds(String);

/// A token, or `@` and the file that it stands in.
#[derive(Clone)]
pub(super) struct Token(String);

/// `NAME=TOKEN,subscribe=PATTERN …,…`: a token with rights of its own.
#[derive(Clone)]
pub(super) struct TokenWithRights(String);

/// `KEY` or `ID=KEY`: a key that tokens are signed by.
#[derive(Clone)]
pub(super) struct TokenKey(String);

/// `subscribe=PATTERN …,publish=PATTERN …,inspect=PATTERN …`
#[derive(Clone, Debug)]
pub(super) struct RightsOf(Rights);

/// `commands=N,publishes=N,bytes=SIZE,handshakes=N`, each in a second, known to be right.
#[derive(Clone, Debug)]
pub(super) struct RatesOf(Options);

/// A URL of one document.
#[derive(Clone, Debug)]
pub(super) struct Url(pub(super) UpstreamUrl);

/// To which topics one may subscribe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscribe(Subscribing);

/// What is logged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

/// How it is logged.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl<const MIN: u32, const MAX: u32> FromStr for Count<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().map_err(|_| format!("{text:?} is no whole number"))?;
        within(number, MIN, MAX, |bound| bound.to_string()).map(Self)
    }
}

impl<const MIN: usize, const MAX: usize> FromStr for Size<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        within(parse_bytes(text)?, MIN, MAX, bytes_text).map(Self)
    }
}

impl<const MIN_US: u64, const MAX_US: u64> FromStr for Time<MIN_US, MAX_US> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [min, max] = [MIN_US, MAX_US].map(Duration::from_micros);
        within(parse_duration(text)?, min, max, time_text).map(Self)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_address(text).map(Self)
    }
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        match !text.is_empty() && text.bytes().all(is_token) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is no subprotocol: letters, digits and -._~ are one")),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        SourceConfig::parse(text).map(Self)
    }
}

impl FromStr for QueryTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        QueryConfig::parse(text).map(Self)
    }
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        UpstreamConfig::parse(text).map(Self)
    }
}

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        StreamConfig::parse(text).map(Self)
    }
}

impl FromStr for TopicBounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bounds = Self(text.to_owned());
        bounds.add_to(&mut Config::default()).map(|()| bounds)
    }
}

impl FromStr for Token {
    type Err = String;

    /// Never refused, because who refuses a value also shows it.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for TokenWithRights {
    type Err = String;

    /// Never refused, as above.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for TokenKey {
    type Err = String;

    /// Never refused, as above.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for RightsOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let options = Options::parse(text)?;
        options.check_keys(&RIGHTS)?;
        rights(&options).map(Self)
    }
}

impl From<RightsOf> for Rights {
    fn from(rights: RightsOf) -> Self {
        rights.0
    }
}

impl FromStr for RatesOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let options = Options::parse(text)?;
        options.rates(Config::default().limits.rates_of_address)?;
        Ok(Self(options))
    }
}

impl RatesOf {
    /// Whether it names requests, of which a connection makes none.
    pub(super) fn has_handshakes(&self) -> bool {
        self.0.text("handshakes").is_some()
    }

    /// These, and the others as they are.
    pub(super) fn over(&self, rates: Rates) -> Rates {
        // It was read before.
        self.0.rates(rates).unwrap_or(rates)
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        UpstreamUrl::of_document(text).map(Self)
    }
}

impl FromStr for Subscribe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "any" => Ok(Self(Subscribing::Any)),
            "existing" => Ok(Self(Subscribing::Existing)),
            _ => Err(unknown("kind of topics", text, &["any", "existing"])),
        }
    }
}

impl From<Subscribe> for Subscribing {
    fn from(subscribe: Subscribe) -> Self {
        subscribe.0
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err(unknown("level", text, &["error", "warn", "info", "debug"])),
        }
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(unknown("format", text, &["text", "json"])),
        }
    }
}

impl TopicBounds {
    /// Sets the topic's bounds; those it does not name are of every topic.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub(super) fn add_to(&self, config: &mut Config) -> Result<(), String> {
        let (topic, bounds) = self.0.split_once(',').unwrap_or((&self.0, ""));
        let bounds = config.topic_defaults.clone().apply(&Options::parse(bounds)?)?;
        let topic = topic.parse().map_err(|error| format!("topic {topic:?}: {error}"))?;
        config.topics.push((topic, bounds));
        Ok(())
    }
}

impl TopicTable {
    /// Adds what it says of the topic `name`.
    ///
    /// # Errors
    /// One sentence about the name, or the columns.
    pub(super) fn add_to(self, name: &str, config: &mut Config) -> Result<(), String> {
        let topic: Topic = name.parse().map_err(|error| format!("topics: {name:?}: {error}"))?;
        if !self.columns.is_empty() {
            let settings = config.topic(&topic).with_columns(&self.columns);
            let settings = settings.map_err(|error| format!("topics: {name}: {error}"))?;
            // Before patterns that mean it, too.
            config.topics.insert(0, (topic.clone().into(), settings));
        }
        config.queries.extend(self.query.map(|text| QueryConfig { topic, text }));
        Ok(())
    }
}

impl Token {
    /// The token itself.
    ///
    /// # Errors
    /// One sentence when its file cannot be read.
    pub(super) fn secret(&self) -> Result<Secret, String> {
        text_of(&self.0).map(Secret::new)
    }
}

impl TokenWithRights {
    /// The token.
    ///
    /// # Errors
    /// One sentence that does not have the token in it.
    pub(super) fn named(&self) -> Result<NamedToken, String> {
        let (name, rest) = self.0.split_once('=').ok_or(
            "a token is NAME=TOKEN,subscribe=PATTERN …, for instance \
             dashboard=@/etc/thalweg/dashboard,subscribe=cars/** bikes",
        )?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("the name of a token is of letters, digits, -, _ and .".to_owned());
        }
        let (secret, options) = rest.split_once(',').unwrap_or((rest, ""));
        let wrong = |error| format!("{name}: {error}");
        let options = Options::parse(options).map_err(wrong)?;
        options.check_keys(&RIGHTS).map_err(wrong)?;
        let rights = rights(&options).map_err(wrong)?;
        if rights == Rights::default() {
            return Err(wrong(
                "it gives no right: say subscribe=, publish= or inspect= and patterns".to_owned(),
            ));
        }
        let secret = Secret::new(text_of(secret).map_err(wrong)?);
        Ok(NamedToken { name: name.to_owned(), secret, rights })
    }
}

impl TokenKey {
    /// A public key.
    ///
    /// # Errors
    /// One sentence.
    pub(super) fn public(&self) -> Result<Key, String> {
        self.read(Key::public)
    }

    /// A secret.
    ///
    /// # Errors
    /// One sentence that does not have the secret in it.
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
        let from_file = ". To read it from a file, write @ before the file's name";
        let hint = if self.0.contains('@') { "" } else { from_file };
        read(&text, id).map_err(|error| format!("{error}{hint}"))
    }

    /// How to write it, if it is the name of a file: the name must neither be taken for a key, nor, being
    /// long enough, for a secret.
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

/// What may be said of rights.
const RIGHTS: [&str; 4] = ["subscribe", "publish", "inspect", "admin"];

/// The rights of options, each of patterns with spaces between.
fn rights(options: &Options) -> Result<Rights, String> {
    let topics = |right: &str| -> Result<Topics, String> {
        let patterns = options.text(right).unwrap_or_default().split_whitespace();
        let pattern = |text: &str| {
            text.parse::<Pattern>().map_err(|error| format!("{right}: {text:?}: {error}"))
        };
        patterns.map(pattern).collect()
    };
    let admin = match options.text("admin") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(format!("admin: {other:?} is neither true nor false")),
    };
    let [subscribe, publish, inspect] =
        [topics("subscribe")?, topics("publish")?, topics("inspect")?];
    Ok(Rights { subscribe, publish, inspect, admin })
}

/// A text, or what stands in the file behind `@`.
fn text_of(text: &str) -> Result<String, String> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read {path}: {error}"))?;
    // Editors and `echo` end a file with a line break, which no token has.
    text.truncate(text.trim_end().len());
    Ok(text)
}

impl fmt::Debug for TokenWithRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl<const MIN: u32, const MAX: u32> From<Count<MIN, MAX>> for u32 {
    fn from(count: Count<MIN, MAX>) -> Self {
        count.0
    }
}

impl<const MIN: u32, const MAX: u32> From<Count<MIN, MAX>> for usize {
    fn from(count: Count<MIN, MAX>) -> Self {
        count.0 as usize
    }
}

impl<const MIN: usize, const MAX: usize> From<Size<MIN, MAX>> for usize {
    fn from(size: Size<MIN, MAX>) -> Self {
        size.0
    }
}

impl<const MIN_US: u64, const MAX_US: u64> From<Time<MIN_US, MAX_US>> for Duration {
    fn from(time: Time<MIN_US, MAX_US>) -> Self {
        time.0
    }
}

/// Bytes in the largest unit that leaves no rest.
pub(super) fn bytes_text(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// A duration in the largest unit that leaves no rest.
pub(super) fn time_text(time: Duration) -> String {
    let us = time.as_micros();
    let units = [(60_000_000, "m"), (1_000_000, "s"), (1_000, "ms"), (1, "us")];
    let unit = units.iter().find(|(us_per_unit, _)| us != 0 && us.is_multiple_of(*us_per_unit));
    unit.map_or_else(|| "0".to_owned(), |(us_per_unit, unit)| format!("{}{unit}", us / us_per_unit))
}

fn within<T: PartialOrd + Copy>(
    value: T,
    min: T,
    max: T,
    text: impl Fn(T) -> String,
) -> Result<T, String> {
    if value < min {
        Err(format!("at least {}", text(min)))
    } else if value > max {
        Err(format!("at most {}", text(max)))
    } else {
        Ok(value)
    }
}

fn unknown(what: &str, wrong: &str, known: &[&str]) -> String {
    format!("unknown {what} {wrong:?}{}", nearest(wrong, known))
}

/// Reads a value of a file as the flag would: `8080` is as good as `"8080"`.
fn as_written<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    struct Written<T>(std::marker::PhantomData<T>);

    impl<T: FromStr<Err = String>> de::Visitor<'_> for Written<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a number")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(Written(std::marker::PhantomData))
}

/// Files and their schema for types that are read from text.
macro_rules! written {
    ($($type:ident $(<$($name:ident: $of:ty),*>)? = $schema:tt)*) => {$(
        impl<'de, $($(const $name: $of),*)?> Deserialize<'de> for $type $(<$($name),*>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                as_written(deserializer)
            }
        }

        #[cfg(test)]
        impl $(<$(const $name: $of),*>)? schemars::JsonSchema for $type $(<$($name),*>)? {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}

written! {
    Count<MIN: u32, MAX: u32> = { "type": "integer", "minimum": MIN, "maximum": MAX }
    Size<MIN: usize, MAX: usize> = {
        "type": ["string", "integer"], "pattern": "^[0-9]+(B|KiB|MiB|GiB)?$", "minimum": MIN
    }
    Time<MIN_US: u64, MAX_US: u64> = { "type": "string", "pattern": "^([0-9]+(us|ms|s|m|h)|0)$" }
    Address = { "type": "string" }
    Proxy = { "type": "string", "pattern": "^[0-9a-fA-F.:]+(/[0-9]+)?$" }
    Protocol = { "type": "string", "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }
    Source = { "type": "string", "pattern": "^[^=]+=[^=,]+(,[^=,]+=[^,]*)*$" }
    QueryTopic = { "type": "string", "pattern": "^[^=]+=\\s*([Ss][Ee][Ll][Ee][Cc][Tt])\\s" }
    Upstream = { "type": "string", "pattern": "^[^=]+=https?://[^,]+(,[^=,]+=[^,]*)*$" }
    Stream = { "type": "string", "pattern": "^[A-Za-z0-9_-]+=[^=,]+(,[^=,]+=[^,]*)*$" }
    TopicBounds = { "type": "string", "pattern": "^[^=,]+(,[^=,]+=[^,]*)*$" }
    Token = { "type": "string" }
    TokenWithRights = { "type": "string", "pattern": "^[A-Za-z0-9_.-]+=[^,]+(,[^=,]+=[^,]*)+$" }
    TokenKey = { "type": "string" }
    RightsOf = { "type": "string", "pattern": "^([^=,]+=[^,]*(,[^=,]+=[^,]*)*)?$" }
    RatesOf = { "type": "string", "pattern": "^([a-z]+=[^=,]+(,[a-z]+=[^=,]+)*)?$" }
    Url = { "type": "string", "pattern": "^https?://" }
    Subscribe = { "type": "string", "enum": ["any", "existing"] }
    Level = { "type": "string", "enum": ["error", "warn", "info", "debug"] }
    LogFormat = { "type": "string", "enum": ["text", "json"] }
}
