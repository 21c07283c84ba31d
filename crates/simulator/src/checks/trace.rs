//! Output of a run: each step in words for people, or in numbers for comparison of two builds.
//!
//! The stable trace has one line per step: the time in microseconds, the number of the step's kind,
//! and the numbers of the step. It contains no words and no names from the code. Two builds that
//! behave in the same way therefore write the same bytes, even if modules were moved and messages
//! reworded.

use std::fmt::Write as _;

use bytes::Bytes;
use proto::{Sid, Zxid};
use simulation::network::{Endpoint, Message, Process};
use simulation::queue::Micros;

use crate::Report;
use crate::simulated::{Event, OwnEvent};

/// Form in which a run prints its steps to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Trace {
    /// No steps are printed.
    #[default]
    Off,
    /// A sentence per step is printed, for people.
    Words,
    /// Only numbers are printed, the same in every build that behaves in the same way.
    Stable,
}

/// Kind of step. Its number is part of the trace's format and never changes.
#[derive(Debug, Clone, Copy)]
enum StepKind {
    Event = 1,
    Message = 2,
    Applied = 3,
    Established = 4,
    End = 5,
}

/// Prints the steps of a run as numbers if [`Trace::Stable`] is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StableTrace {
    pub(crate) is_on: bool,
}

impl StableTrace {
    pub(crate) fn event(self, now: Micros, event: &Event) {
        if self.is_on {
            print(now, StepKind::Event, &numbers_of_event(event));
        }
    }

    /// Prints a message that arrives at one end of a connection.
    pub(crate) fn message(self, now: Micros, connection: u64, to: Endpoint, message: &Message) {
        if self.is_on {
            let mut numbers = vec![connection];
            numbers.extend(numbers_of_place(to));
            let (kind, content) = content_of(message);
            numbers.extend([kind, content.len() as u64]);
            numbers.push(match message {
                // A reply lists the children of a znode in the order of a hash map, which differs
                // between two runs. The sum of the bytes does not depend on this order.
                Message::ToClient(_) => content.iter().map(|byte| u64::from(*byte)).sum(),
                _ => u64::from(crc32fast::hash(&content)),
            });
            print(now, StepKind::Message, &numbers);
        }
    }

    /// Prints a transaction that a server has applied, and the digest of its tree afterwards.
    pub(crate) fn applied(self, now: Micros, sid: Sid, zxid: Zxid, digest: u64) {
        if self.is_on {
            let numbers = [sid.0.cast_unsigned(), zxid.0.cast_unsigned(), digest];
            print(now, StepKind::Applied, &numbers);
        }
    }

    /// Prints that a server's transactions up to `last` are committed in the epoch of its leader.
    pub(crate) fn established(self, now: Micros, sid: Sid, last: Zxid) {
        if self.is_on {
            let numbers = [sid.0.cast_unsigned(), last.0.cast_unsigned()];
            print(now, StepKind::Established, &numbers);
        }
    }

    pub(crate) fn end(self, now: Micros, seed: u64, report: &Report) {
        if self.is_on {
            let numbers = [
                seed,
                report.committed as u64,
                report.acknowledged as u64,
                report.epochs as u64,
                report.events,
                u64::from(report.violation.is_some()),
            ];
            print(now, StepKind::End, &numbers);
        }
    }
}

fn print(now: Micros, kind: StepKind, numbers: &[u64]) {
    let mut line = format!("{now} {}", kind as u8);
    for number in numbers {
        let _ = write!(line, " {number}");
    }
    println!("{line}");
}

fn numbers_of_event(event: &Event) -> Vec<u64> {
    match event {
        Event::Arrival { connection, lane } => vec![1, *connection, *lane as u64],
        Event::Dialled { connection } => vec![2, *connection],
        Event::Broken { connection, end } => vec![3, *connection, *end as u64],
        Event::Wake { process } => numbers_of_process(4, *process),
        Event::JobDone { process, .. } => numbers_of_process(5, *process),
        Event::DiskDone { process, .. } => numbers_of_process(6, *process),
        Event::Oracle { process } => numbers_of_process(7, *process),
        Event::Own(OwnEvent::ClientWake { client }) => vec![8, *client as u64],
        Event::Own(OwnEvent::Contend { number }) => vec![9, *number as u64],
        Event::Own(OwnEvent::Weather) => vec![10],
        Event::Own(OwnEvent::AllLookAgain) => vec![11],
        Event::Start { server } => vec![12, *server as u64],
        Event::Own(OwnEvent::Release { server, work }) => vec![13, *server as u64, *work as u64],
    }
}

fn numbers_of_process(kind: u64, process: Process) -> Vec<u64> {
    vec![kind, process.server as u64, process.life]
}

fn numbers_of_place(place: Endpoint) -> [u64; 3] {
    match place {
        Endpoint::Server(Process { server, life }) => [1, server as u64, life],
        Endpoint::Client(client) => [2, client as u64, 0],
        Endpoint::Application { number, life } => [3, number as u64, life],
    }
}

/// Returns the number of a message's kind, and its bytes on the wire.
fn content_of(message: &Message) -> (u64, Bytes) {
    match message {
        Message::Hello(hello) => {
            let mut content = Vec::new();
            // A hello that cannot be encoded still counts as a message.
            let _ = hello.encode(&mut content);
            (1, content.into())
        }
        Message::Vote(vote) => {
            let mut content = Vec::new();
            vote.encode_frame(&mut content);
            (2, content.into())
        }
        Message::Packets(packets) => (3, packets.clone()),
        Message::Tree(part, is_last) => (4 + u64::from(*is_last), part.clone()),
        Message::ToServer(frame) => (6, frame.clone()),
        Message::ToClient(frames) => (7, frames.clone()),
        Message::End => (8, Bytes::new()),
    }
}
