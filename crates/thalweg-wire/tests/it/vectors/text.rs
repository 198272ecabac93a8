use serde::Deserialize;

/// Bytes as the vectors write them: `vectors/README.md`, "Texts".
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    Whole(String),
    Pieces(Vec<Piece>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Piece {
    Text(String),
    Repeated { repeat: String, times: usize },
    Hex { hex: String },
}

impl Text {
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole(text) => text.clone().into_bytes(),
            Self::Pieces(pieces) => pieces.iter().flat_map(Piece::bytes).collect(),
        }
    }

    pub(super) fn string(&self) -> String {
        String::from_utf8(self.bytes()).expect("UTF-8")
    }
}

impl Piece {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Repeated { repeat, times } => repeat.repeat(*times).into_bytes(),
            Self::Hex { hex } => {
                let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
                (0..hex.len()).step_by(2).map(byte).collect()
            }
        }
    }
}
