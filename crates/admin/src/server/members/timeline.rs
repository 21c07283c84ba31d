//! Events of the ensemble as this member observed them: elections, changes of the member list, and
//! members that stop or start answering.

use std::collections::VecDeque;

use config::membership::Membership;
use proto::Sid;
use serde_json::{Value, json};

use crate::limits::ENSEMBLE_EVENTS_MAX;

/// Maximum difference, in ms, between two reports of the same election.
const SAME_ELECTION_MS: i64 = 1_000;

/// Latest events.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    events: VecDeque<Event>,
    leader: Option<Leader>,
    /// Last known member list.
    members: Option<Membership>,
}

#[derive(Debug)]
struct Event {
    at_ms: i64,
    text: String,
}

/// Leader, and the start of its epoch in ms since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leader {
    /// Id of the leader.
    pub(super) sid: Sid,
    /// Start of its epoch.
    pub(super) since_ms: i64,
}

impl Timeline {
    /// Adds an event.
    pub(super) fn add(&mut self, at_ms: i64, text: String) {
        if self.events.len() == ENSEMBLE_EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { at_ms, text });
    }

    /// Records a change of the leader since the last call as an event.
    pub(super) fn note_leader(&mut self, now_ms: i64, leader: Option<Leader>) {
        match (self.leader, leader) {
            (None, None) => {}
            (Some(before), Some(now)) if before.is_same(now) => {}
            (Some(before), None) => {
                self.add(
                    now_ms,
                    format!("server {} does not lead any more", before.sid),
                );
            }
            (_, Some(now)) => {
                let at_ms = now.since_ms.min(now_ms);
                self.add(at_ms, format!("server {} was elected leader", now.sid));
            }
        }
        self.leader = leader;
    }

    /// Records the differences from the member list of the last call as events. The first list does
    /// not cause an event.
    pub(super) fn note_members(&mut self, now_ms: i64, members: &Membership) {
        let before = self.members.as_ref();
        if before.is_some_and(|before| before.version == members.version) {
            return;
        }
        let changes = before.map(|before| changes(before, members));
        self.members = Some(members.clone());
        for change in changes.unwrap_or_default() {
            self.add(now_ms, change);
        }
    }

    /// Returns the events, newest first.
    pub(super) fn to_json(&self) -> Value {
        let events = self.events.iter().rev();
        events
            .map(|event| json!({ "at": event.at_ms, "text": event.text }))
            .collect()
    }
}

impl Leader {
    fn is_same(self, other: Self) -> bool {
        let difference = self.since_ms.saturating_sub(other.since_ms);
        self.sid == other.sid && difference.saturating_abs() <= SAME_ELECTION_MS
    }
}

fn changes(before: &Membership, now: &Membership) -> Vec<String> {
    let version = now.version;
    let mut changes = Vec::new();
    for (sid, member) in &now.members {
        let text = match before.members.get(sid) {
            None => format!("was added: {member}"),
            Some(old) if old.to_string() != member.to_string() => format!("has changed: {member}"),
            Some(_) => continue,
        };
        changes.push(format!("member list {version}: server {sid} {text}"));
    }
    let removed = before
        .members
        .keys()
        .filter(|sid| !now.members.contains_key(sid));
    changes.extend(removed.map(|sid| format!("member list {version}: server {sid} was removed")));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(timeline: &Timeline) -> Vec<String> {
        let events = timeline.events.iter();
        events
            .map(|event| format!("{} {}", event.at_ms, event.text))
            .collect()
    }

    fn leader(sid: i64, since_ms: i64) -> Option<Leader> {
        let sid = Sid(sid);
        Some(Leader { sid, since_ms })
    }

    #[test]
    fn elections_are_events_at_their_time() {
        let mut timeline = Timeline::default();
        timeline.note_leader(5_000, leader(2, 1_000));
        // The clocks of two reports differ by some ms.
        timeline.note_leader(6_000, leader(2, 1_003));
        timeline.note_leader(7_000, None);
        timeline.note_leader(8_000, None);
        timeline.note_leader(9_000, leader(3, 8_200));
        // The same server was elected again between two samples.
        timeline.note_leader(14_000, leader(3, 12_000));
        let wanted = [
            "1000 server 2 was elected leader",
            "7000 server 2 does not lead any more",
            "8200 server 3 was elected leader",
            "12000 server 3 was elected leader",
        ];
        assert_eq!(texts(&timeline), wanted);
    }

    #[test]
    fn changes_of_the_member_list_are_events() {
        let list = |text: &str| Membership::parse(text, false).unwrap();
        let mut timeline = Timeline::default();
        timeline.note_members(1, &list("server.1=a:1:2\nserver.2=b:1:2\nversion=1"));
        timeline.note_members(2, &list("server.1=a:1:2\nserver.2=b:1:2\nversion=1"));
        timeline.note_members(3, &list("server.1=a:9:2\nserver.3=c:1:2\nversion=2"));
        let wanted = [
            "3 member list 2: server 1 has changed: a:9:2:participant",
            "3 member list 2: server 3 was added: c:1:2:participant",
            "3 member list 2: server 2 was removed",
        ];
        assert_eq!(texts(&timeline), wanted);
    }

    #[test]
    fn only_the_latest_events_are_kept() {
        let mut timeline = Timeline::default();
        for number in 0..2 * ENSEMBLE_EVENTS_MAX {
            timeline.add(0, number.to_string());
        }
        let events = timeline.to_json();
        let events = events.as_array().unwrap();
        assert_eq!(events.len(), ENSEMBLE_EVENTS_MAX);
        assert_eq!(events[0]["text"], (2 * ENSEMBLE_EVENTS_MAX - 1).to_string());
    }
}
