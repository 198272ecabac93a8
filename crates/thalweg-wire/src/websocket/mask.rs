/// XORs `bytes` with `mask`, from the mask's first byte on (RFC 6455 §5.3). Masking and unmasking are the same operation.
pub(super) fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, tail) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_unmasked_as_the_rfc_says() {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        for len in 0..40 {
            let masked: Vec<u8> = (0..len).collect();
            let mut bytes = masked.clone();
            unmask(&mut bytes, mask);
            // RFC 6455 §5.3: transformed-octet-i = original-octet-i XOR mask[i MOD 4].
            for (i, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, masked[i] ^ mask[i % 4], "byte {i} of {len}");
            }
        }
    }
}
