/// Returns the topic in a path: `Some(None)` is all topics, `Some(Some(…))` is one, `None` is something else.
pub(super) fn topics_path(path: &str) -> Option<Option<&str>> {
    let rest = path.strip_prefix("/v1/topics")?;
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(None),
        topic => topic.map(Some),
    }
}
