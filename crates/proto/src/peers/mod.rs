//! Packets between servers.

pub mod hello;
pub mod leader;
pub mod learner;
pub mod notification;
pub mod packet;
