//! Ensemble as this member observes it: the state of each member, its last report, and the verdict
//! on the ensemble.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use config::members::{HostPort, Member, MemberRole};
use config::membership::Membership;
use metrics::view::AdminView;
use proto::health::{Health, MemberHealth, MemberState, Verdict, assess};
use proto::{Sid, Zxid};
use serde_json::{Value, json};

use super::report::{Figures, Report};
use super::timeline::{Leader, Timeline};
use crate::answer::set;
use crate::limits::LEADER_ZXIDS_MAX;

/// State of this member at one time.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// Id of this member. `None` for a standalone server.
    pub(super) my_id: Option<Sid>,
    /// Current member list. `None` for a standalone server.
    pub(super) members: Option<Arc<Membership>>,
    /// Report from this member.
    pub(super) report: Report,
    /// Time in ms since 1970.
    pub(super) now_ms: i64,
}

/// Result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The member has reported.
    Report(Box<Report>),
    /// A server answered, but not with a report. Contains the reason.
    Hidden(String),
    /// The member did not answer. Contains the reason.
    Unreachable(String),
}

/// Observations of all members since the start of this server.
#[derive(Debug, Default)]
pub(super) struct Observed {
    rows: BTreeMap<Option<Sid>, Row>,
    /// Zxids of the leader, with the times in ms since 1970 at which they were first observed.
    leader_zxids: VecDeque<LeaderZxid>,
    timeline: Timeline,
}

#[derive(Debug, Clone, Copy)]
struct LeaderZxid {
    at_ms: i64,
    zxid: Zxid,
}

#[derive(Debug)]
struct Row {
    state: MemberState,
    /// Time at which the state was first observed.
    since_ms: i64,
    /// Time of the last report.
    seen_ms: Option<i64>,
    /// Reason why there is no current report.
    problem: Option<String>,
    /// Last report from the member.
    report: Option<Report>,
    /// Mean duration of the syncs between two successive reports, in ms: the latest two reports
    /// between which there was a sync.
    sync_ms: Option<f64>,
}

impl Own {
    /// Returns the state of this member from its view.
    pub(crate) fn of(view: &dyn AdminView, my_id: Option<Sid>) -> Self {
        Self {
            my_id,
            members: view.role().members.clone(),
            report: Report::of(view, my_id),
            now_ms: view.now().wall_ms,
        }
    }
}

impl Observed {
    /// Records the results of queries, and returns the state of the ensemble for the page. `ports`
    /// are the admin ports of the other members.
    pub(super) fn note(
        &mut self,
        own: &Own,
        outcomes: BTreeMap<Sid, Outcome>,
        ports: &BTreeMap<Sid, HostPort>,
    ) -> Value {
        let now_ms = own.now_ms;
        self.rows.retain(|sid, _| {
            let is_other = sid.is_some_and(|sid| ports.contains_key(&sid));
            *sid == own.my_id || is_other
        });
        self.note_outcome(
            own.my_id,
            Outcome::Report(Box::new(own.report.clone())),
            now_ms,
        );
        for (sid, outcome) in outcomes {
            self.note_outcome(Some(sid), outcome, now_ms);
        }
        self.note_leader(now_ms);
        if let Some(members) = &own.members {
            self.timeline.note_members(now_ms, members);
        }
        let health = self.health(own);
        json!({
            "now": now_ms,
            "me": own.my_id.map(|sid| sid.0),
            "health": self.health_json(&health),
            "members": self.members_json(own, ports),
            "events": self.timeline.to_json(),
        })
    }

