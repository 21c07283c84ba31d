//! Parsing and formatting of moments, which are transactions or times.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use proto::position::parse_zxid;

use crate::reading::read::Moment;

impl Moment {
    /// Parses `0x1a`, `26`, or a time such as `2026-11-20T14:02:00Z`.
    ///
    /// # Errors
    /// If the string has none of these forms. The error describes the forms.
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

    /// Parses a moment typed by a user at the time `now`. Also accepts `10m`, `1h30m` or `2 hours
    /// ago`, `now`, `today`, `yesterday`, `yesterday 05:51`, `2026-11-28`, `2026-11-28 05:51` and
    /// `05:51`, in the time zone of `now`. A day without a time begins at 00:00.
    ///
    /// # Errors
    /// If the string has none of these forms.
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

/// Returns the time that the user typed; `None` if its form is unknown.
fn typed_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    let words = text.to_ascii_lowercase();
    let (day, time) = match words.split_once(char::is_whitespace) {
        Some((day, time)) => (day, Some(time.trim_start())),
        None => (words.as_str(), None),
    };
    let date = match day {
        "now" if time.is_none() => return Some(now.timestamp()),
        "today" => Some(now.date()),
        "yesterday" => Some(now.date().yesterday().ok()?),
        _ => None,
    };
    if let Some(date) = date {
        let time = time.map_or(Ok(Time::midnight()), str::parse).ok()?;
        return in_zone(date.to_datetime(time), now.time_zone());
    }
    if let Some(age) = age(&words) {
        return Some(now.checked_sub(age).ok()?.timestamp());
    }
    // A time in UTC that `Moment::parse` does not accept is invalid.
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

/// Parses a duration such as `90s`, `1h30m`, `10 minutes ago` or `1w`.
fn age(text: &str) -> Option<Span> {
    let text = text.strip_suffix("ago").map_or(text, str::trim_end);
    let age: Span = text.parse().ok()?;
    (!age.is_negative()).then_some(age)
}

/// Parses the hex digits of a session id, with or without `0x`.
///
/// # Errors
/// If the string is not such a number.
pub fn parse_session(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(u64::cast_signed)
        .map_err(|_| "not a session id; write hex digits, with or without 0x".to_owned())
}

/// Formats a time, given in ms since 1970.
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
    fn moments_may_be_ages_days_and_local_times() {
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
            ("1h30m", "2026-11-28T04:21:30Z"),
            ("1h 30m ago", "2026-11-28T04:21:30Z"),
            ("10 min", "2026-11-28T05:41:30Z"),
            ("2 hours ago", "2026-11-28T03:51:30Z"),
            ("1 day ago", "2026-11-27T05:51:30Z"),
            ("1d", "2026-11-27T05:51:30Z"),
            ("1w", "2026-11-21T05:51:30Z"),
            ("today", "2026-11-27T22:00:00Z"),
            ("yesterday", "2026-11-26T22:00:00Z"),
            ("Yesterday 05:51", "2026-11-27T03:51:00Z"),
            ("today 05:51:07", "2026-11-28T03:51:07Z"),
            ("2026-11-28 05:51", "2026-11-28T03:51:00Z"),
            ("2026-11-28T05:51", "2026-11-28T03:51:00Z"),
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
            "ago",
            "-5m",
            "5m yesterday",
            "yesterday soon",
            "now 05:51",
            "yesterday 25:00",
            "2026-02-30",
            "99999999999999999999d",
            "9e9w",
            "tomorrow",
        ] {
            let error = Moment::parse_typed(wrong, &now).unwrap_err();
            assert!(error.contains("examples:"), "{wrong}: {error}");
        }
    }
}
