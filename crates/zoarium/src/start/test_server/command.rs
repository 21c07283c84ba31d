//! Commands of tests, which inject faults into the members and end the faults.

use std::str::FromStr;
use std::time::Duration;

use proto::SessionId;
use serde_json::{Value, json};

use crate::ServerError;
use crate::testing::TestEnsemble;

/// Commands, in the order of the help text.
const USAGE: &str = "kill, restart, pause or resume [MEMBER,..], partition MEMBER,.. [from MEMBER,..], \
    heal, slow TIME [MEMBER,..], expire SESSION, wait, or status";

/// A command sent by a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Kill(Members),
    Restart(Members),
    Pause(Members),
    Resume(Members),
    Partition {
        members: Vec<u32>,
        others: Option<Vec<u32>>,
    },
    Heal,
    Slow {
        delay: Duration,
        members: Members,
    },
    Expire(SessionId),
    /// Waits until all members that can serve do so.
    Wait,
    Status,
}

/// Members named by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Members {
    All,
    These(Vec<u32>),
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["kill", ref rest @ ..] => Self::Kill(members(rest)?),
            ["restart", ref rest @ ..] => Self::Restart(members(rest)?),
            ["pause", ref rest @ ..] => Self::Pause(members(rest)?),
            ["resume", ref rest @ ..] => Self::Resume(members(rest)?),
            ["partition", group] => Self::Partition {
                members: ids(group)?,
                others: None,
            },
            ["partition", group, "from", others] => Self::Partition {
                members: ids(group)?,
                others: Some(ids(others)?),
            },
            ["heal"] => Self::Heal,
            ["slow", delay, ref rest @ ..] => Self::Slow {
                delay: duration(delay)?,
                members: members(rest)?,
            },
            ["expire", id] => Self::Expire(session(id)?),
            ["wait"] => Self::Wait,
            ["status"] => Self::Status,
            _ => return Err(format!("write {USAGE}")),
        })
    }
}

fn members(words: &[&str]) -> Result<Members, String> {
    match words {
        [] => Ok(Members::All),
        [list] => ids(list).map(Members::These),
        _ => Err("separate members by commas, without spaces".to_owned()),
    }
}

fn ids(list: &str) -> Result<Vec<u32>, String> {
    let numbers = list.split(',').map(str::parse);
    let numbers: Result<_, _> = numbers.collect();
    numbers.map_err(|_| format!("{list:?} is not a list of members such as 1,2"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let number = |text: &str| text.parse().ok();
    let milliseconds = text.strip_suffix("ms").and_then(number);
    let seconds = text.strip_suffix('s').and_then(number);
    let time = milliseconds
        .map(Duration::from_millis)
        .or(seconds.map(Duration::from_secs));
    time.ok_or_else(|| format!("{text:?} is not a time such as 50ms or 2s"))
}

fn session(text: &str) -> Result<SessionId, String> {
    let id = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
        None => text.parse(),
    };
    id.map(SessionId)
        .map_err(|_| format!("{text:?} is not a session id such as 0x1000a3f1e2b0000"))
}

impl Command {
    /// Executes the command. Returns the fields of the answer.
    ///
    /// # Errors
    /// If the command fails, or names a member that does not exist.
    pub(super) async fn execute(self, ensemble: &mut TestEnsemble) -> Result<Value, ServerError> {
        match self {
            Self::Kill(members) => {
                for id in members.of(ensemble) {
                    ensemble.kill(id).await?;
                }
            }
            Self::Restart(members) => {
                for id in members.of(ensemble) {
                    ensemble.restart(id).await?;
                }
            }
            Self::Pause(members) => {
                for id in members.of(ensemble) {
                    ensemble.pause(id).await?;
                }
            }
            Self::Resume(members) => {
                for id in members.of(ensemble) {
                    ensemble.resume(id)?;
                }
            }
            Self::Partition { members, others } => {
                check_sides(ensemble, &members, others.as_deref())?;
                ensemble.partition(&members);
            }
            Self::Heal => ensemble.heal(),
            Self::Slow { delay, members } => {
                for id in members.of(ensemble) {
                    ensemble.slow(id, delay)?;
                }
            }
            Self::Expire(session) => ensemble.expire(session).await?,
            Self::Wait => ensemble.wait_until_serving().await?,
            Self::Status => return status(ensemble),
        }
        Ok(json!({}))
    }
}

impl Members {
    fn of(self, ensemble: &TestEnsemble) -> Vec<u32> {
        match self {
            Self::All => ensemble.members(),
            Self::These(ids) => ids,
        }
    }
}

/// Checks that the named members exist and, with `others`, that each member is on exactly one side.
fn check_sides(
    ensemble: &TestEnsemble,
    members: &[u32],
    others: Option<&[u32]>,
) -> Result<(), ServerError> {
    let refuse = |why| ServerError::Test {
        what: "cannot separate the members",
        why,
    };
    let all = ensemble.members();
    let named = members.iter().chain(others.unwrap_or_default());
    if let Some(unknown) = named.into_iter().find(|id| !all.contains(id)) {
        return Err(refuse(format!("member {unknown} does not exist")));
    }
    let Some(others) = others else {
        return Ok(());
    };
    let is_fault = |id: &&u32| members.contains(id) == others.contains(id);
    match all.iter().find(is_fault) {
        Some(id) => Err(refuse(format!(
            "member {id} must be on one of the two sides"
        ))),
        None => Ok(()),
    }
}

fn status(ensemble: &TestEnsemble) -> Result<Value, ServerError> {
    let mut members = Vec::new();
    for id in ensemble.members() {
        members.push(json!({
            "id": id,
            "address": ensemble.connect_string_of(id)?,
            "isServing": ensemble.is_serving(id),
        }));
    }
    Ok(json!({ "leader": ensemble.leader(), "members": members }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Command {
        line.parse().unwrap()
    }

    #[test]
    fn lines_are_commands() {
        let these = |ids: &[u32]| Members::These(ids.to_vec());
        assert_eq!(parsed("kill 2"), Command::Kill(these(&[2])));
        assert_eq!(parsed(" restart \r"), Command::Restart(Members::All));
        assert_eq!(parsed("pause 1,3"), Command::Pause(these(&[1, 3])));
        assert_eq!(parsed("resume"), Command::Resume(Members::All));
        let split = Command::Partition {
            members: vec![1, 2],
            others: Some(vec![3]),
        };
        assert_eq!(parsed("partition 1,2 from 3"), split);
        let delay = Duration::from_millis(50);
        let slow = |members| Command::Slow { delay, members };
        assert_eq!(parsed("slow 50ms"), slow(Members::All));
        assert_eq!(parsed("slow 50ms 1"), slow(these(&[1])));
        let session = SessionId(-1);
        assert_eq!(
            parsed("expire 0xffffffffffffffff"),
            Command::Expire(session)
        );
        assert_eq!(parsed("expire -1"), Command::Expire(session));
        assert_eq!(parsed("expire 16"), parsed("expire 0x10"));
    }

    #[test]
    fn other_lines_are_refused_with_a_reason() {
        let refused = [
            ("shoot 2", "write kill"),
            ("", "write kill"),
            ("kill two", "list of members"),
            ("kill 1 2", "commas"),
            ("slow 50", "50ms"),
            ("slow -1ms", "50ms"),
            ("slow 99999999999999999999s", "50ms"),
            ("expire 0x10000000000000000", "session id"),
            ("heal 1", "write kill"),
        ];
        for (line, reason) in refused {
            let error = line.parse::<Command>().unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
