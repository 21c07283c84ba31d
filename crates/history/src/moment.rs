//! Parsing and formatting moments: a transaction or a time.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use proto::position::parse_zxid;

use crate::read::Moment;

impl Moment {
    /// Parses `0x1a`, `26`, or a time such as `2026-11-20T14:02:00Z`.
    ///
    /// # Errors
    /// If the text has none of these forms; the error describes the forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(zxid) = parse_zxid(text) {
            return Ok(Self::Zxid(zxid));
        }
        let time: Result<Timestamp, _> = text.parse();
        let time = time.map_err(
            |_| "not a zxid (decimal, or hex digits after 0x) or a time (2026-11-20T14:02:00Z)",
        )?;
        Ok(Self::Time(time.as_millisecond()))
    }

    /// Parses a moment typed by a user at the time `now`: also `10m` (or `10m ago`), `now`,
    /// `today`, `yesterday`, `2026-11-28`, `2026-11-28 05:51` and `05:51`, in the time zone of
    /// `now`. A day without a time begins at 00:00.
    ///
    /// # Errors
    /// If the text has none of these forms.
    pub fn parse_typed(text: &str, now: &Zoned) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(moment) = Self::parse(text) {
            return Ok(moment);
        }
        match typed_time(text, now) {
            Some(time) => Ok(Self::Time(time.as_millisecond())),
            None => Err(format!("`{text}` is not a zxid or a time; {TYPED_FORMS}")),
        }
    }
}

/// Forms that [`Moment::parse_typed`] accepts.
const TYPED_FORMS: &str =
    "examples: 0x1a, 10m, yesterday, 05:51, '2026-11-28 05:51', 2026-11-28T05:51:00Z";

/// Returns the time of a typed text; `None` if its form is unknown.
fn typed_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    let begin = |date: Date| in_zone(date.to_datetime(Time::midnight()), now.time_zone());
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return begin(now.date()),
        "yesterday" => return begin(now.date().yesterday().ok()?),
        _ => {}
    }
    if let Some(age) = age(text.strip_suffix(" ago").unwrap_or(text)) {
        return now.timestamp().checked_sub(age).ok();
    }
    // Offsets and zones have a separate form, which `Moment::parse` accepts.
    if text.ends_with(['Z', 'z']) {
        return None;
    }
    if let Ok(time) = text.parse::<Time>() {
        return in_zone(now.date().to_datetime(time), now.time_zone());
    }
    let local: DateTime = text.parse().ok()?;
    in_zone(local, now.time_zone())
}

fn in_zone(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let zoned = local.to_zoned(zone.clone()).ok()?;
    Some(zoned.timestamp())
}

/// Parses a duration such as `90s`, `10m`, `2h`, `3d` or `1w`.
fn age(text: &str) -> Option<SignedDuration> {
    let (digits, seconds) = [
        ('s', 1),
        ('m', 60),
        ('h', 3_600),
        ('d', 86_400),
        ('w', 604_800),
    ]
    .into_iter()
    .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let count: i64 = digits.trim().parse().ok().filter(|count| *count >= 0)?;
    Some(SignedDuration::from_secs(count.checked_mul(seconds)?))
}

/// Parses the hex digits of a session's id, with or without `0x`.
///
/// # Errors
/// If the text is not such a number.
pub fn parse_session(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(u64::cast_signed)
        .map_err(|_| "not a session id; write hex digits, with or without 0x".to_owned())
}

/// Formats a time (ms since 1970).
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

    #[test]
    fn people_type_ages_days_and_local_times() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now: Timestamp = "2026-11-28T05:51:30Z".parse().unwrap();
        let now = now.to_zoned(zone);
        let time = |text: &str| match Moment::parse_typed(text, &now) {
            Ok(Moment::Time(ms)) => time_text(ms),
            other => panic!("{text}: {other:?}"),
        };
        for (text, wanted) in [
            ("now", "2026-11-28T05:51:30Z"),
            ("10m", "2026-11-28T05:41:30Z"),
            ("90s ago", "2026-11-28T05:50:00Z"),
            ("2h", "2026-11-28T03:51:30Z"),
            ("1d", "2026-11-27T05:51:30Z"),
            ("1w", "2026-11-21T05:51:30Z"),
            ("today", "2026-11-27T22:00:00Z"),
            ("yesterday", "2026-11-26T22:00:00Z"),
            ("2026-11-28 05:51", "2026-11-28T03:51:00Z"),
            ("2026-11-28 05:51:07", "2026-11-28T03:51:07Z"),
            ("2026-11-28", "2026-11-27T22:00:00Z"),
            ("05:51", "2026-11-28T03:51:00Z"),
            ("2026-11-28T05:51:00Z", "2026-11-28T05:51:00Z"),
            ("2026-11-28T05:51:00+01:00", "2026-11-28T04:51:00Z"),
        ] {
            assert_eq!(time(text), wanted, "{text}");
        }
        assert_eq!(
            Moment::parse_typed("0x1f", &now),
            Ok(Moment::Zxid(Zxid(31)))
        );
        for wrong in [
            "",
            "soon",
            "m",
            "-5m",
            "99999999999999999999d",
            "9e9w",
            "tomorrow",
        ] {
            let error = Moment::parse_typed(wrong, &now).unwrap_err();
            assert!(error.contains("examples:"), "{wrong}: {error}");
        }
    }
}
