//! Crashes: whatever was acknowledged is there afterwards, and nothing that was never asked for.

mod kills;
mod load;
mod model;
mod process;
mod space;
mod tails;
