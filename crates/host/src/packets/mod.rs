//! Packets between members.

mod buffer;
mod link;
mod opening;
mod queue;
mod tree;
mod writer;

use buffer::Batch;
pub use buffer::{PacketBuffer, PacketFault};
pub use link::{LinkName, LinkReader, ReceivedTree};
use opening::Opening;
pub use queue::{NextWrite, PacketBatch, PacketQueue, QueueBounds, TooSlow};
use tree::TreeSending;
pub use writer::{LinkWriter, Piece};
