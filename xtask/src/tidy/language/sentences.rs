//! First words that make a sentence hard to read, and words to avoid.

use super::prose::HIDDEN;

/// A sentence that begins with one of these has no subject at its beginning.
const FIRST_WORDS: [&str; 7] = ["What", "Who", "Whoever", "Whom", "Of", "So", "Nothing"];

/// Words and phrases to avoid, lower-case, and better ones. Names in code count, too: `HeardEvent` and
/// `is_heard` have the word `heard`.
const AVOIDED: &[(&str, &str)] = &[
    ("whoever", "name the subject: a client, a subscriber"),
    ("whomever", "name the subject"),
    ("whom", "name the subject, or write \"for which\""),
    ("leave it away", "remove it"),
    ("left away", "removed"),
    ("leaves away", "removes"),
    ("in a circle", "in a tight loop"),
    ("in circles", "in a tight loop"),
    ("is believed", "is trusted"),
    ("are believed", "are trusted"),
    ("is not believed", "is not trusted"),
    ("as a tie", "no difference found"),
    ("a tie", "no difference found"),
    ("unsaid", "say what is missing: lost without a gap, not logged"),
    ("to be had", "available"),
    ("be had", "be available"),
    ("comes of", "name the result"),
    ("come of", "name the result"),
    ("is to be done", "say who does what"),
    ("for so long", "for this long"),
    ("so long ago", "this long ago"),
    ("takes so long", "takes this long"),
    ("at most so long", "at most this long"),
    ("anew", "again"),
    ("in vain", "without success"),
    ("seldom", "rarely; a log throttle is a `LogThrottle`"),
    ("heard", "received"),
    ("stranger", "a foreign server, an invalid message"),
    ("wish", "request"),
    ("wishes", "requests"),
    ("ear", "subscriber"),
    ("ears", "subscribers"),
    ("asker", "`RequestInfo`"),
    ("mail", "messages between shards"),
    ("recall", "backfill"),
    ("recalls", "backfills"),
    ("recalled", "backfilled"),
    ("read back", "backfill"),
];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Lines before it in the text.
    pub(super) lines_before: usize,
    pub(super) kind: Kind,
    /// The text from here on, shortened.
    pub(super) excerpt: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    FirstWord(&'static str),
    Avoided { phrase: &'static str, better: &'static str },
}

pub(super) fn first_words(text: &str) -> impl Iterator<Item = Hit> {
    let words: Vec<(usize, &str)> = words(text).collect();
    (0..words.len()).filter_map(move |at| {
        let (begin, word) = words[at];
        let first = FIRST_WORDS.into_iter().find(|first| *first == word)?;
        // A heading of one word is not a sentence.
        words.get(at + 1)?;
        begins_sentence(&text[..begin]).then(|| Hit::new(text, begin, Kind::FirstWord(first)))
    })
}

/// Returns whether a word after this text begins a sentence.
fn begins_sentence(before: &str) -> bool {
    let outside = before.trim_end_matches(['(', '[', '*', '_', '"', '“', '\'']);
    if before[outside.len()..].contains('(') || outside.is_empty() {
        return true;
    }
    if !outside.ends_with(char::is_whitespace) {
        return false;
    }
    let ended = outside.trim_end().trim_end_matches([')', ']', '*', '_', '"', '”', '\'', HIDDEN]);
    ended.is_empty() || ended.ends_with(['.', '!', '?', ':'])
}

/// Finds words and phrases of [`AVOIDED`]: in prose, and in names such as `HeardEvent` and `is_heard`.
pub(super) fn avoided(text: &str) -> impl Iterator<Item = Hit> {
    let parts: Vec<(usize, String)> = words(text)
        .flat_map(|(begin, word)| {
            name_parts(word).map(move |(at, part)| (begin + at, part.to_lowercase()))
        })
        .collect();
    (0..parts.len()).filter_map(move |at| {
        let fits = |phrase: &str| {
            let rest = &parts[at..];
            let mut expected = phrase.split(' ').zip(rest);
            phrase.split(' ').count() <= rest.len()
                && expected.all(|(word, (_, part))| word == part)
                && adjoin(text, &rest[..phrase.split(' ').count()])
        };
        // `e-mail` is another word.
        if text[..parts[at].0].ends_with('-') {
            return None;
        }
        // The longest phrase counts.
        let (phrase, better) =
            *AVOIDED.iter().filter(|(phrase, _)| fits(phrase)).max_by_key(|(p, _)| p.len())?;
        Some(Hit::new(text, parts[at].0, Kind::Avoided { phrase, better }))
    })
}

