//! Failures of members, and the time limit of a feed.

use std::time::Duration;

use hyper::StatusCode;
use proto::Zxid;
use proto::position::Position;
use tokio::time::Instant;

use super::ChangesError;
use crate::admin::AdminError;

/// Time for which a feed waits for members that have not yet recorded its position. A member may
/// lag after a restart or a lost connection.
const LAG_LIMIT: Duration = Duration::from_secs(30);

/// Failures since a member last continued the feed.
#[derive(Debug, Default)]
pub(super) struct Failures {
    round: Round,
    /// Time of the first failure.
    since: Option<Instant>,
    /// Time since which every member has lagged in every round.
    lagging_since: Option<Instant>,
}

/// Failures of a round, in which the feed tries each member once.
#[derive(Debug, Default)]
struct Round {
    failed: usize,
    /// Number of members that do not keep the next change.
    not_kept: usize,
    /// Earliest position from which one of these members could continue.
    resume_after: Option<Position>,
    /// Number of members without a change history.
    without_history: usize,
    /// Number of members whose last transaction is before the position of the feed.
    lagging: usize,
    /// Newest last transaction of these members, and the position of the feed.
    head: Option<(Zxid, Position)>,
}

impl Failures {
    /// Records that a member cannot continue. Returns whether all `members` have failed in this
    /// round.
    pub(super) fn note(&mut self, error: &AdminError, members: usize, now: Instant) -> bool {
        self.since.get_or_insert(now);
        let round = &mut self.round;
        round.failed += 1;
        match error {
            AdminError::Refused { status, answer, .. } if *status == StatusCode::GONE => {
                let offered = answer["resume_after"].as_str();
                let offered = offered.and_then(|text| Position::parse(text).ok());
                round.not_kept += 1;
                round.resume_after = round.resume_after.into_iter().chain(offered).min();
            }
            AdminError::Lagging { head, position, .. } => {
                round.lagging += 1;
                let found = Some((*head, *position));
                round.head = round.head.max(found);
            }
            error if error.is_without_history() => round.without_history += 1,
            _ => {}
        }
        round.failed >= members
    }

    /// Ends a round in which all members failed. Returns the error of the feed if another round
    /// cannot succeed, or if the failures have lasted for `limit`. An error resets all counts and
    /// times.
    pub(super) fn end_round(
        &mut self,
        last: &AdminError,
        limit: Option<Duration>,
        now: Instant,
    ) -> Option<ChangesError> {
        let round = std::mem::take(&mut self.round);
        let last = last.clone();
        let all = round.failed;
        let all_lagging = round.head.filter(|_| round.lagging == all);
        self.lagging_since = all_lagging.map(|_| self.lagging_since.unwrap_or(now));
        let error = if round.without_history == all {
            ChangesError::NoHistory { last }
        } else if let Some(resume_after) = round.resume_after.filter(|_| round.not_kept == all) {
            ChangesError::NotKept { resume_after, last }
        } else if let Some((head, position)) = all_lagging
            && has_passed(self.lagging_since, LAG_LIMIT, now)
        {
            ChangesError::BeyondHead { position, head }
        } else if limit.is_some_and(|limit| has_passed(self.since, limit, now)) {
            ChangesError::Unreachable { last }
        } else {
            return None;
        };
        *self = Self::default();
        Some(error)
    }
}

fn has_passed(since: Option<Instant>, limit: Duration, now: Instant) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admin::unreachable;

    fn lagging(head: i64) -> AdminError {
        AdminError::Lagging {
            server: "a:1".into(),
            position: Position::after(Zxid(0x50)),
            head: Zxid(head),
        }
    }

    fn refused(status: StatusCode, answer: serde_json::Value) -> AdminError {
        AdminError::Refused {
            server: "a:1".into(),
            status,
            text: String::new(),
            answer,
        }
    }

    /// Returns the error of the feed after a round with these errors.
    fn round(
        failures: &mut Failures,
        errors: &[AdminError],
        limit: Option<Duration>,
        now: Instant,
    ) -> Option<ChangesError> {
        let mut is_over = false;
        for error in errors {
            assert!(!is_over, "a round has as many failures as members");
            is_over = failures.note(error, errors.len(), now);
        }
        assert!(is_over);
        failures.end_round(errors.last()?, limit, now)
    }

    #[test]
    fn a_feed_ends_after_its_time_limit() {
        let start = Instant::now();
        let limit = Duration::from_secs(60);
        let errors = [unreachable("a:1", &"one"), unreachable("b:1", &"two")];
        let mut failures = Failures::default();
        for seconds in [0, 30, 59] {
            let now = start + Duration::from_secs(seconds);
            assert!(round(&mut failures, &errors, Some(limit), now).is_none());
        }
        let error = round(&mut failures, &errors, Some(limit), start + limit);
        let Some(ChangesError::Unreachable { last }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(last.to_string(), "b:1: two");
        // After an error, the time limit starts again.
        assert!(round(&mut failures, &errors, Some(limit), start + limit).is_none());
        assert!(round(&mut failures, &errors, None, start + limit * 100).is_none());
    }

    #[test]
    fn a_position_beyond_the_head_of_all_members_is_an_error() {
        let start = Instant::now();
        let mut failures = Failures::default();
        let all = [lagging(0x20), lagging(0x41), lagging(0x30)];
        assert!(round(&mut failures, &all, None, start).is_none());
        // An unreachable member may already have recorded the position.
        let some = [lagging(0x20), unreachable("b:1", &"gone")];
        assert!(round(&mut failures, &some, None, start + LAG_LIMIT).is_none());
        assert!(round(&mut failures, &all, None, start + LAG_LIMIT).is_none());
        let error = round(&mut failures, &all, None, start + LAG_LIMIT * 2);
        let error = error.expect("the limit has passed");
        let ChangesError::BeyondHead { position, head } = &error else {
            panic!("{error}");
        };
        assert_eq!((position.zxid.0, head.0), (0x50, 0x41));
        let expected = "position 0x50 is after the last transaction of all members, 0x41";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn only_reasons_common_to_all_members_end_a_feed_at_once() {
        let now = Instant::now();
        let off = || {
            let answer = json!({ "error": "Unknown command: history/feed" });
            refused(StatusCode::OK, answer)
        };
        let gone = || refused(StatusCode::GONE, json!({ "resume_after": "0x40" }));
        let mut failures = Failures::default();
        assert!(round(&mut failures, &[off(), gone()], None, now).is_none());
        let error = round(&mut failures, &[off(), off()], None, now);
        assert!(matches!(error, Some(ChangesError::NoHistory { .. })));
        let error = round(&mut failures, &[gone(), gone()], None, now);
        assert!(matches!(error, Some(ChangesError::NotKept { .. })));
    }
}
