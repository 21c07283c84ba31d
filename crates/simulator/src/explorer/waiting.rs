//! What waits in the queue of events, and the choices in a state.

use replica::RoleView;
use simulation::network::Port;
use simulation::world::DiskThread;

use super::Choice;
use super::stage::{SERVERS, Stage};
use crate::simulated::{Event, Server};

/// Effect of an event in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It follows its cause immediately.
    Immediate,
    /// It belongs to elections among these servers, one bit each.
    Election(u8),
    /// A deadline of a server may be due.
    Deadline(u8),
    /// A message on the connection from the sender to the receiver.
    Message { connection: u64, from: u8, to: u8 },
    /// An end of a connection becomes known.
    End { connection: u64, at: u8, peer: u8 },
    /// A dial of a learner.
    Dial { connection: u64, from: u8, to: u8 },
    /// Work of a disk.
    Disk { at: u8, is_snapshot: bool },
}

impl Stage {
    /// Returns the effect of an event in the queue.
    pub(super) fn effect_of(&self, event: &Event) -> Effect {
        let network = &self.ensemble.servers.world.network;
        let ends_of = |connection: u64| {
            let connection = network.get(connection)?;
            let ends = connection.ends.map(|end| end.server().map(number));
            Some((connection, ends[0]?, ends[1]?))
        };
        match *event {
            Event::Arrival { connection, lane } => match ends_of(connection) {
                Some((open, from, to)) if open.is_open[1 - lane] => {
                    let (from, to) = if lane == 0 { (from, to) } else { (to, from) };
                    match open.port {
                        Port::Election => Effect::Election(1 << from | 1 << to),
                        _ => Effect::Message {
                            connection,
                            from,
                            to,
                        },
                    }
                }
                _ => Effect::Immediate,
            },
            Event::Dialled { connection } => match ends_of(connection) {
                Some((open, from, to)) if open.port == Port::Election => {
                    Effect::Election(1 << from | 1 << to)
                }
                Some((_, from, to)) => Effect::Dial {
                    connection,
                    from,
                    to,
                },
                None => Effect::Immediate,
            },
            Event::Broken { connection, end } => match ends_of(connection) {
                Some((open, from, to)) if open.is_open[end] => {
                    let (at, peer) = if end == 0 { (from, to) } else { (to, from) };
                    match open.port {
                        Port::Election => Effect::Election(1 << at | 1 << peer),
                        _ => Effect::End {
                            connection,
                            at,
                            peer,
                        },
                    }
                }
                _ => Effect::Immediate,
            },
            Event::Wake { process } if self.runs(process) => {
                Effect::Deadline(number(process.server))
            }
            Event::DiskDone {
                process, thread, ..
            } if self.runs(process) => Effect::Disk {
                at: number(process.server),
                is_snapshot: thread == DiskThread::Snapshot,
            },
            _ => Effect::Immediate,
        }
    }

    /// Returns all choices, in an order that depends only on the state.
    pub(super) fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        if self.violation().is_some() {
            return choices;
        }
        self.waiting_choices(&mut choices);
        let left = self.left;
        for at in 0..SERVERS {
            let Some(server) = self.process(at) else {
                choices.push(Choice::Restart(at));
                continue;
            };
            let is_idle = server.host.disk.snapshots.next().is_none();
            let may = [
                (
                    left.transactions > 0 && server.is_leading(),
                    Choice::Propose(at),
                ),
                (left.snapshots > 0 && is_idle, Choice::StartSnapshot(at)),
                (
                    left.timeouts > 0 && !is_looking(server),
                    Choice::TimeOut(at),
                ),
                (left.crashes > 0, Choice::Kill(at)),
                (left.crashes > 0, Choice::LosePower(at)),
            ];
            let may = may.into_iter().filter(|(may, _)| *may);
            choices.extend(may.map(|(_, choice)| choice));
        }
        if left.elections > 0 {
            choices.extend(self.elections());
        }
        choices
    }

    /// Adds the choices that are events in the queue.
    fn waiting_choices(&self, choices: &mut Vec<Choice>) {
        let pending = self.ensemble.servers.world.queue.pending();
        let mut effects: Vec<Effect> = pending.map(|event| self.effect_of(event)).collect();
        let connection_of = |effect: &Effect| match *effect {
            Effect::Message { connection, .. }
            | Effect::End { connection, .. }
            | Effect::Dial { connection, .. } => connection,
            _ => 0,
        };
        effects.sort_by_key(connection_of);
        let first = choices.len();
        for effect in effects {
            let choice = match effect {
                Effect::Message { from, to, .. } => {
                    let before = choices[first..].iter();
                    let same = before.filter(|choice| {
                        matches!(choice, Choice::Deliver { from: a, to: b, .. } if (*a, *b) == (from, to))
                    });
                    let nth = same.count();
                    let nth = u8::try_from(nth).unwrap_or(u8::MAX);
                    Choice::Deliver { from, to, nth }
                }
                Effect::End { at, peer, .. } => Choice::Notice { at, peer },
                Effect::Dial { from, to, .. } => Choice::Dial { from, to },
                Effect::Disk {
                    at,
                    is_snapshot: true,
                } => Choice::CompleteSnapshot(at),
                Effect::Disk { at, .. } => Choice::CompleteLog(at),
                Effect::Immediate | Effect::Election(_) | Effect::Deadline(_) => continue,
            };
            choices.push(choice);
        }
        choices[first..].sort_unstable();
        choices.dedup();
    }

    /// Returns the groups of servers in which a server can find a leader.
    fn elections(&self) -> impl Iterator<Item = Choice> {
        let running = (0..SERVERS).filter(|at| self.process(*at).is_some());
        let running: u8 = running.map(|at| 1 << at).sum();
        let pending = self.ensemble.servers.world.queue.pending();
        let busy = pending.filter_map(|event| match self.effect_of(event) {
            Effect::Disk {
                at,
                is_snapshot: false,
            } => Some(1 << at),
            _ => None,
        });
        let busy = busy.fold(0, |all: u8, one: u8| all | one);
        let looking = self.looking();
        // The next role waits for the disk.
        let may = looking & !busy;
        let groups = 1_u8..1 << SERVERS;
        let groups = groups.filter(move |among| {
            let is_ready = among & looking == among & may && among & may != 0;
            is_ready && among & !running == 0 && among.count_ones() >= 2
        });
        groups.map(Choice::Elect)
    }

    /// Returns the servers that are looking for a leader, one bit each.
    pub(super) fn looking(&self) -> u8 {
        let looking = (0..SERVERS).filter(|at| self.process(*at).is_some_and(is_looking));
        looking.map(|at| 1 << at).sum()
    }
}

/// Returns whether a server is looking for a leader, or its role is ending.
pub(super) fn is_looking(server: &Server) -> bool {
    let view = server.replica.view();
    view.is_none_or(|view| matches!(view.role, RoleView::Looking | RoleView::ReadOnly))
}

/// Returns the number of a server, counted from 0.
pub(super) fn number(server: usize) -> u8 {
    u8::try_from(server).unwrap_or(u8::MAX)
}