/// Returns whether only spaces and underscores separate the parts: no end of a sentence, no code.
fn adjoin(text: &str, parts: &[(usize, String)]) -> bool {
    parts.windows(2).all(|pair| {
        let [(begin, part), (next, _)] = pair else { return false };
        text.get(begin + part.len()..*next)
            .is_some_and(|between| between.chars().all(|c| c.is_whitespace() || c == '_'))
    })
}

/// Returns every run of letters, and its position.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at + text[at..].find(char::is_alphabetic)?;
        let len = text[begin..].find(|c: char| !c.is_alphabetic());
        at = len.map_or(text.len(), |len| begin + len);
        Some((begin, &text[begin..at]))
    })
}

/// Splits `HeardEvent` into `Heard` and `Event`, with the position of each.
fn name_parts(word: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut begins = vec![0];
    let mut was_lower = false;
    for (at, c) in word.char_indices() {
        if was_lower && c.is_uppercase() {
            begins.push(at);
        }
        was_lower = c.is_lowercase();
    }
    let ends: Vec<usize> = begins[1..].iter().copied().chain([word.len()]).collect();
    begins.into_iter().zip(ends).map(|(begin, end)| (begin, &word[begin..end]))
}

impl Hit {
    const EXCERPT_CHARS: usize = 70;

    fn new(text: &str, at: usize, kind: Kind) -> Self {
        let lines_before = text[..at].matches('\n').count();
        let rest = text[at..].split_whitespace().collect::<Vec<_>>().join(" ");
        let excerpt = rest.chars().take(Self::EXCERPT_CHARS).collect();
        Self { lines_before, kind, excerpt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_with_a_bad_first_word_is_found() {
        fn check(text: &str, expected: &[&str]) {
            let found: Vec<String> = first_words(text).map(|hit| hit.excerpt).collect();
            assert_eq!(found, expected, "{text}");
        }
        check("What a peer sends never panics.", &["What a peer sends never panics."]);
        check("**Who** may publish", &["Who** may publish"]);
        check("It ends. Of all, the first.", &["Of all, the first."]);
        check("It ends (early). So it is.", &["So it is."]);
        check("It ends. (Nothing is lost.)", &["Nothing is lost.)"]);
        check("It has one rule: Whoever asks waits.", &["Whoever asks waits."]);
        check("It ends.\nWhom it\nconcerns", &["Whom it concerns"]);
        check("A server. `code`: So it", &["So it"]);
        check("The client decides what it reads, so it is of use to nothing.", &[]);
        check("What", &[]);
        check("The group Of Four, e.g.So", &[]);
        check("Whatever Often Sometimes", &[]);
    }

    #[test]
    fn an_avoided_word_is_found_in_prose_and_in_names() {
        fn check(text: &str, expected: &[&str]) {
            let phrase = |hit: Hit| match hit.kind {
                Kind::Avoided { phrase, .. } => phrase,
                Kind::FirstWord(word) => word,
            };
            assert_eq!(avoided(text).map(phrase).collect::<Vec<_>>(), expected, "{text}");
        }
        check("a key, or leave\nit away", &["leave it away"]);
        check("Whoever asks", &["whoever"]);
        check("struct HeardEvent; fn is_heard()", &["heard", "heard"]);
        check("fn leave_it_away()", &["leave it away"]);
        check("we leave. It away", &[]);
        check("the proxy is not believed", &["is not believed"]);
        check("an e-mail to a shard", &[]);
        check("remove it; the early hearing wishlist of an email", &[]);
    }

    #[test]
    fn a_hit_knows_its_line() {
        let hits: Vec<usize> =
            first_words("It.\nSo it\nis. Of it").map(|hit| hit.lines_before).collect();
        assert_eq!(hits, [1, 2]);
    }
}
