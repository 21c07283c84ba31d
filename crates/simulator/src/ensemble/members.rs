//! Changes that an operator makes to the members.

use config::membership::Membership;
use config::reconfig::Rules;
use proto::ErrorCode;
use proto::request::ReconfigRequest;
use simulation::configured::member_lists::{self, Role};
use simulation::configured::sid_of;
use testkit::Random;

use crate::storms::plan::Plan;

/// Draws a change by an operator. `list` is the last committed list, or `None` before the first
/// commit of a list. Returns `None` if the change would cut off a remaining server.
///
/// Observers that learn only from followers (`observerMasterPort`) learn nothing while a single
/// voter leads, not even the next list. If there are such observers, the operator keeps at least
/// two voters and specifies the version of the list that the change is based on.
pub(crate) fn draw(
    list: Option<&Membership>,
    plan: &Plan,
    random: &mut Random,
) -> Option<ReconfigRequest> {
    let mut request = draw_any(plan, random);
    if !plan.features.has_observer_masters {
        return Some(request);
    }
    let rules = Rules {
        multi_address_enabled: false,
        standalone_enabled: false,
    };
    let after = match (&request.new_members, list) {
        (Some(text), _) => Membership::replacement(text, rules),
        (None, Some(list)) => {
            request.config_version = list.version.0;
            list.changed(
                request.joining.as_deref(),
                request.leaving.as_deref(),
                rules,
            )
        }
        // An operator who does not know the current members removes none.
        (None, None) if request.joining.as_deref().is_some_and(is_voter) => return Some(request),
        (None, None) => return None,
    };
    let is_sound = after.is_ok_and(|after| after.participants().count() >= VOTERS_MIN);
    is_sound.then_some(request)
}

/// Minimum number of voters if observers learn from followers.
const VOTERS_MIN: usize = 2;

fn line(server: usize, role: Role, plan: &Plan) -> String {
    member_lists::line(server, role, plan.features)
}

fn is_voter(line: &str) -> bool {
    line.contains(":participant")
}

fn draw_any(plan: &Plan, random: &mut Random) -> ReconfigRequest {
    let server = random.below(plan.servers());
    // Traces for the formal model contain no observers.
    let role = if random.percent(60) || plan.observers == 0 {
        Role::Participant
    } else {
        Role::Observer
    };
    match random.below(4) {
        0..=1 => change(Some(line(server, role, plan)), None, None),
        2 => change(None, Some((server + 1).to_string()), None),
        _ => {
            let mut lines = Vec::new();
            for server in 0..plan.servers() {
                match random.below(5) {
                    0..=2 => lines.push(line(server, Role::Participant, plan)),
                    3 if plan.observers > 0 => lines.push(line(server, Role::Observer, plan)),
                    _ => {}
                }
            }
            change(None, None, Some(lines.join("\n")))
        }
    }
}

/// Final work of an operator, step by step, which restores the initial role of every server.
///
/// The operator changes one server at a time, because a server must be in sync before it can vote.
/// A server that observes does not count as in sync (Leader.isQuorumSynced). If its vote is needed,
/// the operator therefore removes the server from the list before adding it as a voter. While a
/// voter is not in sync yet, the operator repeats the change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restoration {
    next: usize,
    leaves_first: bool,
}

impl Restoration {
    /// Returns the next change, or `None` if all roles are restored.
    pub(crate) fn next(&self, plan: &Plan) -> Option<ReconfigRequest> {
        let server = self.next;
        if !plan.features.reconfigures || server >= plan.servers() {
            return None;
        }
        if self.leaves_first {
            return Some(change(None, Some((server + 1).to_string()), None));
        }
        let role = if server < plan.voters {
            Role::Participant
        } else {
            Role::Observer
        };
        Some(change(Some(line(server, role, plan)), None, None))
    }

    /// Handles the reply to a change. `list` is the list that was committed last.
    pub(crate) fn answered(
        &mut self,
        request: &ReconfigRequest,
        result: Result<(), ErrorCode>,
        list: Option<&Membership>,
        plan: &Plan,
    ) {
        if self.next(plan).as_ref() != Some(request) {
            return;
        }
        let sid = sid_of(self.next);
        let observes = list.is_some_and(|list| list.observers().any(|member| member.sid == sid));
        match (result, self.leaves_first) {
            (Ok(()), false) => self.next += 1,
            (Err(ErrorCode::NewConfigNoQuorum), false) => self.leaves_first = observes,
            (Err(_), false) => {}
            // The server either could not leave or has left.
            (_, true) => self.leaves_first = false,
        }
    }
}

/// Returns the list that an operator provides to a server whose own files do not contain the
/// server. This is the last committed list, to which the server is added as an observer if the list
/// does not contain it.
pub(crate) fn list_for(list: &str, server: usize, plan: &Plan) -> String {
    let key = format!("server.{}=", server + 1);
    // The version of a list is only in the name of its file.
    let members = list.lines().filter(|line| !line.starts_with("version"));
    let own = line(server, Role::Observer, plan);
    let is_named = list.lines().any(|line| line.starts_with(&key));
    let newcomer = (!is_named).then_some(own.as_str());
    members.chain(newcomer).collect::<Vec<_>>().join("\n")
}

fn change(
    joining: Option<String>,
    leaving: Option<String>,
    new_members: Option<String>,
) -> ReconfigRequest {
    ReconfigRequest {
        joining: joining.map(Into::into),
        leaving: leaving.map(Into::into),
        new_members: new_members.map(Into::into),
        config_version: -1,
    }
}
