//! Dates as Java prints them, in UTC and English.

use jiff::Timestamp;

/// Returns the time `millis` after 1970 without fractions of a second, or the nearest representable
/// time.
fn moment(millis: i64) -> Timestamp {
    let nearest = if millis < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(millis.div_euclid(1000)).unwrap_or(nearest)
}

/// Formats a time as `11/22/26, 1:40:37 AM UTC`.
pub(crate) fn short(millis: i64) -> String {
    let date = moment(millis).strftime("%-m/%-d/%y, %-I:%M:%S %p UTC");
    date.to_string()
}

/// Formats a time as `Sat Nov 21 21:23:20 UTC 2026`.
pub(crate) fn long(millis: i64) -> String {
    let date = moment(millis).strftime("%a %b %d %H:%M:%S UTC %Y");
    date.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_printed_as_java_prints_them() {
        assert_eq!(short(1_795_311_637_331), "11/22/26, 1:40:37 AM UTC");
        assert_eq!(short(0), "1/1/70, 12:00:00 AM UTC");
        assert_eq!(long(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(long(1_795_296_200_000), "Sat Nov 21 21:23:20 UTC 2026");
        assert_eq!(long(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
        assert_eq!(long(951_868_800_000), "Wed Mar 01 00:00:00 UTC 2000");
        assert_eq!(short(46_800_000), "1/1/70, 1:00:00 PM UTC");
        assert_eq!(long(-1), "Wed Dec 31 23:59:59 UTC 1969");
        // All numbers are accepted.
        long(i64::MIN);
        short(i64::MAX);
    }
}
