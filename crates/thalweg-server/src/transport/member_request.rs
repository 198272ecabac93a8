use serde_json::value::RawValue;

/// A client's words about itself, for the members of its topics.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemberRequest {
    /// An id that it keeps when it connects again.
    pub(crate) id: Option<Box<str>>,
    /// Any JSON, as it is published.
    pub(crate) info: Option<Box<RawValue>>,
}
