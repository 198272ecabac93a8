//! Reads a stream with miniz_oxide like a client: byte by byte.

use miniz_oxide::{
    DataFormat, MZFlush, MZStatus,
    inflate::stream::{InflateState, inflate},
};

pub(super) struct Reader {
    state: Box<InflateState>,
    skip: usize,
}

impl Reader {
    pub(super) fn raw() -> Self {
        Self { state: InflateState::new_boxed(DataFormat::Raw), skip: 0 }
    }

    /// Checks a header without options (RFC 1952 §2.3), then reads the bytes behind it.
    pub(super) fn gzip() -> Self {
        Self { skip: 10, ..Self::raw() }
    }

    pub(super) fn read(&mut self, input: &[u8]) -> Vec<u8> {
        let mut read = Vec::new();
        for byte in input {
            if self.skip > 0 {
                let expected: [Option<u8>; 10] =
                    [Some(0x1f), Some(0x8b), Some(8), Some(0), None, None, None, None, None, None];
                assert!(expected[10 - self.skip].is_none_or(|expected| expected == *byte));
                self.skip -= 1;
                continue;
            }
            self.take(&[*byte], &mut read);
        }
        read
    }

    fn take(&mut self, mut input: &[u8], read: &mut Vec<u8>) {
        let mut room = [0; 1024];
        loop {
            let result = inflate(&mut self.state, input, &mut room, MZFlush::None);
            input = &input[result.bytes_consumed..];
            read.extend(&room[..result.bytes_written]);
            match result.status {
                Ok(MZStatus::Ok) if result.bytes_written > 0 || !input.is_empty() => {}
                Ok(MZStatus::Ok) | Err(miniz_oxide::MZError::Buf) => break,
                other => panic!("{other:?}: a stream does not end"),
            }
        }
    }
}
