//! A snapshot that begins and ends at any moment, during any sequence of leaders, contains only
//! committed data.

use jute::Encode;
use proto::leader::LeaderPacket;
use proto::{Epoch, Zxid};
use tree::Generation;
use zoarium_replica::{DiskOrder, Effect, Input, LeaderEvent, State};

use crate::learning::{loaded_at, record, tree_at};
use crate::support::{Server, zxid};

/// The first packet of a synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Diff,
    /// The uncommitted tail is cut.
    Trunc,
    Snap,
}

/// Time at which the role of a learner ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Before UPTODATE: its records may be cut.
    Early,
    /// After UPTODATE and a write.
    Late,
    /// After UPTODATE, a write, and a proposal that is logged and not committed.
    WithTail,
}

type Visit = (Opening, End);

/// A moment at which a snapshot may begin or end.
#[derive(Debug, Clone, Copy)]
struct Moment {
    generation: Generation,
    /// The last transaction in the tree.
    last: Zxid,
    /// The last transaction that is committed.
    committed: Zxid,
}

struct Member {
    server: Server,
    committed: Zxid,
    moments: Vec<Moment>,
}

impl Member {
    fn new() -> Self {
        Self {
            server: Server::member(1),
            committed: Zxid::ZERO,
            moments: Vec::new(),
        }
    }

    fn last(&self) -> Zxid {
        self.server.state.tree.borrow().last_zxid()
    }

    /// Handles an input, and then the host's responses to the effects, one after the other.
    fn handle(&mut self, input: Input) {
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let input = inputs.remove(0);
            self.server.state.changed_in.borrow_mut().clear();
            self.server.handle(input);
            self.note_moment();
            let effects = self.server.effects();
            inputs.extend(effects.into_iter().filter_map(|effect| self.done(effect)));
        }
    }

    fn done(&self, effect: Effect) -> Option<Input> {
        Some(match effect {
            Effect::Append(record) => Input::Synced(record.zxid),
            Effect::Disk(DiskOrder::SaveAcceptedEpoch(epoch)) => Input::AcceptedEpochSaved(epoch),
            Effect::Disk(DiskOrder::SaveCurrentEpoch(epoch)) => Input::CurrentEpochSaved(epoch),
            Effect::Disk(DiskOrder::Reload { keep }) => {
                let end = keep.unwrap_or(self.committed);
                let tree = Some(Box::new(loaded_at(end)));
                Input::Reloaded { tree, end }
            }
            Effect::Disk(DiskOrder::TakeOver { last, of }) => {
                let generation = self.server.state.generation();
                assert_eq!(of.generation, generation, "it would be given up");
                let (attempt, zxid) = (of.attempt, last);
                Input::SnapshotWritten { attempt, zxid }
            }
            _ => return None,
        })
    }

    fn note_moment(&mut self) {
        let moment = Moment {
            generation: self.server.state.generation(),
            last: self.last(),
            committed: self.committed,
        };
        if moment.last > moment.committed {
            // The snapshot thread may run between a change and its announcement.
            let changed_in = self.server.state.changed_in.borrow();
            assert!(
                changed_in.iter().all(|of| !of.is_established()),
                "raised too late: {moment:?}"
            );
        }
        self.moments.push(moment);
    }

    fn hears(&mut self, attempt: u64, packet: LeaderPacket) {
        let event = LeaderEvent::Packets(vec![packet]);
        self.handle(Input::Leader { attempt, event });
    }

    /// Sends a proposal of the leader and its commit.
    fn is_told(&mut self, attempt: u64, zxid: Zxid) {
        let txn = record(zxid).to_bytes();
        self.hears(attempt, LeaderPacket::Proposal { zxid, txn });
        self.hears(attempt, LeaderPacket::Commit { zxid });
    }

    /// Follows the leader with this number, which sends two transactions that other servers may
    /// lack.
    fn visit(&mut self, number: i64, (opening, end): Visit) {
        let (before, epoch) = (2 * number + 1, 2 * number + 2);
        let attempt = self.server.follow_3(zxid(before, 9), number + 1, before);
        let event = LeaderEvent::Connected;
        self.handle(Input::Leader { attempt, event });
        self.hears(attempt, LeaderPacket::leader_info(Epoch(epoch)));
        match opening {
            Opening::Diff => self.hears(
                attempt,
                LeaderPacket::Diff {
                    zxid: zxid(before, 2),
                },
            ),
            Opening::Trunc => {
                let zxid = self.committed;
                self.hears(attempt, LeaderPacket::Trunc { zxid });
            }
            Opening::Snap => {
                let sent = zxid(before, 0);
                self.hears(attempt, LeaderPacket::Snap { zxid: sent });
                let event = LeaderEvent::SnapshotReceived(Box::new(tree_at(sent)));
                self.handle(Input::Leader { attempt, event });
            }
        }
        for counter in 1..=2 {
            self.is_told(attempt, zxid(before, counter));
        }
        let new_leader = LeaderPacket::NewLeader {
            zxid: zxid(epoch, 0),
            config: None,
        };
        self.hears(attempt, new_leader);
        assert_eq!(self.last(), zxid(before, 2), "NEWLEADER has it applied");
        if end != End::Early {
            self.committed = self.last();
            self.hears(attempt, LeaderPacket::UpToDate);
            assert!(self.server.state.generation().is_established());
            self.committed = zxid(epoch, 1);
            self.is_told(attempt, self.committed);
        }
        if end == End::WithTail {
            let zxid = zxid(epoch, 2);
            let txn = record(zxid).to_bytes();
            self.hears(attempt, LeaderPacket::Proposal { zxid, txn });
        }
        let event = LeaderEvent::Closed;
        self.handle(Input::Leader { attempt, event });
    }

    /// Checks every snapshot that may begin at one moment and is not abandoned before another.
    fn judge(&self, visits: &[Visit]) {
        for (at, begin) in self.moments.iter().enumerate() {
            if !begin.generation.is_established() {
                continue;
            }
            let same = |end: &&Moment| end.generation == begin.generation;
            for end in self.moments[at..].iter().take_while(same) {
                assert!(
                    end.last <= end.committed,
                    "{visits:?}: a snapshot from {begin:?} to {end:?} has what is not committed"
                );
            }
        }
    }
}

/// Returns whether the member has records to be cut.
fn has_tail(visits: &[Visit]) -> bool {
    let end = visits.last().map(|(_, end)| *end);
    matches!(end, Some(End::Early | End::WithTail))
}

#[test]
fn no_snapshot_contains_transactions_that_may_be_truncated() {
    let openings = [Opening::Diff, Opening::Trunc, Opening::Snap];
    let ends = [End::Early, End::Late, End::WithTail];
    let visits = openings
        .iter()
        .flat_map(|opening| ends.map(|end| (*opening, end)));
    let visits: Vec<Visit> = visits.collect();
    let mut ways: Vec<Vec<Visit>> = vec![Vec::new()];
    let mut judged = 0;
    while let Some(way) = ways.pop() {
        if way.len() == 3 {
            let mut member = Member::new();
            assert!(!member.server.state.generation().is_established());
            for (number, visit) in (0..).zip(&way) {
                member.visit(number, *visit);
            }
            member.judge(&way);
            judged += 1;
            continue;
        }
        for visit in &visits {
            if visit.0 != Opening::Trunc || has_tail(&way) {
                ways.push([&way[..], &[*visit]].concat());
            }
        }
    }
    // Six ways to begin, then nine with a tail and six without one.
    assert_eq!(judged, 384);
}
