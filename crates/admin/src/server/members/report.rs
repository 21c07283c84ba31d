//! Report of one member about itself: its state, and figures for the page of the ensemble.
//!
//! Other commands already report these values to every client, so members query each other without
//! credentials.

use hyper::StatusCode;
use metrics::role::{LeaderFigures, Mode, RoleView, ZabState};
use metrics::version;
use metrics::view::AdminView;
use proto::health::MemberState;
use proto::{Sid, Zxid};
use serde_json::{Map, Value, json};

use crate::answer::written;
use crate::commands::Command;

/// Name of the admin command that returns the report of this member.
pub(super) const COMMAND: &str = "member";

/// Maximum length of a version in a report, in characters.
const VERSION_CHARS_MAX: usize = 100;

/// Report of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Id of the member. `None` for a standalone server.
    pub(super) member: Option<Sid>,
    /// State of the member.
    pub(super) state: MemberState,
    /// Number of voters in sync, including the leader. Only a leader reports it.
    pub(super) synced_voters: Option<usize>,
    /// Start of the leader's epoch, in ms since 1970.
    pub(super) leading_since_ms: Option<i64>,
    /// Last transaction that the member has applied.
    pub(super) zxid: Option<Zxid>,
    /// Version of the server.
    pub(super) version: Option<String>,
    /// Start of the service, in ms since 1970.
    pub(super) serving_since_ms: Option<i64>,
    /// Figures of a member that serves clients.
    pub(super) figures: Option<Figures>,
}

/// Figures of a member that serves clients. A value is missing if the server does not report it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Number of client connections.
    pub(super) connections: Option<u64>,
    /// Number of sessions that the member knows.
    pub(super) sessions: Option<u64>,
    /// Number of watches.
    pub(super) watches: Option<u64>,
    /// Number of syncs of the log.
    pub(super) syncs: Option<u64>,
    /// Total duration of all syncs of the log, in ms.
    pub(super) syncs_ms: Option<u64>,
    /// Latest recorded digest of the tree, with its transaction.
    pub(super) digest: Option<Digest>,
}

/// Digest of the tree after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    /// Transaction of the digest.
    pub(super) zxid: Zxid,
    /// Value of the digest.
    pub(super) value: i64,
}

/// Returns the command that reports the state of this member. It is not listed among Apache
/// ZooKeeper's commands.
pub(crate) fn command(my_id: Option<Sid>) -> Command {
    let mut command = Command::look(COMMAND, &[], move |view: &dyn AdminView, _| {
        let report = Report::of(view, my_id).to_json();
        written(StatusCode::OK, COMMAND, report)
    });
    command.is_listed = false;
    command.always()
}

fn state_of(role: &RoleView) -> MemberState {
    let synced = |state| match role.zab {
        ZabState::Broadcast => state,
        ZabState::Election | ZabState::Discovery | ZabState::Synchronization => {
            MemberState::Synchronising
        }
    };
    match role.mode {
        Mode::Standalone => MemberState::Standalone,
        Mode::Looking => MemberState::Looking,
        Mode::ReadOnly => MemberState::ReadOnly,
        Mode::Follower { .. } => synced(MemberState::Follower),
        Mode::Observer { .. } => synced(MemberState::Observer),
        Mode::Leader { .. } => synced(MemberState::Leader),
    }
}

/// Returns the number of voters in sync with a leader, including the leader.
fn synced_voters(leader: &LeaderFigures) -> u64 {
    let learners = leader.learners;
    let voters = learners
        .synced_followers
        .saturating_sub(learners.synced_non_voting_followers);
    voters + 1
}

