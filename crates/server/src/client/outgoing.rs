//! What leaves a connection: frames of its own, and long events that it shares with others.
//!
//! One change may fire the watches of thousands, and its path may be almost as long as a request. A
//! copy for each of them would be gigabytes, so a long event is in memory once.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Events of at least so many bytes are shared. Shorter ones are copied: many of them leave by one
/// syscall.
pub(super) const LONG_EVENT_BYTES: usize = 64 << 10;

/// The frame of an event.
pub(crate) enum EventFrame<'a> {
    Short(&'a [u8]),
    /// At least [`LONG_EVENT_BYTES`] long.
    Long(Bytes),
}

impl EventFrame<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            EventFrame::Short(frame) => frame.len(),
            EventFrame::Long(frame) => frame.len(),
        }
    }
}

/// A long event and where it belongs: behind so many bytes of the frames.
pub(super) type LongEvent = (usize, Bytes);

/// Bytes of long events.
pub(super) fn bytes_of(long_events: &[LongEvent]) -> usize {
    long_events.iter().map(|(_, event)| event.len()).sum()
}

/// Frames for the socket, in their order.
pub(crate) struct Outgoing {
    pub(super) frames: Vec<u8>,
    /// By rising place.
    pub(super) long_events: Vec<LongEvent>,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.long_events.is_empty()
    }

    pub(super) async fn write_to(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
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
    async fn long_events_leave_in_their_places() {
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
