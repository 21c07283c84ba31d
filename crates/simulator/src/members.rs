//! Who belongs to an ensemble at first, and to what an operator changes that.

use std::fmt::Write;

use config::membership::Membership;
use config::reconfig::Rules;
use proto::ErrorCode;
use proto::request::ReconfigRequest;
use testkit::Random;

use crate::configured::sid_of;
use crate::plan::Plan;

/// What a server is in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Participant,
    Observer,
}

/// The list that a server's own files name when it starts for the first time. It is empty for a standalone server.
pub(crate) fn first_list(index: usize, plan: &Plan) -> String {
    let mut text = String::new();
    if plan.is_standalone() {
        return text;
    }
    for server in 0..plan.servers() {
        let is_founder = server < plan.voters;
        // Whoever is to grow into an ensemble knows it, and is not known to it.
        if is_founder || !plan.features.grows || server == index {
            let role = match is_founder || (plan.features.grows && server % 2 == 1) {
                true => Role::Participant,
                false => Role::Observer,
            };
            let _ = writeln!(text, "{}", line(server, role, plan));
        }
    }
    text
}

fn line(server: usize, role: Role, plan: &Plan) -> String {
    let number = server + 1;
    let role = match role {
        Role::Participant => "participant",
        Role::Observer => "observer",
    };
    let client = match plan.features.reconfigures {
        true => ";0.0.0.0:2181",
        false => "",
    };
    format!("server.{number}=10.0.0.{number}:2888:3888:{role}{client}")
}

/// Something that an operator may want, who knows that this list was committed last; nothing if it
/// would cut off who is to stay.
///
/// Observers that learn from followers alone (`observerMasterPort`) learn nothing where a single voter
/// leads, and would not hear of the next list either. With such observers the operator has two voters
/// at least, and says which list it is that he changes.
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
        // Nobody is sent away by who does not know who is there.
        (None, None) if request.joining.as_deref().is_some_and(is_voter) => return Some(request),
        (None, None) => return None,
    };
    let is_sound = after.is_ok_and(|after| after.participants().count() >= VOTERS_MIN);
    is_sound.then_some(request)
}

/// Voters where observers learn from followers.
const VOTERS_MIN: usize = 2;

fn is_voter(line: &str) -> bool {
    line.contains(":participant")
}

fn draw_any(plan: &Plan, random: &mut Random) -> ReconfigRequest {
    let server = random.below(plan.servers());
    let role = match random.percent(60) {
        true => Role::Participant,
        false => Role::Observer,
    };
    match random.below(4) {
        0..=1 => change(Some(line(server, role, plan)), None, None),
        2 => change(None, Some((server + 1).to_string()), None),
        _ => {
            let mut lines = Vec::new();
            for server in 0..plan.servers() {
                match random.below(5) {
                    0..=2 => lines.push(line(server, Role::Participant, plan)),
                    3 => lines.push(line(server, Role::Observer, plan)),
                    _ => {}
                }
            }
            change(None, None, Some(lines.join("\n")))
        }
    }
}

/// What an operator has to do in the end, step by step: everybody is what they were to be at first.
///
/// One at a time, as who is to vote must be in sync first. An observer is not counted for that, so if
/// it is needed it leaves the list before it comes in again (Leader.isQuorumSynced). A voter that is
/// not in sync yet is waited for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restoration {
    next: usize,
    leaves_first: bool,
}

impl Restoration {
    /// What is next; `None` if all is done.
    pub(crate) fn next(&self, plan: &Plan) -> Option<ReconfigRequest> {
        let server = self.next;
        if !plan.features.reconfigures || server >= plan.servers() {
            return None;
        }
        if self.leaves_first {
            return Some(change(None, Some((server + 1).to_string()), None));
        }
        let role = match server < plan.voters {
            true => Role::Participant,
            false => Role::Observer,
        };
        Some(change(Some(line(server, role, plan)), None, None))
    }

    /// What came of it; the list that was committed last is this.
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
            // It could not leave, or it has left.
            (_, true) => self.leaves_first = false,
        }
    }
}

/// What an operator gives a server that its own files do not name: the list that was committed last, if
/// that names it, or the same with it as a newcomer that nobody knows.
pub(crate) fn list_for(list: &str, server: usize, plan: &Plan) -> String {
    let key = format!("server.{}=", server + 1);
    // A file has its version in its name, if at all.
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
