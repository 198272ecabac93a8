//! The ends of connections, and whether the client reconnects. Table: `docs/reference/errors.md`, "Close".

use thalweg_wire::close;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server closed the connection.
    Close {
        code: u16,
        reason: String,
        /// The server's advice; a WebSocket's close frame has none.
        reconnect: Option<bool>,
    },
    /// A long poll's answer is complete.
    Answered,
    /// The connection was cut or silent, or sent invalid data: one clause with the reason.
    Cut(String),
}

impl Ending {
    pub(crate) fn reconnects(&self) -> bool {
        match self {
            Self::Answered | Self::Cut(_) => true,
            Self::Close { code, reconnect, .. } => reconnect.unwrap_or_else(|| comes_back(*code)),
        }
    }

    pub(crate) fn why(&self) -> String {
        match self {
            Self::Answered => "the poll was answered".to_owned(),
            Self::Cut(why) => why.clone(),
            Self::Close { code, reason, .. } if reason.is_empty() => {
                format!("the server closed ({code})")
            }
            Self::Close { code, reason, .. } => format!("the server closed: {reason} ({code})"),
        }
    }
}

/// Returns whether the client reconnects after a close code, known or not.
fn comes_back(code: u16) -> bool {
    match close::ALL.into_iter().find(|known| known.code == code) {
        Some(known) => known.reconnect,
        None => matches!(code, 1001 | 1005 | 1006 | 1011..=1014 | 4000..=4499),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide_whether_to_come_back() {
        let check = |code, reconnect, expected| {
            let ending = Ending::Close { code, reason: String::new(), reconnect };
            assert_eq!(ending.reconnects(), expected, "{ending:?}");
        };
        for code in [1001, 1005, 1006, 1011, 1012, 1013, 1014, 4000, 4001, 4003, 4499] {
            check(code, None, true);
        }
        for code in [1000, 1002, 1003, 1007, 1008, 1009, 1010, 1015, 3000, 4500, 4999] {
            check(code, None, false);
        }
        check(1001, Some(false), false);
        check(1000, Some(true), true);
    }

    #[test]
    fn a_cut_is_no_end() {
        assert!(Ending::Cut("reset".into()).reconnects());
        assert!(Ending::Answered.reconnects());
    }

    #[test]
    fn an_ending_is_one_clause() {
        let ending = Ending::Close { code: 1001, reason: "draining".into(), reconnect: None };
        assert_eq!(ending.why(), "the server closed: draining (1001)");
    }
}
