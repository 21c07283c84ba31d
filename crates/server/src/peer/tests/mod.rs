//! The quorum port against itself, against recordings, and against hostile peers.
