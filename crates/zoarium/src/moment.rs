//! Moments on the command line: a transaction or a time.

use jiff::Timestamp;
use proto::Zxid;

use crate::tool::parse_zxid;

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// After this transaction.
    Zxid(Zxid),
    /// Ms since 1970.
    Time(i64),
}

/// `0x1a`, `26`, or a time as `2026-11-20T14:02:00Z`.
pub(crate) fn parse_at(text: &str) -> Result<At, String> {
    if let Ok(zxid) = parse_zxid(text) {
        return Ok(At::Zxid(zxid));
    }
    let time: Result<Timestamp, _> = text.parse();
    let time = time.map_err(
        |_| "neither a zxid (decimal, or hex with 0x in front) nor a time (2026-11-20T14:02:00Z)",
    )?;
    Ok(At::Time(time.as_millisecond()))
}

/// A time in words.
pub(crate) fn time_text(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_zxids_or_times() {
        assert_eq!(parse_at("0x1f"), Ok(At::Zxid(Zxid(31))));
        assert_eq!(parse_at("7"), Ok(At::Zxid(Zxid(7))));
        let time = parse_at("2023-11-14T22:13:20.5Z");
        assert_eq!(time, Ok(At::Time(1_700_000_000_500)));
        assert_eq!(time_text(1_700_000_000_500), "2023-11-14T22:13:20.5Z");
        for wrong in ["", "yesterday", "-1", "2023-11-14"] {
            assert!(parse_at(wrong).is_err(), "{wrong}");
        }
    }
}
