//! Who belongs to an ensemble at first, and to what an operator changes that.

use std::fmt::Write;

use proto::request::ReconfigRequest;
use testkit::Random;

use crate::plan::Plan;

/// What a server is in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Participant,
    Observer,
}

/// The list that a server's own files name when it starts for the first time.
pub(crate) fn first_list(index: usize, plan: &Plan) -> String {
    let mut text = String::new();
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

/// Something that an operator may want.
pub(crate) fn draw(plan: &Plan, random: &mut Random) -> ReconfigRequest {
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
/// it is needed it leaves the list before it comes in again (Leader.isQuorumSynced).
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

    /// What came of it.
    pub(crate) fn answered(&mut self, request: &ReconfigRequest, is_done: bool, plan: &Plan) {
        if self.next(plan).as_ref() != Some(request) {
            return;
        }
        match (is_done, self.leaves_first) {
            (true, false) => self.next += 1,
            // It could not leave, or it has left.
            (_, true) => self.leaves_first = false,
            (false, false) => self.leaves_first = true,
        }
    }
}

/// Reads a list, and adds a server as a newcomer that nobody knows.
pub(crate) fn list_with(list: &str, server: usize, plan: &Plan) -> String {
    let key = format!("server.{}=", server + 1);
    let others = |line: &&str| !line.starts_with("version") && !line.starts_with(&key);
    let members = list.lines().filter(others);
    let own = line(server, Role::Observer, plan);
    members.chain([own.as_str()]).collect::<Vec<_>>().join("\n")
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
