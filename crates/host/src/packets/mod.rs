//! Packets between members.

mod buffer;
mod link;
mod queue;
mod tree;
mod tree_detector;
mod writer;

use buffer::Batch;
pub use buffer::{PacketBuffer, PacketFault};
pub use link::{LinkName, LinkReader, ReceivedTree};
pub use queue::{NextWrite, PacketBatch, PacketQueue, QueueBounds, TooSlow};
use tree::TreeSending;
use tree_detector::TreeDetector;
pub use writer::{LinkWriter, Piece};
