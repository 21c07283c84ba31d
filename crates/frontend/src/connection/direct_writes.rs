//! Direct writes of the core to a client's socket.
//!
//! A task that waits for its client would be woken only to pass a reply to the socket. If the
//! schedule permits it, the core itself writes as many bytes as the socket accepts immediately. A
//! client that waits for a single reply then receives it one wake-up earlier. The core does not
//! hold the connection's lock during the write. If the task wants to write meanwhile, it waits
//! until the core has finished.

use std::io;

use executor::DirectWrite;
use host::CLIENT_BYTES_WRITTEN_BY_CORE_MAX;
use transport::TcpWriter;

use crate::connection::outgoing::Outgoing;
use crate::connection::{BytesInWrite, Connection, ConnectionState};

/// State of the core's direct writes to a client's socket.
#[derive(Debug, Default)]
pub(crate) struct DirectWrites {
    /// Writer for the socket. `None` if only the task can write, and after the end of the
    /// connection.
    writer: Option<TcpWriter>,
    /// State that determines whether the task or the core may write to the socket.
    direct: DirectWrite,
}

impl DirectWrites {
    /// Drops the writer, so that the socket can be closed. Called at the end of the task.
    pub(crate) fn end(&mut self) {
        self.writer = None;
    }
}

impl Connection {
    /// Allows the core to write to the socket directly.
    pub(crate) fn write_at_once(&self, writer: TcpWriter) {
        self.lock().direct_writes.writer = Some(writer);
    }

    /// Writes the outbox to the socket without the task. Returns `false` if the task must be woken,
    /// because it has other work or because output remains.
    pub(crate) fn try_write(&self) -> bool {
        self.try_write_with(TcpWriter::try_write)
    }

    /// Like [`Connection::try_write`], with a function that writes the bytes that the socket
    /// accepts immediately, and returns their number.
    fn try_write_with(&self, write: impl FnOnce(&TcpWriter, &[u8]) -> io::Result<usize>) -> bool {
        if self.is_closed() || self.has_deferred() {
            return false;
        }
        let begun = self.lock().begin_write();
        let Some((writer, frames)) = begun else {
            return false;
        };
        // An error is ignored here, because the task also receives it.
        let written = write(&writer, &frames).unwrap_or(0);
        let is_done = self.lock().end_write(frames, written);
        is_done && !self.is_closed()
    }
}

impl ConnectionState {
    /// Returns whether the connection has too many unanswered requests to read further requests.
    /// Also records that the task is about to wait. If the result is true, it waits for answers,
    /// and otherwise only for its client.
    pub(crate) fn must_wait_for_answers(&mut self) -> bool {
        let is_full = self.is_full();
        self.direct_writes.direct.task_waits(!is_full);
        is_full
    }

    /// Returns whether further write requests must wait, because the replies to queued reads are
    /// long. Records that the task is about to wait, and not only for its client.
    pub(crate) fn must_delay_writes_before_wait(&mut self) -> bool {
        self.direct_writes.direct.task_waits(false);
        self.client.must_delay_writes()
    }

    /// Removes the output to write from the outbox. The previous output must already have been
    /// written. Returns `None` while the core writes. The core wakes the task after its write.
    pub(crate) fn take_to_write(&mut self) -> Option<Outgoing> {
        let has_output = !self.client.outbox.is_empty() || !self.long_events.is_empty();
        let may = self.direct_writes.direct.task_takes(has_output);
        may.then(|| self.take_outbox())
    }

    /// Begins a write by the core, and removes the frames from the outbox. Returns `None` if only
    /// the task can write, if the task has other work, if the outbox is empty or long, or if other
    /// output waits or is being written.
    fn begin_write(&mut self) -> Option<(TcpWriter, Vec<u8>)> {
        let outbox_bytes = self.client.outbox.len();
        let may = self.direct_writes.direct.may_begin()
            && !self.client.ends_after_flush
            && self.long_events.is_empty()
            && self.roomy_bytes == 0
            && (1..=CLIENT_BYTES_WRITTEN_BY_CORE_MAX).contains(&outbox_bytes);
        if !may {
            return None;
        }
        let writer = self.direct_writes.writer.clone()?;
        self.direct_writes.direct.begin();
        Some((writer, self.take_outbox().frames))
    }