impl Report {
    /// Returns the report of this server.
    pub(super) fn of(view: &dyn AdminView, my_id: Option<Sid>) -> Self {
        let role = view.role();
        let now = view.now();
        let at_ms = |age_ms: u64| {
            let age_ms = i64::try_from(age_ms).unwrap_or(i64::MAX);
            now.wall_ms.saturating_sub(age_ms)
        };
        let state = state_of(&role);
        let leader = view.leader_figures();
        let leader = leader.filter(|_| state == MemberState::Leader);
        // Some methods of the view must not be called while the server does not serve clients.
        let is_serving = role.served_mode().is_some();
        let uptime_ms = || view.stats().get(now.monotonic_ms).uptime_ms;
        Self {
            member: my_id,
            state,
            synced_voters: leader.and_then(|leader| synced_voters(&leader).try_into().ok()),
            leading_since_ms: leader.map(|leader| at_ms(leader.uptime_ms)),
            zxid: is_serving.then(|| view.last_zxid()),
            version: Some(version::FULL.to_owned()),
            serving_since_ms: is_serving.then(|| at_ms(uptime_ms())),
            figures: is_serving.then(|| Figures::of(view)),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let figures = self.figures.as_ref();
        let digest = figures.and_then(|figures| figures.digest);
        json!({
            "member": self.member.map(|sid| sid.0),
            "state": self.state.name(),
            "synced_voters": self.synced_voters,
            "leading_since": self.leading_since_ms,
            "zxid": self.zxid.map(|zxid| zxid.0),
            "version": self.version,
            "serving_since": self.serving_since_ms,
            "figures": figures.map(|figures| json!({
                "connections": figures.connections,
                "sessions": figures.sessions,
                "watches": figures.watches,
                "syncs": figures.syncs,
                "syncs_ms": figures.syncs_ms,
                "digest": digest.map(|digest| digest.value),
                "digest_zxid": digest.map(|digest| digest.zxid.0),
            })),
        })
    }

    /// Reads the report of another member. Returns `None` if the answer is not a report.
    pub(super) fn from_json(answer: &Value) -> Option<Self> {
        let integer = |name: &str| answer.get(name)?.as_i64();
        let name = answer.get("state")?.as_str()?;
        let synchronising = MemberState::Synchronising;
        let is_synchronising = name == synchronising.name();
        let state = MemberState::of_role(name).or(is_synchronising.then_some(synchronising))?;
        let figures = answer.get("figures").and_then(Value::as_object);
        Some(Self {
            member: integer("member").map(Sid),
            state,
            synced_voters: integer("synced_voters").and_then(|n| n.try_into().ok()),
            leading_since_ms: integer("leading_since"),
            zxid: integer("zxid").map(Zxid),
            version: text(answer.get("version")),
            serving_since_ms: integer("serving_since"),
            figures: figures.map(Figures::from_json),
        })
    }

    /// Reads the answer of Apache ZooKeeper to `server_stats`. `now_ms` is the time of the query,
    /// in ms since 1970.
    pub(super) fn from_server_stats(member: Sid, answer: &Value, now_ms: i64) -> Option<Self> {
        let stats = answer.get("server_stats")?;
        let integer = |name: &str| stats.get(name)?.as_i64();
        let uptime_ms = integer("uptime");
        let connections = stats.get("num_alive_client_connections");
        Some(Self {
            state: MemberState::of_role(stats.get("server_state")?.as_str()?)?,
            zxid: integer("last_processed_zxid").map(Zxid),
            version: text(answer.get("version")),
            serving_since_ms: uptime_ms.map(|uptime| now_ms.saturating_sub(uptime)),
            figures: Some(Figures {
                connections: connections.and_then(Value::as_u64),
                ..Figures::default()
            }),
            ..Self::looking(member)
        })
    }

    /// Constructs the report of a member that answers but does not serve.
    pub(super) fn looking(member: Sid) -> Self {
        Self {
            member: Some(member),
            state: MemberState::Looking,
            synced_voters: None,
            leading_since_ms: None,
            zxid: None,
            version: None,
            serving_since_ms: None,
            figures: None,
        }
    }
}

impl Figures {
    fn from_json(figures: &Map<String, Value>) -> Self {
        let count = |name: &str| figures.get(name)?.as_u64();
        let integer = |name: &str| figures.get(name)?.as_i64();
        let digest = integer("digest_zxid").zip(integer("digest"));
        Self {
            connections: count("connections"),
            sessions: count("sessions"),
            watches: count("watches"),
            syncs: count("syncs"),
            syncs_ms: count("syncs_ms"),
            digest: digest.map(|(zxid, value)| Digest {
                zxid: Zxid(zxid),
                value,
            }),
        }
    }

    fn of(view: &dyn AdminView) -> Self {
        let state = view.state();
        let syncs = view.metrics().fsynctime.get();
        let digest = view.digests().pop();
        Self {
            connections: Some(state.connections),
            sessions: Some(state.global_sessions + state.local_sessions),
            watches: Some(state.watch_count),
            syncs: Some(syncs.count),
            syncs_ms: Some(syncs.sum),
            digest: digest.map(|(zxid, value)| Digest { zxid, value }),
        }
    }
}

/// Returns a JSON string, truncated to [`VERSION_CHARS_MAX`] characters.
fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    Some(text.chars().take(VERSION_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let figures = Figures {
            connections: Some(3),
            sessions: Some(4),
            watches: Some(5),
            syncs: Some(6),
            syncs_ms: Some(7),
            digest: Some(Digest {
                zxid: Zxid(0x1_0000_0080),
                value: -8,
            }),
        };
        let report = Report {
            state: MemberState::Leader,
            synced_voters: Some(3),
            leading_since_ms: Some(9),
            zxid: Some(Zxid(0x1_0000_0081)),
            version: Some("3.9.5".to_owned()),
            serving_since_ms: Some(10),
            figures: Some(figures),
            ..Report::looking(Sid(2))
        };
        assert_eq!(Report::from_json(&report.to_json()), Some(report.clone()));
        let synchronising = Report {
            state: MemberState::Synchronising,
            figures: None,
            ..report
        };
        let written = synchronising.to_json();
        assert_eq!(Report::from_json(&written), Some(synchronising));
    }

    #[test]
    fn other_objects_are_not_reports() {
        for other in [
            json!({}),
            json!({ "state": 7 }),
            json!({ "state": "queen" }),
        ] {
            assert_eq!(Report::from_json(&other), None);
            let other = json!({ "server_stats": other });
            assert_eq!(Report::from_server_stats(Sid(1), &other, 0), None);
        }
        let hostile = json!({
            "state": "follower", "member": "1", "zxid": 1.5, "version": "v".repeat(1000), "figures": [],
        });
        let read = Report::from_json(&hostile).unwrap();
        assert_eq!((read.member, read.zxid, read.figures), (None, None, None));
        assert_eq!(read.version.unwrap().len(), VERSION_CHARS_MAX);
    }

    #[test]
    fn apache_zookeeper_reports_some_figures() {
        let answer = json!({
            "version": "3.9.5-abc, built on 2026-01-01",
            "server_stats": {
                "server_state": "follower", "last_processed_zxid": 4_294_967_299_i64,
                "num_alive_client_connections": 2, "uptime": 400,
            },
        });
        let report = Report::from_server_stats(Sid(3), &answer, 1_000).unwrap();
        let figures = report.figures.clone().unwrap();
        assert_eq!(
            (report.member, report.state),
            (Some(Sid(3)), MemberState::Follower)
        );
        assert_eq!(
            (report.zxid, report.serving_since_ms),
            (Some(Zxid(0x1_0000_0003)), Some(600))
        );
        assert_eq!((figures.connections, figures.sessions), (Some(2), None));
    }
}
