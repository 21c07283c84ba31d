//! Health of an ensemble: one verdict, derived from the states of its members.
//!
//! `zoarium status` and the console use this verdict and its wording.

use std::fmt;

use crate::Sid;
use crate::quorum::QuorumVerifier;

/// Maximum lag of a member that counts as in sync, ms.
pub const LAG_MS_MAX: u64 = 2_000;

/// Maximum number of faults in the text form of [`Health`].
const FAULTS_SHOWN: usize = 3;

/// State of a member, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// The server does not belong to an ensemble.
    Standalone,
    /// The server orders the writes.
    Leader,
    /// The server follows the leader and is synchronised.
    Follower,
    /// The server follows the leader without a vote and is synchronised.
    Observer,
    /// The server does not know a leader, and serves reads to clients that accept a read-only
    /// server.
    ReadOnly,
    /// The server does not know a leader.
    Looking,
    /// The server has found a leader or has been elected, but does not serve clients yet.
    Synchronising,
    /// The server is loading its data.
    Loading,
    /// The server has answered before but no longer answers.
    Unreachable,
    /// The server has not answered yet. Its admin server may be off.
    NeverReached,
    /// The server answers but does not report its state.
    Unknown,
}

impl MemberState {
    /// Returns the name of the state, which is the name of the role if the server has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::ReadOnly => "read-only",
            Self::Looking => "looking",
            Self::Synchronising => "synchronising",
            Self::Loading => "loading",
            Self::Unreachable | Self::NeverReached => "unreachable",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the state for the role with this name; `None` for any other name.
    pub fn of_role(name: &str) -> Option<Self> {
        let all = [
            Self::Standalone,
            Self::Leader,
            Self::Follower,
            Self::Observer,
            Self::ReadOnly,
            Self::Looking,
        ];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Returns whether the server serves reads and writes.
    pub fn is_serving(self) -> bool {
        match self {
            Self::Standalone | Self::Leader | Self::Follower | Self::Observer => true,
            Self::ReadOnly
            | Self::Looking
            | Self::Synchronising
            | Self::Loading
            | Self::Unreachable
            | Self::NeverReached
            | Self::Unknown => false,
        }
    }

    /// Returns whether the server answers, even if it does not report its state.
    fn is_answering(self) -> bool {
        !matches!(self, Self::Unreachable | Self::NeverReached)
    }

    /// Returns whether the server has not reported its state. The number of voters in sync that the
    /// leader reports is then used instead.
    fn is_hidden(self) -> bool {
        matches!(self, Self::NeverReached | Self::Unknown)
    }
}

/// Observed properties of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberHealth {
    /// Name of the member in messages, such as `server 1`.
    pub name: String,
    /// Id of the member, if it is known.
    pub sid: Option<Sid>,
    /// State of the member.
    pub state: MemberState,
    /// Age of the leader's first transaction that the member lacks, ms. It is 0 if the member has
    /// all transactions, and `None` if it is unknown.
    pub lag_ms: Option<u64>,
}

/// Verdict on an ensemble or on several servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All members serve and are in sync.
    Healthy,
    /// Some members serve clients, but there is at least one fault.
    Degraded,
    /// None of the ensemble's members is known to serve writes.
    NoQuorum,
    /// None of the servers serves clients. Their ensemble is unknown.
    Down,
}

impl Verdict {
    /// Returns the verdict as text.
    pub fn title(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Degraded => "Degraded",
            Self::NoQuorum => "No quorum",
            Self::Down => "Down",
        }
    }
}

/// Fault that prevents the verdict [`Verdict::Healthy`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Index of the member that has the fault; `None` if the fault concerns the whole ensemble.
    pub member: Option<usize>,
    /// Fault as a sentence without a full stop.
    pub text: String,
}

/// Health of an ensemble. Its text form is one line, such as `Healthy (3 of 3 voters in sync,
/// tolerates 1 failure)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Verdict on the ensemble.
    pub verdict: Verdict,
    /// Number of servers that are in sync, serving or answering, as text.
    pub summary: String,
    /// Faults, in the order of the members.
    pub faults: Vec<Fault>,
    /// Effect that the faults or further failures have on writes.
    pub outlook: Option<String>,
    /// Advice to the operator.
    pub remedy: Option<&'static str>,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.verdict.title(), self.summary)?;
        for fault in self.faults.iter().take(FAULTS_SHOWN) {
            write!(f, "; {}", fault.text)?;
        }
        match self.faults.len().saturating_sub(FAULTS_SHOWN) {
            0 => {}
            more => write!(f, "; further faults: {more}")?,
        }
        if let Some(outlook) = &self.outlook {
            let separator = if self.faults.is_empty() { "," } else { ";" };
            write!(f, "{separator} {outlook}")?;
        }
        f.write_str(")")
    }
}

/// Returns the health of an ensemble or, if `quorum` is `None`, of servers whose ensemble is
/// unknown. `synced` is the number of voters in sync that the leader reports, including itself.
pub fn assess(
    members: &[MemberHealth],
    quorum: Option<&dyn QuorumVerifier>,
    synced: Option<usize>,
) -> Health {
    match quorum {
        Some(quorum) => of_ensemble(members, quorum, synced),
        None => of_servers(members),
    }
}

