//! The audit log, line for line as Apache ZooKeeper 3.9.5 was recorded, through every role.

mod hostile;
mod log;
mod play;
mod recorded;
mod roles;
