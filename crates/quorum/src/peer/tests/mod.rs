//! Tests of the quorum port against itself, against recordings, and against hostile peers.

mod catch_up;
mod dialing;
mod hostile;
mod packets;
mod recorded;
mod snapshots;
mod support;