fn of_servers(members: &[MemberHealth]) -> Health {
    let serving = members.iter().filter(|member| member.state.is_serving());
    let serving = serving.count();
    let faults: Vec<Fault> = faults(members, |_| false);
    let is_looking = |member: &MemberHealth| {
        matches!(member.state, MemberState::Looking | MemberState::ReadOnly)
    };
    let verdict = match serving {
        // Only a member of an ensemble looks for a leader.
        0 if members.iter().any(is_looking) => Verdict::NoQuorum,
        0 => Verdict::Down,
        _ if faults.is_empty() => Verdict::Healthy,
        _ => Verdict::Degraded,
    };
    let is_standalone = |member: &MemberHealth| member.state == MemberState::Standalone;
    let summary = match members {
        [only] if is_standalone(only) => "standalone server".to_owned(),
        _ => format!("{serving} of {} serving", plural(members.len(), "server")),
    };
    let outlook = members.iter().all(is_standalone) && members.len() == 1;
    Health {
        verdict,
        summary,
        faults,
        outlook: outlook.then(|| "tolerates no failure".to_owned()),
        remedy: None,
    }
}

fn of_ensemble(
    members: &[MemberHealth],
    quorum: &dyn QuorumVerifier,
    synced: Option<usize>,
) -> Health {
    let voters = quorum.voters().len();
    let of = |sid: Sid| members.iter().find(|member| member.sid == Some(sid));
    let is_seen_in_sync = |sid: Sid| of(sid).is_some_and(MemberHealth::is_in_sync);
    let is_hidden = |sid: Sid| of(sid).is_none_or(|member| member.state.is_hidden());
    let seen = count(quorum, &is_seen_in_sync);
    // The leader knows its followers, even if their admin ports do not answer.
    let hidden = count(quorum, &is_hidden);
    let leader_knows = synced.is_some_and(|synced| synced >= seen + hidden);
    let is_in_sync = |sid: Sid| is_seen_in_sync(sid) || leader_knows && is_hidden(sid);
    let in_sync = count(quorum, &is_in_sync);
    let is_excused = |member: &MemberHealth| {
        let votes = member.sid.is_some_and(|sid| quorum.is_voter(sid));
        leader_knows && votes && member.state.is_hidden()
    };
    let mut faults = faults(members, is_excused);
    let is_served = members.iter().any(|member| member.state.is_serving());
    let leads = |member: &MemberHealth| member.state == MemberState::Leader;
    if is_served && faults.is_empty() && !leader_knows && !members.iter().any(leads) {
        faults.push(Fault {
            member: None,
            text: "no member reports that it leads".to_owned(),
        });
    }
    let spare = quorum.failures_tolerated(&is_in_sync);
    if !is_served {
        let answers = |sid: Sid| of(sid).is_some_and(|member| member.state.is_answering());
        let answering = count(quorum, &answers);
        let reports = |sid: Sid| answers(sid) && !is_hidden(sid);
        let (outlook, remedy) = if quorum.is_quorum(&reports) {
            (
                "writes are not served",
                "Wait for the election. If it does not end, check the network between the election ports.",
            )
        } else if quorum.is_quorum(&answers) {
            (
                "writes may not be served",
                "Check the state of the servers that answer but do not report it.",
            )
        } else {
            (
                "writes are not served",
                "Start the unreachable servers, or restore the network to them.",
            )
        };
        return Health {
            verdict: Verdict::NoQuorum,
            summary: format!("{answering} of {} answering", plural(voters, "voter")),
            faults,
            outlook: Some(outlook.to_owned()),
            remedy: Some(remedy),
        };
    }
    Health {
        verdict: if faults.is_empty() {
            Verdict::Healthy
        } else {
            Verdict::Degraded
        },
        summary: format!("{in_sync} of {} in sync", plural(voters, "voter")),
        outlook: Some(outlook(spare, faults.is_empty())),
        faults,
        remedy: None,
    }
}

/// Returns the effect that the faults or further failures have on writes. `spare` is the number of
/// tolerated failures, and `is_first` states whether there are no faults yet.
fn outlook(spare: Option<usize>, is_first: bool) -> String {
    match spare {
        None => "writes wait for a quorum".to_owned(),
        Some(0) if is_first => "tolerates no failure".to_owned(),
        Some(0) => "one more failure stops writes".to_owned(),
        Some(spare) if is_first => format!("tolerates {}", plural(spare, "failure")),
        Some(spare) => format!("tolerates {}", plural(spare, "more failure")),
    }
}

fn count(quorum: &dyn QuorumVerifier, has: &dyn Fn(Sid) -> bool) -> usize {
    quorum.voters().iter().filter(|sid| has(**sid)).count()
}

fn plural(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

fn faults(members: &[MemberHealth], is_excused: impl Fn(&MemberHealth) -> bool) -> Vec<Fault> {
    let all = members.iter().enumerate();
    let faulty = all.filter(|(_, member)| !is_excused(member));
    let faults = faulty.filter_map(|(index, member)| {
        let text = member.fault()?;
        Some(Fault {
            member: Some(index),
            text: format!("{} {text}", member.name),
        })
    });
    faults.collect()
}

impl MemberHealth {
    fn is_in_sync(&self) -> bool {
        self.state.is_serving() && self.lag_ms.is_none_or(|lag| lag <= LAG_MS_MAX)
    }

    /// Returns the fault of this member as the predicate of a sentence; `None` if it is in sync.
    fn fault(&self) -> Option<String> {
        let text = match self.state {
            _ if self.is_in_sync() => return None,
            MemberState::ReadOnly | MemberState::Looking => "is looking for a leader",
            MemberState::Synchronising => "is synchronising",
            MemberState::Loading => "is loading its data",
            MemberState::Unreachable => "is unreachable",
            MemberState::NeverReached => "has not answered yet",
            MemberState::Unknown => "does not report its state",
            MemberState::Standalone
            | MemberState::Leader
            | MemberState::Follower
            | MemberState::Observer => {
                let seconds = self.lag_ms.unwrap_or_default() / 1_000;
                return Some(format!("lags {seconds} s"));
            }
        };
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
