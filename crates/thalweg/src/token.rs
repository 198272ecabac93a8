//! `thalweg token`: creates and explains JSON Web Tokens.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use thalweg_server::config::parse_duration;
use thalweg_terminal::print;
use thalweg_token::{
    Algorithm, Audience, CLAIM, Claims, Expectations, Explained, Key, Keys, SigningKey, SkippedKey,
    TokenError, Topics, parts,
};

/// Create or explain a JSON Web Token.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  openssl ecparam -genkey -name prime256v1 -noout |
    openssl pkcs8 -topk8 -nocrypt > private.pem
  openssl pkey -in private.pem -pubout > public.pem
  thalweg token mint --key private.pem --subject alice \\
    --subscribe 'users/{sub}/**'
  thalweg serve --jwt-key @public.pem
  thalweg token explain --key public.pem eyJhbGciOi…")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    Mint(MintArgs),
    Explain(ExplainArgs),
}

/// Create a signed token, for a test or a script.
///
/// An application creates the tokens of its users itself, with a JWT library.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg token mint --key private.pem --subject alice \\
    --subscribe 'users/{sub}/**'
  thalweg token mint --key private.pem --subject feed \\
    --publish 'cars/**' --expires-in 12h")]
struct MintArgs {
    /// Sign with this file: a private key (PEM, PKCS #8), or a secret of at least 32 bytes.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Set the key id (kid), if the server has several keys.
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// Sign with this algorithm, e.g. RS512 or PS256 [default: the usual one for the key].
    #[arg(long, value_name = "NAME")]
    algorithm: Option<Algorithm>,
    /// Set the subject (sub): the user or program that the token identifies.
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// Let the token expire after this time, e.g. 15m or 12h.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    expires_in: Duration,
    /// Allow subscriptions to topics that match this pattern, e.g. 'users/{sub}/**', where {sub} is the
    /// subject. Repeat the flag for several patterns.
    #[arg(long, value_name = "PATTERN")]
    subscribe: Vec<String>,
    /// Allow publishing to topics that match this pattern.
    #[arg(long, value_name = "PATTERN")]
    publish: Vec<String>,
    /// Allow listing topics that match this pattern. With **, also allow /metrics.
    #[arg(long, value_name = "PATTERN")]
    inspect: Vec<String>,
    /// Allow closing the connections of other clients.
    #[arg(long)]
    admin: bool,
    /// Describe the subject for other members of its topics with this JSON, e.g. '{"name":"Alice"}'.
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    info: Option<serde_json::Value>,
    /// Set the issuer (iss): who creates the token.
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Set the audience (aud): the server that the token is for.
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// Set the name of the claim that holds the rights.
    #[arg(long, value_name = "NAME", default_value = CLAIM)]
    claim: String,
}

/// Show the rights, subject and expiry of a token, and why a server would reject it.
///
/// Exit status: 0 if a server would accept the token, otherwise 1.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg token explain --key public.pem eyJhbGciOi…
  thalweg token explain - < token.txt")]
struct ExplainArgs {
    /// The token, or - to read it from stdin: other users of this machine can see arguments.
    #[arg(value_name = "TOKEN")]
    token: String,
    /// Verify the signature with this file: a public key (PEM or JWK), a JWK set, or a secret.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Expect this issuer (iss).
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Expect this audience (aud).
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// Read the rights from this claim.
    #[arg(long, value_name = "NAME", default_value = CLAIM)]
    claim: String,
}

pub(crate) fn run(args: TokenArgs) -> anyhow::Result<()> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match args.command {
        TokenCommand::Mint(args) => Ok(print(&format!("{}\n", mint(args, now_s)?))?),
        TokenCommand::Explain(args) => explain(args, now_s),
    }
}

fn parse_json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("write JSON, such as {{\"name\":\"Alice\"}}: {error}"))
}

fn mint(args: MintArgs, now_s: u64) -> anyhow::Result<String> {
    let mut key = SigningKey::new(&read(&args.key)?)?;
    if let Some(algorithm) = args.algorithm {
        key = key.with_algorithm(algorithm)?;
    }
    let mut topics = serde_json::Map::new();
    let rights =
        [("subscribe", args.subscribe), ("publish", args.publish), ("inspect", args.inspect)];
    for (right, patterns) in rights {
        if !patterns.is_empty() {
            topics.insert(right.to_owned(), patterns.into());
        }
    }
    if args.admin {
        topics.insert("admin".to_owned(), true.into());
    }
    if let Some(info) = args.info {
        topics.insert("info".to_owned(), info);
    }
    let claims = Claims {
        sub: Some(args.subject),
        iss: args.issuer,
        aud: args.audience.clone().map(Audience::One),
        exp: Some((now_s + args.expires_in.as_secs()).into()),
        nbf: None,
        others: [(args.claim.clone(), topics.into())].into_iter().collect(),
    };
    // A token that every server would reject is an error.
    let expected =
        Expectations { audience: args.audience, claim: args.claim, ..Expectations::default() };
    claims.clone().granted(&expected, now_s)?;
    key.sign(&claims, args.key_id.as_deref()).map_err(|error| anyhow!(error))
}

