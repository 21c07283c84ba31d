//! Recorded links without a replay, and the reasons.

use crate::Link;
use crate::recordings::{Event, Line, Recording};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Why {
    /// The link existed before the recording began, and only its end was recorded. The host handles
    /// that; a learner does not receive or send anything.
    OnlyItsEnd,
    /// The link belongs to a script that never sends a sid, so it is unnamed. The notes of the
    /// recording list its packets to a Java leader. A Java learner did not take part.
    NamelessScript,
}

const fn only_its_end(file: &'static str, conn: u64) -> (&'static str, u64, Why) {
    (file, conn, Why::OnlyItsEnd)
}

const fn nameless_script(conn: u64) -> (&'static str, u64, Why) {
    ("reactions-leader", conn, Why::NamelessScript)
}

const UNPLAYED: &[(&str, u64, Why)] = &[
    // The leader stops, and leads again over new links.
    only_its_end("fake-leader-snap", 3),
    only_its_end("fake-leader-snap", 7),
    only_its_end("fake-leader-trunc", 8),
    only_its_end("fake-leader-trunc", 9),
    // The leader is killed.
    only_its_end("leader-loss", 8),
    only_its_end("leader-loss", 9),
    only_its_end("leader-loss", 10),
    // The learner is stopped, and returns over another link.
    only_its_end("learner-rejoin", 9),
    // The last follower is killed, and its leader steps down.
    only_its_end("quorum-loss", 18),
    only_its_end("quorum-loss", 24),
    // A first packet that is not an introduction, and an introduction without a sid.
    nameless_script(21),
    nameless_script(22),
    nameless_script(23),
    // Packets of impossible lengths, or one that breaks off.
    nameless_script(31),
    nameless_script(32),
    nameless_script(33),
];

/// Returns the links that cannot be replayed. The recordings must confirm the reason of each.
pub(crate) fn unplayed(recordings: &[Recording]) -> Vec<Link> {
    let links = UNPLAYED.iter().map(|(file, conn, why)| {
        let recording = recordings.iter().find(|recording| recording.name == *file);
        let lines = recording.iter().flat_map(|recording| &recording.lines);
        let mut lines = lines.filter(|line| line.conn == *conn);
        assert!(lines.all(|line| why.holds(line)), "{file}, {conn}: {why:?}");
        ((*file).to_owned(), *conn)
    });
    links.collect()
}

impl Why {
    fn holds(self, line: &Line) -> bool {
        match self {
            Self::OnlyItsEnd => {
                matches!(line.event, Event::ClosedByLeader | Event::ClosedByLearner)
            }
            Self::NamelessScript => line.learner == "?",
        }
    }
}
