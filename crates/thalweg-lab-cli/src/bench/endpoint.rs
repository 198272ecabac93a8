//! Options of `thalweg-lab bench` for a running endpoint.

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_lab::run::Misuse;
use thalweg_lab::scenario::{Endpoint, OpeningStep, Typed, parse_duration};

/// The heading of these options in the help.
pub(super) const ENDPOINT: &str = "Endpoint";

/// How to connect to an endpoint, and how to read its messages.
#[derive(Args, Debug)]
#[command(next_help_heading = ENDPOINT)]
pub(super) struct EndpointArgs {
    /// Send this header to the endpoint, as "Name: value". The report does not contain the value.
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// Offer this WebSocket subprotocol.
    #[arg(long, value_name = "NAME", requires = "url")]
    subprotocol: Option<String>,
    /// Speak this protocol: socketio, signalr, graphql-ws or centrifugo over a WebSocket, sse, or llm-stream.
    /// The lab opens connections as clients of the protocol do, answers pings, and reads --timestamp and
    /// --sequence in the event, without the envelope around it.
    #[arg(long, value_name = "NAME", requires = "url")]
    dialect: Option<String>,
    /// Subscribe in the --dialect: a GraphQL subscription, a channel of Centrifugo, or an event of Socket.IO
    /// or a method of SignalR, with arguments as '["join", "room"]'. The report does not contain it.
    #[arg(long, value_name = "TEXT", requires = "dialect")]
    subscribe: Vec<String>,
    /// Send this JSON object in the first message of the --dialect: auth of Socket.IO, the payload of
    /// connection_init, or Centrifugo's connect command. The report does not contain it.
    #[arg(long, value_name = "JSON", requires = "dialect")]
    auth: Option<String>,
    #[command(flatten)]
    opening: OpeningArgs,
    /// Use this method for HTTP requests [default: GET, or POST with --body].
    #[arg(long, value_name = "METHOD", requires = "url")]
    method: Option<String>,
    /// Send this body with each HTTP request, or with @FILE the content of a file. The report does not contain
    /// it.
    #[arg(long, value_name = "TEXT|@FILE", requires = "url")]
    body: Option<String>,
    /// Instead of --rate: send the next message of a WebSocket after a random time in this range, e.g. 1s..5s.
    /// With llm-stream: make the next request this long after a complete response.
    #[arg(long, value_name = "RANGE", value_parser = range, requires = "url")]
    think: Option<(Duration, Duration)>,
    /// Send the lines of this file as messages, one after the other, at --rate. The report does not contain
    /// them. {connection} in a line becomes the number of the connection, and {id} a new id. The lab measures
    /// the time until a message with this id comes back.
    #[arg(long, value_name = "FILE", requires = "url")]
    data: Option<PathBuf>,
    /// Replace {token} in the URL, headers and messages with a line of this file. Each connection uses its own
    /// line. The report does not contain the lines.
    #[arg(long, value_name = "FILE", requires = "url")]
    tokens: Option<PathBuf>,
    /// Send binary WebSocket messages.
    #[arg(long, requires = "url")]
    binary: bool,
    /// Offer compression as browsers do: permessage-deflate (with context takeover), or gzip.
    #[arg(long, requires = "url")]
    compress: bool,
    /// Read the creation time of each message from this path in its JSON, e.g. data.ts, $.items[0].time or
    /// /data/ts. The time is RFC 3339, or a number of seconds, milli-, micro- or nanoseconds since 1970.
    #[arg(long, value_name = "PATH", requires = "url")]
    timestamp: Option<String>,
    /// Read a number from this path in each message, e.g. data.n. It must rise by one from message to message
    /// of a connection. Lost, duplicated and reordered messages fail the run.
    #[arg(long, value_name = "PATH", requires = "url")]
    sequence: Option<String>,
    /// Trust the certificates in this file (PEM), in addition to those of the system.
    #[arg(long, value_name = "FILE", requires = "url")]
    cacert: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long, requires = "url")]
    insecure: bool,
}

