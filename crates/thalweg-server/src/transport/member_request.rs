use serde_json::value::RawValue;

/// A client's description of itself, for other members of its topics.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemberRequest {
    /// An id that the client keeps when it reconnects.
    pub(crate) id: Option<Box<str>>,
    /// Any JSON, published unchanged.
    pub(crate) info: Option<Box<RawValue>>,
}
