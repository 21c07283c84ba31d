//! Executor for a state machine to which many threads send messages.
//!
//! ```text
//!  a thread with a message --> inbox --> machine <--lock-- its own thread, or a thread with a message
//! ```
//!
//! A message that arrives alone must wake the machine's own thread, and a wake-up takes longer than
//! most messages. A thread that delivers a message may therefore run the machine itself if the
//! machine permits it and no other thread holds the lock. Only the machine's own thread ever waits
//! for the lock.
//!
//! Each thread that releases the lock checks the inbox once more. A message is therefore seen by
//! its sender, by the thread that held the lock meanwhile, or by the machine's own thread.
//!
//! [`Executor`] is generic over its lock, its queue, its parker and its atomics
//! ([`Primitives`]). [`Threads`] is the shipped set. The tests run the same code with the
//! primitives of `loom` and `shuttle`.
//!
//! The module [`sync`] contains locks and atomics for types of other crates.

mod direct_write;
mod executor;
mod mailbox;
mod primitives;
pub mod sync;
mod threads;

pub use direct_write::DirectWrite;
pub use executor::{Executor, Machine, Settings, WaitingThread};
pub use mailbox::Mailbox;
pub use primitives::{Atomic, Lock, Parker, Primitives, Queue};
pub use threads::{Channel, ThreadParker, Threads};
