//! Crashes: acknowledged writes survive, and no other write appears.

mod kills;
mod load;
mod model;
mod process;
mod space;
mod tails;
