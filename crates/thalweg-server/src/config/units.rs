use std::{str::FromStr, time::Duration};

use thalweg_wire::Excerpt;

/// Reads `250ms`, `500us`, `2s`, `5m`, `1h` or `0`.
///
/// # Errors
/// Returns a sentence with an example.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{:?} is not a duration: write a number and us, ms, s, m, h or d, e.g. 250ms",
            Excerpt(text)
        )
    };
    let (number, unit) = split_unit(text);
    let number: u64 = parse_digits(number, text, wrong)?;
    let us_per_unit = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        "" if number == 0 => 0,
        _ => return Err(wrong()),
    };
    let us = number.checked_mul(us_per_unit).ok_or_else(|| too_large(text))?;
    Ok(Duration::from_micros(us))
}

/// Reads `64KiB`, `8MiB`, `1GiB` or `512`.
///
/// # Errors
/// Returns a sentence with an example.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || {
        format!(
            "{:?} is not a size: write a number of bytes, KiB, MiB or GiB, e.g. 64KiB",
            Excerpt(text)
        )
    };
    let (number, unit) = split_unit(text);
    let number: usize = parse_digits(number, text, wrong)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| too_large(text))
}

/// Reads digits. A number that does not fit is too large, and not malformed.
fn parse_digits<T: FromStr>(
    digits: &str,
    text: &str,
    wrong: impl Fn() -> String,
) -> Result<T, String> {
    let is_empty = digits.is_empty();
    digits.parse().map_err(|_| if is_empty { wrong() } else { too_large(text) })
}

fn too_large(text: &str) -> String {
    format!("{:?} is too large: write a smaller number", Excerpt(text))
}

fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        let check = |text, us| assert_eq!(parse_duration(text).ok(), us, "{text}");
        check("250ms", Some(Duration::from_millis(250)));
        check("1us", Some(Duration::from_micros(1)));
        check("2s", Some(Duration::from_secs(2)));
        check("5m", Some(Duration::from_secs(300)));
        check("1h", Some(Duration::from_secs(3600)));
        check("0", Some(Duration::ZERO));
        for wrong in ["", "5", "ms", "1.5s", "-1s", "1w"] {
            assert!(
                parse_duration(wrong).unwrap_err().contains("write a number and us"),
                "{wrong}"
            );
        }
        for large in ["99999999999999999999s", "99999999999999999h"] {
            assert!(parse_duration(large).unwrap_err().contains("write a smaller number"));
        }
    }

    #[test]
    fn sizes_are_binary() {
        let check = |text, bytes| assert_eq!(parse_bytes(text).ok(), bytes, "{text}");
        check("512", Some(512));
        check("64KiB", Some(65_536));
        check("1GiB", Some(1 << 30));
        for wrong in ["", "1kb", "KiB"] {
            assert!(parse_bytes(wrong).unwrap_err().contains("write a number of bytes"), "{wrong}");
        }
        for large in ["99999999999999999999", "99999999999GiB"] {
            assert!(parse_bytes(large).unwrap_err().contains("write a smaller number"), "{large}");
        }
    }
}
