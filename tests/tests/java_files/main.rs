//! One data directory, written alternately by Apache ZooKeeper 3.9.5 and by Zoarium.

mod content;
mod large_close;
mod round_trip;
mod state;
