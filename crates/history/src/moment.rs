//! Moments as text: a transaction or a time.

use jiff::Timestamp;
use proto::position::parse_zxid;

use crate::read::Moment;

impl Moment {
    /// `0x1a`, `26`, or a time as `2026-11-20T14:02:00Z`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(zxid) = parse_zxid(text) {
            return Ok(Self::Zxid(zxid));
        }
        let time: Result<Timestamp, _> = text.parse();
        let time = time.map_err(|_| {
            "neither a zxid (decimal, or hex with 0x in front) nor a time (2026-11-20T14:02:00Z)"
        })?;
        Ok(Self::Time(time.as_millisecond()))
    }
}

/// Hex digits of a session's id, `0x` may stand in front.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_session(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(u64::cast_signed)
        .map_err(|_| "not a session: hex digits, 0x may stand in front".to_owned())
}

/// A time (ms since 1970) as text.
pub fn time_text(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use proto::Zxid;

    use super::*;

    #[test]
    fn moments_are_zxids_or_times() {
        assert_eq!(Moment::parse("0x1f"), Ok(Moment::Zxid(Zxid(31))));
        assert_eq!(Moment::parse("7"), Ok(Moment::Zxid(Zxid(7))));
        let time = Moment::parse("2023-11-14T22:13:20.5Z");
        assert_eq!(time, Ok(Moment::Time(1_700_000_000_500)));
        assert_eq!(time_text(1_700_000_000_500), "2023-11-14T22:13:20.5Z");
        for wrong in ["", "yesterday", "-1", "2023-11-14"] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
    }
}