    fn note_outcome(&mut self, sid: Option<Sid>, outcome: Outcome, now_ms: i64) {
        let before = self.rows.get(&sid);
        let (was_seen, was) = match before {
            Some(row) => (row.seen_ms.is_some(), Some(row.state)),
            None => (false, None),
        };
        let row = self.rows.entry(sid).or_insert(Row {
            state: MemberState::NeverReached,
            since_ms: now_ms,
            seen_ms: None,
            problem: None,
            report: None,
            sync_ms: None,
        });
        let state = match outcome {
            Outcome::Report(report) => {
                let state = report.state;
                row.note_report(*report, now_ms);
                state
            }
            Outcome::Hidden(problem) => {
                row.problem = Some(problem);
                MemberState::Unknown
            }
            Outcome::Unreachable(problem) => {
                row.problem = Some(problem);
                if was_seen {
                    MemberState::Unreachable
                } else {
                    MemberState::NeverReached
                }
            }
        };
        if row.state != state {
            row.state = state;
            row.since_ms = now_ms;
        }
        let (Some(sid), Some(was)) = (sid, was) else {
            return;
        };
        let is_lost = |state| state == MemberState::Unreachable;
        let event = if is_lost(was) == is_lost(state) {
            return;
        } else if is_lost(state) {
            "does not answer any more"
        } else {
            "answers again"
        };
        self.timeline.add(now_ms, format!("server {sid} {event}"));
    }

    fn leader(&self) -> Option<&Report> {
        let leads = |row: &&Row| row.state == MemberState::Leader;
        self.rows.values().find(leads)?.report.as_ref()
    }

    fn note_leader(&mut self, now_ms: i64) {
        let leader = self.leader();
        let zxid = leader.and_then(|leader| leader.zxid);
        let elected = leader.and_then(|leader| {
            Some(Leader {
                sid: leader.member?,
                since_ms: leader.leading_since_ms.unwrap_or(now_ms),
            })
        });
        self.timeline.note_leader(now_ms, elected);
        // A zxid with the counter 0 is the start of an epoch, not a transaction.
        let Some(zxid) = zxid.filter(|zxid| zxid.counter() > 0) else {
            return;
        };
        if self.leader_zxids.back().is_none_or(|last| last.zxid < zxid) {
            if self.leader_zxids.len() == LEADER_ZXIDS_MAX {
                self.leader_zxids.pop_front();
            }
            let at_ms = now_ms;
            self.leader_zxids.push_back(LeaderZxid { at_ms, zxid });
        }
    }

    /// Returns the age, in ms, of the first observed transaction that a member lacks, or 0 if the
    /// member does not lack any. Returns `None` without a current report.
    fn lag_ms(&self, row: &Row, now_ms: i64) -> Option<u64> {
        if row.problem.is_some() {
            return None;
        }
        let zxid = row.report.as_ref()?.zxid?;
        let missing = self.leader_zxids.iter().find(|leader| leader.zxid > zxid);
        let age_ms = missing.map_or(0, |leader| now_ms.saturating_sub(leader.at_ms));
        Some(age_ms.try_into().unwrap_or(0))
    }

    fn health(&self, own: &Own) -> Health {
        let members = self.rows.iter().map(|(sid, row)| MemberHealth {
            name: match sid {
                Some(sid) => format!("server {sid}"),
                None => "this server".to_owned(),
            },
            sid: *sid,
            state: row.state,
            lag_ms: self.lag_ms(row, own.now_ms),
        });
        let members: Vec<MemberHealth> = members.collect();
        let quorum = own.members.as_ref().map(|members| members.quorum());
        let synced = self.leader().and_then(|leader| leader.synced_voters);
        assess(&members, quorum.as_deref(), synced)
    }

    fn health_json(&self, health: &Health) -> Value {
        let faults = health.faults.iter().map(|fault| {
            let row = fault.member.and_then(|index| self.rows.values().nth(index));
            json!({
                "text": fault.text,
                "since": row.map(|row| row.since_ms),
                "seen": row.and_then(|row| row.seen_ms),
            })
        });
        json!({
            "verdict": match health.verdict {
                Verdict::Healthy => "healthy",
                Verdict::Degraded => "degraded",
                Verdict::NoQuorum | Verdict::Down => "down",
            },
            "title": health.verdict.title(),
            "summary": health.summary,
            "faults": faults.collect::<Value>(),
            "outlook": health.outlook,
            "remedy": health.remedy,
            "line": health.to_string(),
        })
    }

