//! Dates as Java prints them, in UTC and English.

/// A moment, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

impl Civil {
    /// Milliseconds since 1970. The calendar's cycle of 400 years has 146097 days; a year that
    /// begins in March has its leap day at the end.
    fn of_millis(millis: i64) -> Self {
        let seconds = millis.div_euclid(1000);
        let (days, second_of_day) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
        let since_march = days + 719_468;
        let (cycle, day_of_cycle) = (
            since_march.div_euclid(146_097),
            since_march.rem_euclid(146_097),
        );
        let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36524
            - day_of_cycle / 146_096)
            / 365;
        let day_of_year =
            day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12;
        Self {
            year: cycle * 400 + year_of_cycle + i64::from(month < 2),
            month: usize::try_from(month).unwrap_or(0),
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            weekday: usize::try_from(days.rem_euclid(7)).unwrap_or(0),
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

/// `11/22/26, 1:40:37 AM UTC`
pub(crate) fn short(millis: i64) -> String {
    let date = Civil::of_millis(millis);
    format!(
        "{}/{}/{:02}, {}:{:02}:{:02} {} UTC",
        date.month + 1,
        date.day,
        date.year.rem_euclid(100),
        (date.hour + 11) % 12 + 1,
        date.minute,
        date.second,
        if date.hour < 12 { "AM" } else { "PM" },
    )
}

/// `Sat Nov 21 21:23:20 UTC 2026`
pub(crate) fn long(millis: i64) -> String {
    let date = Civil::of_millis(millis);
    format!(
        "{} {} {:02} {:02}:{:02}:{:02} UTC {}",
        WEEKDAYS.get(date.weekday).unwrap_or(&""),
        MONTHS.get(date.month).unwrap_or(&""),
        date.day,
        date.hour,
        date.minute,
        date.second,
        date.year,
    )
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
        // No number is too large.
        long(i64::MIN);
        short(i64::MAX);
    }
}
