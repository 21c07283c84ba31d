//! Dates in the time zone of the machine.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formatter for dates in the format of logback's `%d{ISO8601}`.
#[derive(Debug)]
pub struct LocalDates {
    zone: TimeZone,
}

impl LocalDates {
    /// Creates a formatter for the time zone in `TZ` or, if `TZ` is not set, for the time zone of
    /// this machine. The fallback is UTC.
    pub fn of_this_machine() -> Self {
        Self {
            zone: TimeZone::try_system().unwrap_or(TimeZone::UTC),
        }
    }

    /// Formats a time in ms since 1970 as `2026-11-23 00:02:48,769`.
    pub fn iso8601(&self, wall_ms: i64) -> String {
        let moment = Timestamp::from_millisecond(wall_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let local = moment.to_zoned(self.zone.clone());
        local.strftime("%Y-%m-%d %H:%M:%S,%3f").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_equal_logbacks() {
        let dates = LocalDates {
            zone: TimeZone::UTC,
        };
        assert_eq!(dates.iso8601(1_795_392_168_769), "2026-11-23 00:02:48,769");
        assert_eq!(dates.iso8601(5), "1970-01-01 00:00:00,005");
    }
}
