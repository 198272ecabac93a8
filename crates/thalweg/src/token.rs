//! `thalweg token`: a JSON Web Token on the command line, made or explained.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use thalweg_lab::run::print;
use thalweg_server::config::parse_duration;
use thalweg_token::{
    Algorithm, Audience, CLAIM, Claims, Expectations, Explained, Key, Keys, SigningKey, SkippedKey,
    TokenError, Topics, parts,
};

/// Make a token, or explain one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  openssl ecparam -genkey -name prime256v1 -noout | openssl pkcs8 -topk8 -nocrypt > private.pem
  openssl pkey -in private.pem -pubout > public.pem
  thalweg token mint --key private.pem --subject alice --subscribe 'users/{sub}/**'
  thalweg serve --jwt-key @public.pem
  thalweg token explain --key public.pem eyJhbGciOi…")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make a token, for a try or a script: an application makes its own with a library.
    Mint(MintArgs),
    /// Say what a token grants, to whom, until when, and why a server would not take it.
    Explain(ExplainArgs),
}

#[derive(Args, Debug)]
struct MintArgs {
    /// The private key in PEM (PKCS #8), or a secret of at least 32 bytes, in a file.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The key's id (kid), if the server has several.
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// The algorithm of the signature, if not the usual one of the key: RS512, PS256, …
    #[arg(long, value_name = "NAME")]
    algorithm: Option<Algorithm>,
    /// Whose it is (sub).
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// How long it is valid.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    lasts: Duration,
    /// Topics to subscribe to: a pattern, in which {sub} is the subject.
    #[arg(long, value_name = "PATTERN")]
    subscribe: Vec<String>,
    /// Topics to publish to.
    #[arg(long, value_name = "PATTERN")]
    publish: Vec<String>,
    /// Topics that the list of topics shows.
    #[arg(long, value_name = "PATTERN")]
    inspect: Vec<String>,
    /// Lets it end connections of others.
    #[arg(long)]
    admin: bool,
    /// Who makes it (iss).
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// For whom (aud).
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// The name of the claim of topics.
    #[arg(long, value_name = "NAME", default_value = CLAIM)]
    claim: String,
}

#[derive(Args, Debug)]
struct ExplainArgs {
    /// The token; - reads it from stdin, where it does not show in the list of processes.
    #[arg(value_name = "TOKEN")]
    token: String,
    /// The public key in PEM, a JWK, a set of them, or the secret, in a file.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The issuer (iss) that the server wants.
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// The audience (aud) that the server wants.
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// The name of the claim of topics.
    #[arg(long, value_name = "NAME", default_value = CLAIM)]
    claim: String,
}

/// Makes or explains a token.
pub(crate) fn run(args: TokenArgs) -> anyhow::Result<()> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match args.what {
        What::Mint(args) => Ok(print(&format!("{}\n", mint(args, now_s)?))?),
        What::Explain(args) => explain(args, now_s),
    }
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
    let claims = Claims {
        sub: Some(args.subject),
        iss: args.issuer,
        aud: args.audience.clone().map(Audience::One),
        exp: Some((now_s + args.lasts.as_secs()).into()),
        nbf: None,
        others: [(args.claim.clone(), topics.into())].into_iter().collect(),
    };
    // What no server takes is not made.
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
    let mut said = format!("header  {}\nclaims  {}\n", one_line(&header), one_line(&claims));
    let (keys, skipped) = args.key.as_deref().map(keys).transpose()?.unzip();
    for SkippedKey { key, why } in skipped.into_iter().flatten() {
        // A String takes everything.
        let _ = writeln!(said, "\nKey {key} of the set is not used: {why}");
    }
    if keys.is_none() {
        said += "\nThe signature is not looked at: --key says by which key it should be.\n";
    }
    let expected = Expectations {
        issuer: args.issuer,
        audience: args.audience,
        claim: args.claim,
        ..Expectations::default()
    };
    let explained = thalweg_token::explain(token, keys.as_ref(), &expected, now_s)?;
    said += &granted(&explained, now_s);
    let Some(first) = explained.refusals.first() else {
        print(&said)?;
        return Ok(());
    };
    said += "\nA server does not take it:\n";
    for refusal in &explained.refusals {
        let remedy = remedy(refusal, &claims, &expected);
        // A String takes everything.
        let _ = writeln!(said, "- {refusal}{remedy}");
    }
    print(&said)?;
    bail!(first.clone())
}

/// Names the flag that makes a server take the token, if there is one.
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
        (Some(named), Some(wanted)) => format!("; it names {named}, the server {wanted:?}"),
        (Some(named), None) => format!("; a server with --jwt-{flag} {named} takes it"),
        (None, _) => String::new(),
    }
}

/// A part of a token for the terminal: it is somebody else's, and may have control characters.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escaped).collect()
}

/// Says what a token grants where it is taken.
fn granted(explained: &Explained, now_s: u64) -> String {
    let Explained { subject, ends_s, rights, .. } = explained;
    let mut said = String::from("\n");
    // A String takes everything.
    if let Some(subject) = subject {
        let _ = writeln!(said, "subject    {}", one_line(subject));
    }
    if let Some(ends_s) = ends_s {
        let (words, left) = match ends_s.checked_sub(now_s) {
            None | Some(0) => ("ended", now_s - ends_s),
            Some(left) => ("valid for", left),
        };
        let time = humantime::format_duration(Duration::from_secs(left));
        let ago = if words == "ended" { " ago" } else { "" };
        let _ = writeln!(said, "{words:<9}  {time}{ago}");
    }
    let Some(rights) = rights else { return said };
    let rows = [
        ("subscribe", &rights.subscribe),
        ("publish", &rights.publish),
        ("inspect", &rights.inspect),
    ];
    for (right, topics) in rows {
        let _ = writeln!(said, "{right:<9}  {}", patterns(topics));
    }
    if rights.admin {
        said += "admin      may end connections of others\n";
    }
    said
}

fn patterns(topics: &Topics) -> String {
    if topics.are_none() {
        return "nothing".to_owned();
    }
    let patterns: Vec<_> = topics.patterns().iter().map(|pattern| pattern.as_str()).collect();
    patterns.join(" ")
}

/// The keys of a file, and those of a set that are not used.
fn keys(path: &Path) -> anyhow::Result<(Keys, Vec<SkippedKey>)> {
    let text = read(path)?;
    if text.contains("\"keys\"") {
        return Ok(Keys::of_set(text.as_bytes())?);
    }
    let is_public = text.contains("PUBLIC KEY")
        || text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let key = if is_public { Key::public(&text, None) } else { Key::secret(&text, None) };
    Ok((Keys::new(vec![key?])?, Vec::new()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| {
        match path.to_str().and_then(|it| it.strip_prefix('@')) {
            Some(name) => {
                format!("cannot read {}: here a file is named without @: {name}", path.display())
            }
            None => format!("cannot read {}", path.display()),
        }
    })
}