fn explain(args: ExplainArgs, now_s: u64) -> anyhow::Result<()> {
    let token = match &*args.token {
        "-" => std::io::read_to_string(std::io::stdin())?,
        token => token.to_owned(),
    };
    let token = token.trim();
    let (header, claims) = parts(token)?;
    let mut text = format!("header  {}\nclaims  {}\n", one_line(&header), one_line(&claims));
    let (keys, skipped) = args.key.as_deref().map(keys).transpose()?.unzip();
    for SkippedKey { key, why } in skipped.into_iter().flatten() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\nKey {key} of the set is not used: {why}");
    }
    if keys.is_none() {
        text += "\nThe signature is not verified; name the key with --key.\n";
    }
    let expected = Expectations {
        issuer: args.issuer,
        audience: args.audience,
        claim: args.claim,
        ..Expectations::default()
    };
    let explained = thalweg_token::explain(token, keys.as_ref(), &expected, now_s)?;
    text += &granted(&explained, now_s);
    let Some(first) = explained.refusals.first() else {
        print(&text)?;
        return Ok(());
    };
    text += "\nA server rejects this token:\n";
    for refusal in &explained.refusals {
        let remedy = remedy(refusal, &claims, &expected);
        let _ = writeln!(text, "- {refusal}{remedy}");
    }
    print(&text)?;
    bail!(first.clone())
}

/// Names the flag with which a server accepts the token, if there is one.
fn remedy(refusal: &TokenError, claims: &str, expected: &Expectations) -> String {
    let named = |claim: &str| {
        let claims: serde_json::Value = serde_json::from_str(claims).ok()?;
        let value = &claims[claim];
        let value = if value.is_array() { &value[0] } else { value };
        value.as_str().map(|value| one_line(&serde_json::Value::from(value).to_string()))
    };
    let (claim, flag, wanted) = match refusal {
        TokenError::OtherAudience => ("aud", "audience", &expected.audience),
        TokenError::OtherIssuer => ("iss", "issuer", &expected.issuer),
        _ => return String::new(),
    };
    match (named(claim), wanted) {
        (Some(named), Some(wanted)) => {
            format!("; the token has {named}, the server expects {wanted:?}")
        }
        (Some(named), None) => format!("; a server with --jwt-{flag} {named} accepts it"),
        (None, _) => String::new(),
    }
}

/// Escapes control characters of a part of a token for the terminal.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escaped).collect()
}

/// Describes the rights of a token.
fn granted(explained: &Explained, now_s: u64) -> String {
    let Explained { subject, ends_s, rights, info, .. } = explained;
    let mut text = String::from("\n");
    // Writing to a String cannot fail.
    if let Some(subject) = subject {
        let _ = writeln!(text, "subject    {}", one_line(subject));
    }
    if let Some(ends_s) = ends_s {
        let (words, left) = match ends_s.checked_sub(now_s) {
            None | Some(0) => ("expired", now_s - ends_s),
            Some(left) => ("valid for", left),
        };
        let time = humantime::format_duration(Duration::from_secs(left));
        let ago = if words == "expired" { " ago" } else { "" };
        let _ = writeln!(text, "{words:<9}  {time}{ago}");
    }
    let Some(rights) = rights else { return text };
    let rows = [
        ("subscribe", &rights.subscribe),
        ("publish", &rights.publish),
        ("inspect", &rights.inspect),
    ];
    for (right, topics) in rows {
        let _ = writeln!(text, "{right:<9}  {}", patterns(topics));
    }
    if rights.admin {
        text += "admin      may close connections of other clients\n";
    }
    if let Some(info) = info {
        let _ = writeln!(text, "info       {}", one_line(info));
    }
    text
}

fn patterns(topics: &Topics) -> String {
    if topics.are_none() {
        return "nothing".to_owned();
    }
    let patterns: Vec<_> = topics.scopes().iter().map(ToString::to_string).collect();
    patterns.join(" ")
}

/// Reads the keys of a file. The second part has the keys of a set that are not used.
fn keys(path: &Path) -> anyhow::Result<(Keys, Vec<SkippedKey>)> {
    let text = read(path)?;
    if text.contains("\"keys\"") {
        return Ok(Keys::from_set(text.as_bytes())?);
    }
    let is_public = text.contains("PUBLIC KEY")
        || text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let key = if is_public { Key::public(&text, None) } else { Key::secret(&text, None) };
    Ok((Keys::new(vec![key?])?, Vec::new()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| {
        match path.to_str().and_then(|path| path.strip_prefix('@')) {
            Some(name) => {
                format!("cannot read {}; write the file name without @: {name}", path.display())
            }
            None => format!("cannot read {}; name a file that this user may read", path.display()),
        }
    })
}
