//! Suppression of repeated answers.

use std::collections::BTreeMap;

use proto::Sid;

use crate::Ballot;
use crate::limits::{ANSWER_INTERVAL_MS, ANSWERED_MAX};

/// Last answer to each server, which is not repeated within [`ANSWER_INTERVAL_MS`].
#[derive(Debug, Default)]
pub(crate) struct Answers {
    last: BTreeMap<Sid, SentAnswer>,
}

#[derive(Debug)]
struct SentAnswer {
    ballot: Ballot,
    at_ms: i64,
}

impl Answers {
    /// Returns whether this answer may be sent. If it may, stores the answer unless
    /// [`ANSWERED_MAX`] recent answers are stored already.
    pub(crate) fn admit(&mut self, to: Sid, ballot: Ballot, now_ms: i64) -> bool {
        let is_recent = |answer: &SentAnswer| now_ms - answer.at_ms < ANSWER_INTERVAL_MS;
        let last = self.last.get(&to);
        if last.is_some_and(|last| is_recent(last) && last.ballot == ballot) {
            return false;
        }
        if self.last.len() >= ANSWERED_MAX {
            self.last.retain(|_, answer| is_recent(answer));
        }
        if self.last.len() < ANSWERED_MAX {
            let at_ms = now_ms;
            self.last.insert(to, SentAnswer { ballot, at_ms });
        }
        true
    }

    /// Removes a server's last answer, because its new connection may belong to a new process.
    pub(crate) fn forget(&mut self, sid: Sid) {
        self.last.remove(&sid);
    }
}
