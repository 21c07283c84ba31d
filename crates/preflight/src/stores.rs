//! Checks of key stores and trust stores, and of the remaining validity of the server's
//! certificates.

use std::time::{SystemTime, UNIX_EPOCH};

use config::Config;
use config::finding::{Finding, Severity};

use crate::data::number;
use crate::finding;

/// Remaining validity, in days, below which a certificate is reported.
const DAYS_AHEAD: i64 = 30;
const DAY_S: i64 = 86_400;

/// Loads all stores as a start does. Reports an unusable store, and certificates that have expired
/// or expire soon.
pub(crate) fn examine(config: &Config, now: SystemTime) -> Vec<Finding> {
    let ends = match server::start_checks::check_stores(config) {
        Ok(ends) => ends,
        Err(error) => {
            let found = Finding::new(finding::TLS_STORES, Severity::Blocker, error.to_string());
            let way_out = "correct the ssl.* settings, or the stores that they name";
            return vec![found.way_out(way_out)];
        }
    };
    let now_s = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let now_s = i64::try_from(now_s).unwrap_or(i64::MAX);
    let told = ends.into_iter().filter_map(|(key, ends_s)| {
        let found = Finding::new(
            finding::TLS_CERTIFICATE,
            Severity::Warning,
            end(ends_s, now_s)?,
        );
        let given = config.given.iter().find(|given| given.name == key);
        let found = found.at(given.and_then(|given| given.origin.clone()));
        Some(
            found
                .key(key)
                .way_out("renew the certificate: peers do not trust an expired certificate"),
        )
    });
    told.collect()
}

/// Returns the message about the expiry of a certificate, if one is due.
fn end(ends_s: i64, now_s: i64) -> Option<String> {
    match ends_s.saturating_sub(now_s) {
        left if left <= 0 => Some(format!(
            "the certificate in this store expired {} ago",
            days(left)
        )),
        left if left < DAYS_AHEAD * DAY_S => Some(format!(
            "the certificate in this store expires in {}",
            days(left)
        )),
        _ => None,
    }
}

fn days(seconds: i64) -> String {
    number((seconds / DAY_S).unsigned_abs(), "day")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_of_a_certificate_is_reported_a_month_ahead() {
        let now = 1_800_000_000;
        assert_eq!(end(now + 31 * DAY_S, now), None);
        let in_days = |days: i64| end(now + days * DAY_S + 1, now).unwrap();
        assert_eq!(
            in_days(29),
            "the certificate in this store expires in 29 days"
        );
        assert_eq!(
            end(now - 3 * DAY_S, now).unwrap(),
            "the certificate in this store expired 3 days ago"
        );
    }
}