impl EndpointArgs {
    /// Returns the endpoints at these URLs, over the transport of `--transports`.
    pub(super) fn endpoints(
        &self,
        urls: &[String],
        transport: Option<&String>,
    ) -> anyhow::Result<Vec<Endpoint>> {
        let body = match self.body.as_deref().map(|body| (body, body.strip_prefix('@'))) {
            None => None,
            Some((_, Some(path))) => Some(read("--body", Path::new(path))?),
            Some((text, None)) => Some(text.to_owned()),
        };
        let us = |time: Duration| time.as_micros() as u64;
        let typed = Typed {
            url: String::new(),
            transport: transport.cloned(),
            headers: self.header.clone(),
            subprotocol: self.subprotocol.clone(),
            dialect: self.dialect.clone(),
            subscribe: self.subscribe.clone(),
            auth: self.auth.clone(),
            opening: self.opening.0.clone(),
            method: self.method.clone(),
            body,
            think_us: self.think.map(|(from, to)| (us(from), us(to))),
            timestamp: self.timestamp.clone(),
            sequence: self.sequence.clone(),
            cacert: self.cacert.clone(),
            insecure: self.insecure,
            data: lines("--data", self.data.as_deref())?,
            tokens: lines("--tokens", self.tokens.as_deref())?,
            binary: self.binary,
            compress: self.compress,
        };
        let endpoint = |url: &String| Endpoint::read(&Typed { url: url.clone(), ..typed.clone() });
        urls.iter().map(|url| Ok(endpoint(url)?)).collect()
    }
}

/// The options of the dialogue that opens a WebSocket, in the order in which they were typed.
#[derive(Debug)]
struct OpeningArgs(Vec<OpeningStep>);

const SEND_ON_OPEN: &str = "send_on_open";
const EXPECT: &str = "expect";

impl Args for OpeningArgs {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, name: &'static str, value: &'static str| {
            clap::Arg::new(id)
                .long(name)
                .value_name(value)
                .action(ArgAction::Append)
                .requires("url")
        };
        command
            .arg(option(SEND_ON_OPEN, "send-on-open", "TEXT").help(
                "Send this text on each WebSocket after it opens, e.g. to subscribe. The report does not \
                 contain it",
            ))
            .arg(option(EXPECT, "expect", "TEXT|PATH=VALUE").help(
                "Wait on each WebSocket for a message that contains this text, or that has this value at \
                 this path, e.g. type=ready, before the next --send-on-open and the measurement. A \
                 connection without it counts as refused",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OpeningArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |id: &str, step: fn(&str) -> OpeningStep| {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            places.zip(values).map(|(place, text)| (place, step(text))).collect::<Vec<_>>()
        };
        let mut steps = typed(SEND_ON_OPEN, |text| OpeningStep::Send(text.to_owned()));
        steps.extend(typed(EXPECT, OpeningStep::expect));
        steps.sort_by_key(|(place, _)| *place);
        Ok(OpeningArgs(steps.into_iter().map(|(_, step)| step).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Parses `10s`, and `10` as seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => parse_duration(text),
    }
}

/// Parses `1s..5s`, and `1s` as a fixed time.
fn range(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (duration(from)?, duration(to)?);
    match from <= to {
        true => Ok((from, to)),
        false => Err("write the shorter time first, such as 1s..5s".to_owned()),
    }
}

/// Reads the lines of a file, without empty ones.
fn lines(option: &str, path: Option<&Path>) -> anyhow::Result<Option<Vec<String>>> {
    let Some(path) = path else { return Ok(None) };
    let text = read(option, path)?;
    Ok(Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()))
}

fn read(option: &str, path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Misuse(format!("{option} {}: {error}", path.display())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[arg(long)]
        url: Vec<String>,
        #[command(flatten)]
        endpoint: EndpointArgs,
    }

    fn endpoint(words: &[&str]) -> Endpoint {
        let words = ["", "--url", "ws://h/"].iter().chain(words);
        let alone = <Alone as clap::Parser>::try_parse_from(words).expect("arguments");
        alone.endpoint.endpoints(&alone.url, None).expect("an endpoint").remove(0)
    }

    #[test]
    fn the_dialogue_has_the_order_of_the_options() {
        let send = |text: &str| OpeningStep::Send(text.to_owned());
        let words = ["--expect", "a=b", "--send-on-open", "c", "--binary", "--send-on-open", "d"];
        let endpoint = endpoint(&[&words[..], &["--expect", "e"]].concat());
        let expected = [OpeningStep::expect("a=b"), send("c"), send("d"), OpeningStep::expect("e")];
        assert_eq!(endpoint.opening, expected);
    }

    #[test]
    fn a_range_is_two_times_or_one() {
        let ms = Duration::from_millis;
        assert_eq!(range("500ms..2s"), Ok((ms(500), ms(2000))));
        assert_eq!(range("3"), Ok((ms(3000), ms(3000))));
        assert!(range("2s..1s").unwrap_err().contains("the shorter time first"));
        assert!(range("..1s").is_err() && range("soon").is_err());
    }
}
