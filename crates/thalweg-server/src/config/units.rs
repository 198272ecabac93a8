use std::time::Duration;

use thalweg_wire::Excerpt;

/// Reads `250ms`, `500us`, `2s`, `5m`, `1h` or `0`.
///
/// # Errors
/// One sentence with an example.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{:?} is not a duration: write a number and us, ms, s, m or h, such as 250ms",
            Excerpt(text)
        )
    };
    let (number, unit) = split_unit(text);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let us_per_unit = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "" if number == 0 => 0,
        _ => return Err(wrong()),
    };
    number.checked_mul(us_per_unit).map(Duration::from_micros).ok_or_else(wrong)
}

/// Reads `64KiB`, `8MiB`, `1GiB` or `512`.
///
/// # Errors
/// One sentence with an example.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || {
        format!(
            "{:?} is not a size: write a number of bytes, KiB, MiB or GiB, such as 64KiB",
            Excerpt(text)
        )
    };
    let (number, unit) = split_unit(text);
    let number: usize = number.parse().map_err(|_| wrong())?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
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
        for wrong in ["", "5", "ms", "1.5s", "-1s", "1d", "99999999999999999999s"] {
            check(wrong, None);
        }
    }

    #[test]
    fn sizes_are_binary() {
        let check = |text, bytes| assert_eq!(parse_bytes(text).ok(), bytes, "{text}");
        check("512", Some(512));
        check("64KiB", Some(65_536));
        check("1GiB", Some(1 << 30));
        for wrong in ["", "1kb", "KiB", "99999999999999999999", "99999999999GiB"] {
            check(wrong, None);
        }
    }
}
