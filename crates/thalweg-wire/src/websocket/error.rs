/// The reason why a client's bytes are not WebSocket. The server must fail the connection (RFC 6455 §7.1.7), with
/// [`ProtocolError::close_code`] in the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// RSV1, RSV2 or RSV3 is set (§5.2), and no negotiated extension gives the bit a meaning (RFC 7692 §6).
    #[error("a reserved bit is set, but no extension uses it")]
    ReservedBits,
    /// The opcode is 3–7 or 11–15 (§5.2).
    #[error("opcode {0} is reserved")]
    ReservedOpcode(u8),
    /// A control frame has no FIN (§5.5).
    #[error("a control frame is fragmented")]
    FragmentedControl,
    /// A control frame is over 125 bytes (§5.5).
    #[error("a control frame is longer than 125 bytes")]
    LongControl,
    /// A frame has no mask (§5.1).
    #[error("a client's frame is not masked")]
    Unmasked,
    /// A length takes more bytes than it needs (§5.2).
    #[error("a payload length is not in its shortest form")]
    PaddedLength,
    /// A continuation frame has no message to continue (§5.4).
    #[error("a continuation frame has no message to continue")]
    NothingToContinue,
    /// A new message begins inside a fragmented one (§5.4).
    #[error("a message begins before the previous one has ended")]
    Interleaved,
    /// A close frame's payload has one byte (§5.5.1).
    #[error("a close frame has a payload of one byte: send none, or a code of two bytes")]
    HalfCloseCode,
    /// A peer must not send this close code (§7.4).
    #[error("a peer must not send the close code {0}")]
    BadCloseCode(u16),
    /// A text message or a close reason is not UTF-8 (§8.1).
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A compressed message does not consist of whole deflate blocks (RFC 7692 §7.2.2).
    #[error(
        "a compressed message cannot be decompressed on its own: compress without context takeover"
    )]
    NotDeflate,
    /// A message exceeds the decoder's limit, by the lengths in its frame headers or once inflated.
    #[error("a message is longer than {message_bytes_max} bytes")]
    TooBig {
        /// The limit.
        message_bytes_max: u32,
    },
}

impl ProtocolError {
    /// Returns the close code for the client (RFC 6455 §7.4.1): 1002, 1007 or 1009.
    pub fn close_code(&self) -> u16 {
        match self {
            Self::NotUtf8 => 1007,
            Self::TooBig { .. } => 1009,
            _ => 1002,
        }
    }
}
