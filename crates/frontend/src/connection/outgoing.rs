//! Output of a connection: its own frames, and long events that it shares with other connections.
//!
//! One change may fire the watches of thousands of clients, and its path may be almost as long as a
//! request. Separate copies would take gigabytes, so a long event is stored once.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Minimum length of shared events. Shorter events are copied, so that one system call sends many
/// of them.
pub(crate) const LONG_EVENT_BYTES: usize = 64 << 10;

/// Frame of an event.
pub(crate) enum EventFrame<'a> {
    Short(&'a [u8]),
    /// Frame of at least [`LONG_EVENT_BYTES`].
    Long(Bytes),
}

impl EventFrame<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            EventFrame::Short(frame) => frame.len(),
            EventFrame::Long(frame) => frame.len(),
        }
    }
}

/// Long event with its offset, which is the number of frame bytes before it.
pub(crate) type LongEvent = (usize, Bytes);

/// Returns the total length of the long events.
pub(crate) fn bytes_of(long_events: &[LongEvent]) -> usize {
    long_events.iter().map(|(_, event)| event.len()).sum()
}

/// Output for the socket, in order.
pub(crate) struct Outgoing {
    pub(crate) frames: Vec<u8>,
    /// Long events, sorted by offset.
    pub(crate) long_events: Vec<LongEvent>,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.long_events.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.frames.len() + bytes_of(&self.long_events)
    }

    pub(crate) async fn write_to(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut written = 0;
        for (place, event) in &self.long_events {
            let before = self.frames.get(written..*place).unwrap_or_default();
            stream.write_all(before).await?;
            stream.write_all(event).await?;
            written = *place;
        }
        let rest = self.frames.get(written..).unwrap_or_default();
        stream.write_all(rest).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_events_are_written_in_order() {
        let event = |byte| Bytes::from(vec![byte; 3]);
        let outgoing = Outgoing {
            frames: b"abcd".to_vec(),
            long_events: vec![
                (0, event(b'1')),
                (2, event(b'2')),
                (2, event(b'3')),
                (4, event(b'4')),
            ],
        };
        assert_eq!(bytes_of(&outgoing.long_events), 12);
        let mut written = Vec::new();
        outgoing.write_to(&mut written).await.unwrap();
        assert_eq!(written, b"111ab222333cd444");
    }
}
