//! Lists of topics, from the subjects of a stream's messages, which JetStream knows.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use thalweg_broker::{FirstTopics, TopicRange};
use thalweg_wire::{Pattern, Topic};

use crate::{
    api::{Api, ApiError},
    settings::{subject_of, topic_of},
    stream_state::StreamState,
};

/// Maximum number of subjects of a stream for which there is a list. A page of JetStream has 100,000.
const SUBJECTS_MAX: u64 = 1_000_000;

/// Maximum number of topics whose last messages are read at the same time.
const READS_MAX: usize = 32;

/// Returns the first topics of a range, as [`thalweg_broker::TopicIndex::topics`] does. Reads the subjects of all streams, and the last
/// message of each listed topic, which may be an end.
pub(crate) async fn topics(
    api: &Api,
    streams: &[(Pattern, &StreamState)],
    mut range: TopicRange,
) -> Result<Vec<Topic>, ApiError> {
    let limit = range.limit;
    let mut found = Vec::new();
    while found.len() < limit {
        let page = subjects(api, streams, &range).await?;
        let is_last = page.len() < limit;
        let next = page.last().map(|(topic, _)| topic.as_str().to_owned());
        let live = stream::iter(page).map(|(topic, stream)| async move {
            let is_ended = api.is_ended(&stream, &subject_of(&topic)).await?;
            Ok::<_, ApiError>((is_ended == Some(false)).then_some(topic))
        });
        let live: Vec<_> = live.buffered(READS_MAX).try_collect().await?;
        found.extend(live.into_iter().flatten());
        match next.filter(|_| !is_last) {
            Some(next) => range.after = next,
            None => break,
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Returns the first topics of a range that have messages, with the names of their streams.
async fn subjects(
    api: &Api,
    streams: &[(Pattern, &StreamState)],
    range: &TopicRange,
) -> Result<Vec<(Topic, String)>, ApiError> {
    let stream_of = |topic: &Topic| streams.iter().find(|(pattern, _)| pattern.matches(topic));
    let mut first = FirstTopics::new(range.clone());
    for (pattern, state) in streams.iter().filter(|(pattern, _)| range.may_match(pattern)) {
        let mut offset = 0;
        loop {
            let (subjects, total) = api.subjects(&state.name, offset).await?;
            if total > SUBJECTS_MAX {
                let why = format!("stream {} has {total} subjects", state.name);
                return Err(ApiError::Unreadable(why));
            }
            offset += subjects.len() as u64;
            let is_last = subjects.is_empty() || offset >= total;
            for topic in subjects.iter().filter_map(|subject| topic_of(subject).ok()) {
                if stream_of(&topic).is_some_and(|(first, _)| first == pattern) {
                    first.push(topic);
                }
            }
            if is_last {
                break;
            }
        }
    }
    let with_stream = first.finish().into_iter().filter_map(|topic| {
        let name = stream_of(&topic)?.1.name.clone();
        Some((topic, name))
    });
    Ok(with_stream.collect())
}