    fn members_json(&self, own: &Own, ports: &BTreeMap<Sid, HostPort>) -> Value {
        let last = self.leader().and_then(|leader| leader.zxid);
        let rows = self.rows.iter().map(|(sid, row)| {
            let listed = sid
                .as_ref()
                .and_then(|sid| own.members.as_ref()?.members.get(sid));
            let admin = sid.as_ref().and_then(|sid| ports.get(sid));
            let mut found = row.to_json();
            let votes = listed.map(|member| member.role == MemberRole::Participant);
            let client = listed.and_then(|member| member.client.as_ref());
            let fields = [
                ("member", json!(sid.map(|sid| sid.0))),
                ("is_own", json!(*sid == own.my_id)),
                ("votes", json!(votes)),
                ("address", json!(listed.and_then(address))),
                ("client", json!(client.map(HostPort::to_string))),
                ("admin", json!(admin.map(HostPort::to_string))),
                ("lag", json!(row.transactions_behind(last))),
                ("lag_ms", json!(self.lag_ms(row, own.now_ms))),
            ];
            for (name, value) in fields {
                set(&mut found, name, value);
            }
            found
        });
        rows.collect()
    }
}

/// Returns the address at which the other members reach a member.
fn address(member: &Member) -> Option<String> {
    let first = member.addresses.first()?;
    Some(HostPort::new(&first.host, first.quorum_port).to_string())
}

impl Row {
    fn note_report(&mut self, report: Report, now_ms: i64) {
        let before = self
            .report
            .as_ref()
            .and_then(|report| report.figures.as_ref());
        let mean = before
            .zip(report.figures.as_ref())
            .and_then(|(before, now)| mean_sync(before, now));
        self.sync_ms = mean.or(self.sync_ms);
        self.report = Some(report);
        self.seen_ms = Some(now_ms);
        self.problem = None;
    }

    /// Returns the number of transactions that the member lacks if it is in the leader's epoch.
    fn transactions_behind(&self, leader: Option<Zxid>) -> Option<i64> {
        let (own, leader) = (self.report.as_ref()?.zxid?, leader?);
        if leader.counter() == 0 && self.state.is_serving() {
            // The epoch does not contain a transaction yet.
            return Some(0);
        }
        (own.epoch() == leader.epoch()).then(|| (leader.0 - own.0).max(0))
    }

    fn to_json(&self) -> Value {
        let report = self.report.as_ref();
        let figures = report.and_then(|report| report.figures.as_ref());
        let digest = figures.and_then(|figures| figures.digest);
        json!({
            "state": self.state.name(),
            "since": self.since_ms,
            "seen": self.seen_ms,
            "problem": self.problem,
            "is_serving": figures.is_some(),
            "zxid": report.and_then(|report| report.zxid).map(|zxid| zxid.to_string()),
            "version": report.and_then(|report| report.version.as_ref()),
            "serving_since": report.and_then(|report| report.serving_since_ms),
            "connections": figures.and_then(|figures| figures.connections),
            "sessions": figures.and_then(|figures| figures.sessions),
            "watches": figures.and_then(|figures| figures.watches),
            "sync_ms": self.sync_ms,
            "digest": digest.map(|digest| format!("{:016x}", digest.value)),
            "digest_zxid": digest.map(|digest| digest.zxid.to_string()),
        })
    }
}

/// Returns the mean duration of the syncs between two reports, in ms, if there were any.
fn mean_sync(before: &Figures, now: &Figures) -> Option<f64> {
    let syncs = now.syncs?.checked_sub(before.syncs?)?;
    let total_ms = now.syncs_ms?.checked_sub(before.syncs_ms?)?;
    (syncs > 0).then(|| total_ms as f64 / syncs as f64)
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
