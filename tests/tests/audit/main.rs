//! The audit log, compared line by line with recordings of Apache ZooKeeper 3.9.5, through every
//! role.

mod hostile;
mod log;
mod play;
mod recorded;
mod roles;