    /// Records that `written` bytes of the frames were written, and puts the rest back into the
    /// outbox. Returns `false` if the task must be woken.
    fn end_write(&mut self, mut frames: Vec<u8>, written: usize) -> bool {
        let BytesInWrite { event_bytes, .. } = std::mem::take(&mut self.writing);
        if written < frames.len() {
            frames.drain(..written);
            // Long events that arrived during the write come after the rest of the frames.
            for (place, _) in &mut self.long_events {
                *place += frames.len();
            }
            frames.append(&mut self.client.outbox);
            self.client.outbox = frames;
            self.event_bytes += event_bytes;
        }
        self.update_buffered_bytes();
        let is_all = self.client.outbox.is_empty() && self.long_events.is_empty();
        self.direct_writes.direct.end(is_all) && !self.client.ends_after_flush
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use bytes::Bytes;
    use tree::WatcherId;

    use super::*;
    use crate::connection::outgoing::EventFrame;

    /// Returns a connection whose task waits for its client, and the client's stream.
    async fn connected() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ours = tokio::net::TcpStream::connect(address).await.unwrap();
        let (theirs, peer) = listener.accept().unwrap();
        let connection = Connection::new(WatcherId(1), peer, Arc::from([]), Arc::default());
        connection.write_at_once(TcpWriter::split(ours).1);
        assert!(!connection.lock().must_wait_for_answers());
        (connection, theirs)
    }

    fn push(connection: &Connection, frame: &[u8]) {
        let outbox = &mut connection.lock().client.outbox;
        outbox.extend_from_slice(frame);
    }

    #[tokio::test]
    async fn a_waiting_client_receives_its_reply_without_its_task() {
        let (connection, mut client) = connected().await;
        assert!(!connection.try_write(), "there is nothing");
        push(&connection, b"reply");
        assert!(connection.try_write());
        let mut read = [0; 5];
        client.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"reply");
        assert!(connection.lock().take_to_write().unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_task_writes_the_rest_in_order() {
        let (connection, mut client) = connected().await;
        let block: Vec<u8> = (0..=255).cycle().take(60 << 10).collect();
        let mut blocks = 0;
        let rest = loop {
            push(&connection, &block);
            blocks += 1;
            if !connection.try_write() {
                break connection.lock().take_to_write().unwrap();
            }
        };
        assert!(!rest.is_empty() && rest.frames.len() <= block.len());
        push(&connection, b"more");
        assert!(!connection.try_write(), "the task writes");
        let mut read = vec![0; blocks * block.len() - rest.frames.len()];
        client.read_exact(&mut read).unwrap();
        read.extend_from_slice(&rest.frames);
        assert!(read == block.repeat(blocks));
        assert_eq!(connection.lock().take_to_write().unwrap().frames, b"more");
    }

    #[tokio::test]
    async fn the_task_waits_while_the_core_writes() {
        let (connection, _client) = connected().await;
        push(&connection, b"first");
        let (_, frames) = connection.lock().begin_write().unwrap();
        assert!(connection.lock().take_to_write().is_none());
        assert!(!connection.lock().end_write(frames, 5), "the task waits");

        push(&connection, b"first");
        assert!(
            connection
                .lock()
                .take_to_write()
                .is_some_and(|taken| taken.frames == b"first")
        );
        assert!(connection.lock().take_to_write().unwrap().is_empty());
        push(&connection, b"first");
        let (_, frames) = connection.lock().begin_write().unwrap();
        push(&connection, b"second");
        connection.push_event(EventFrame::Long(Bytes::from_static(b"event")));
        assert!(!connection.lock().end_write(frames, 2), "there is more");
        let taken = connection.lock().take_to_write().unwrap();
        assert_eq!(taken.frames, b"rstsecond");
        assert_eq!(taken.long_events, [(9, Bytes::from_static(b"event"))]);
    }

    #[tokio::test]
    async fn other_work_is_left_to_the_task() {
        let (connection, _client) = connected().await;
        push(&connection, b"reply");
        connection.lock().client.ends_after_flush = true;
        assert!(!connection.try_write(), "it ends then");
        connection.lock().client.ends_after_flush = false;
        assert!(!connection.lock().must_delay_writes_before_wait());
        assert!(!connection.try_write(), "it waits for answers");
        assert!(!connection.lock().must_wait_for_answers());
        push(&connection, &vec![0; CLIENT_BYTES_WRITTEN_BY_CORE_MAX]);
        assert!(!connection.try_write(), "long");
        assert_eq!(
            connection.lock().take_to_write().unwrap().frames.len(),
            5 + CLIENT_BYTES_WRITTEN_BY_CORE_MAX
        );
        assert!(connection.lock().take_to_write().unwrap().is_empty());
        push(&connection, b"reply");
        connection.lock().direct_writes.end();
        assert!(!connection.try_write(), "it has ended");
    }
}

#[cfg(test)]
#[path = "direct_writes_tests.rs"]
mod model;
