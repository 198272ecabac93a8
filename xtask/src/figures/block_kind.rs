//! The first line of a block of figures: the marks around it, and the content that it names.

use super::archived::Metric;

pub(super) const BEGIN: &str = "<!-- figures ";

/// The content of a block.
pub(super) enum BlockKind {
    /// Comparisons in these metrics, by cell or pooled.
    Compared { is_pooled: bool, metrics: Vec<Metric> },
    /// The rank of each of many subjects.
    Standings(Rows),
}

pub(super) enum Rows {
    /// This many of each transport.
    First(usize),
    /// Those of the named subjects, over one transport.
    Named { transport: String, subjects: Vec<String> },
}

impl BlockKind {
    /// Parses `[pooled] METRIC…`, `standings [ROWS]` or `standings TRANSPORT SUBJECT…`.
    pub(super) fn parse(words: &str) -> Option<BlockKind> {
        if let Some(rows) = words.strip_prefix("standings") {
            return Some(BlockKind::Standings(match rows.trim_start() {
                "" => Rows::First(usize::MAX),
                rows => match (rows.parse(), rows.split_once(' ')) {
                    (Ok(rows_max), _) => Rows::First(rows_max),
                    (_, Some((transport, subjects))) => Rows::Named {
                        transport: transport.to_owned(),
                        subjects: subjects.split_whitespace().map(str::to_owned).collect(),
                    },
                    (Err(_), None) => return None,
                },
            }));
        }
        let is_pooled = words.starts_with("pooled ");
        let words = words.strip_prefix("pooled ").unwrap_or(words);
        let metric = |word| match word {
            "cpu" => Some(Metric::Cpu),
            "p99" => Some(Metric::P99),
            "round_trip" => Some(Metric::RoundTrip),
            "throughput" => Some(Metric::Throughput),
            "memory" => Some(Metric::Memory),
            "held" => Some(Metric::Held),
            _ => None,
        };
        let metrics = words.split_whitespace().map(metric).collect::<Option<Vec<_>>>()?;
        (!metrics.is_empty()).then_some(BlockKind::Compared { is_pooled, metrics })
    }
}

/// Returns the two halves of `WHAT from RUN… -->`.
pub(super) fn content(words: &str) -> Option<(&str, &str)> {
    words.trim_end().strip_suffix("-->")?.split_once(" from ")
}
