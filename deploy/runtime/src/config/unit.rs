//! Durations and sizes as people write them.

use std::time::Duration;

/// `10ms`, `5s`, `2m`, `1h`, `7d`.
///
/// # Errors
///
/// A sentence that says how to write one.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => return Err(format!("{text:?} has no unit; write for example 10ms, 5s, 2m, 1h or 7d")),
        _ => return Err(format!("{text:?} is not a duration; write for example 10ms, 5s, 2m, 1h or 7d")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a duration; write for example 10ms, 5s, 2m, 1h or 7d"))?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long"))
}

/// Bytes: `4096`, `64kB`, `16MB`, `1GB`; a kB is 1024 bytes, as in PostgreSQL's settings.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let wrong = || format!("{text:?} is not a size; write for example 64kB, 16MB or 1GB");
    let bytes: usize = match unit {
        "" | "B" => 1,
        "kB" | "KB" | "KiB" => 1 << 10,
        "MB" | "MiB" => 1 << 20,
        "GB" | "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: usize = number.parse().map_err(|_| wrong())?;
    number.checked_mul(bytes).ok_or_else(|| format!("{text:?} is too large"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [("10ms", 10), ("5s", 5_000), ("2 m", 120_000), ("1h", 3_600_000), ("7d", 604_800_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("10"), Err("\"10\" has no unit; write for example 10ms, 5s, 2m, 1h or 7d".into()));
        assert_eq!(duration("99999999999999999d"), Err("\"99999999999999999d\" is too long".into()));
        for text in ["", "s", "-1s", "1.5s", "5 parsecs", "1s2"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("4096", 4096), ("1B", 1), ("64kB", 65_536), ("16MB", 16_777_216), ("2 GiB", 2_147_483_648)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "1.5MB", "16 megabytes", "-1", "99999999999999999GB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
