//! Actions of real servers, from the facts that they have appended to one file (see
//! [`host::ModelTrace`]).

use host::Fact;
use proto::{Sid, Zxid};
use simulation::checks::OwnSnapshot;
use simulation::configured::index_of;
use storage::Epochs;

use super::{ActionTrace, FoundFiles};

/// Fact about the server with this index.
#[derive(Debug, Clone, Copy)]
struct ServerFact {
    at: usize,
    fact: Fact,
}

/// Parses a file with the facts of this number of servers.
fn parse(text: &str, servers: usize) -> Result<Vec<ServerFact>, String> {
    let mut facts = Vec::new();
    let known = 1..=i64::try_from(servers).map_err(|error| error.to_string())?;
    for (line, number) in text.lines().zip(1..) {
        let parsed = line.split_once(' ').and_then(|(sid, fact)| {
            let (sid, fact) = (Sid(sid.parse().ok()?), Fact::parse(fact)?);
            let is_known = named(sid, fact)
                .iter()
                .all(|named| known.contains(&named.0));
            is_known.then(|| ServerFact {
                at: index_of(sid),
                fact,
            })
        });
        let fact = parsed.ok_or_else(|| {
            format!("line {number} is not a fact about one of {servers} servers: {line:?}")
        })?;
        if fact.fact == (Fact::Lost {}) {
            return Err(format!("line {number}: a server could not write facts"));
        }
        facts.push(fact);
    }
    Ok(facts)
}

/// Returns all servers that a fact about `sid` names.
fn named(sid: Sid, fact: Fact) -> [Sid; 3] {
    match fact {
        Fact::Voted { from, leader, .. } => [sid, from, leader],
        Fact::MetLearner { sid: other, .. } | Fact::Follows { leader: other, .. } => {
            [sid, other, other]
        }
        _ => [sid; 3],
    }
}

/// Returns whether a snapshot received its name, given the facts after the attempt. A killed server
/// does not report the name, but finds the file at its next start.
fn is_named(zxid: Zxid, at: usize, later: &[ServerFact]) -> bool {
    let own = later.iter().filter(|of| of.at == at);
    let end = own.map(|of| of.fact).find_map(|fact| match fact {
        Fact::NamedSnapshot {} => Some(true),
        Fact::FoundSnapshot { zxid: found } if found == zxid => Some(true),
        Fact::Started { .. } => Some(false),
        _ => None,
    });
    end.unwrap_or(false)
}

/// Moves snapshots that a leader began while it established its epoch after the report of this. The
/// leader marks its tree as established shortly before it reports this.
fn establish_before_snapshots(facts: &mut Vec<ServerFact>) {
    for place in 0..facts.len() {
        let ServerFact { at, fact } = facts[place];
        if fact != (Fact::Established {}) {
            continue;
        }
        let own = facts[..place].iter().enumerate().rev();
        let own = own.filter(|(_, of)| of.at == at);
        let snapshots = own.take_while(|(_, of)| {
            matches!(
                of.fact,
                Fact::BeganSnapshot { .. } | Fact::NamesSnapshot { .. } | Fact::NamedSnapshot {}
            )
        });
        if let Some((first, _)) = snapshots.last() {
            let established = facts.remove(place);
            facts.insert(first, established);
        }
    }
}

impl ActionTrace {
    /// Records the actions of real servers, all of them new. A piece of the trace ends where an
    /// epoch is established, after at least `piece_min` events.
    ///
    /// # Errors
    /// If the text is not a complete trace.
    pub(crate) fn of_servers(text: &str, servers: usize, piece_min: usize) -> Result<Self, String> {
        let mut facts = parse(text, servers)?;
        establish_before_snapshots(&mut facts);
        let mut trace = Self::default();
        trace.begin(servers, piece_min);
        trace.has_threads = true;
        let (mut found, mut lists) = (vec![Vec::new(); servers], vec![None; servers]);
        for (number, &ServerFact { at, fact }) in facts.iter().enumerate() {
            match fact {
                Fact::FoundSnapshot { zxid } => found[at].push(zxid),
                Fact::FoundLists { config, seen } => lists[at] = Some([config, seen]),
                Fact::Started {
                    end,
                    accepted,
                    current,
                } => {
                    let files = FoundFiles {
                        end,
                        epochs: Epochs { current, accepted },
                        snapshots: std::mem::take(&mut found[at]),
                        lists: lists[at].take(),
                    };
                    trace.starts(at, &files);
                }
                Fact::BeganSnapshot { zxid } => trace.starts_snapshot(at, zxid),
                Fact::NamesSnapshot {
                    zxid,
                    covers,
                    logged,
                } => {
                    trace.finish_snapshot(at);
                    if is_named(zxid, at, &facts[number + 1..]) {
                        let last = covers;
                        trace.members[at].written = Some(OwnSnapshot {
                            zxid,
                            covers,
                            last,
                            logged,
                        });
                    }
                }
                fact => {
                    trace.finish_snapshot(at);
                    trace.happens(at, fact);
                }
            }
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_about_unknown_servers_are_refused() {
        assert_eq!(parse("1 Leads\n3 Follows 1 7\n", 3).unwrap().len(), 2);
        for line in [
            "0 Leads",
            "4 Leads",
            "-1 Leads",
            "1 Follows 0 7",
            "1 Follows 4 7",
            "1 Lost",
        ] {
            assert!(parse(line, 3).is_err(), "{line}");
        }
    }
}
