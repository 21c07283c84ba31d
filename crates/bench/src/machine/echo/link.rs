//! Connection between the leader and a follower. A thread that queues a record also sends all
//! waiting records, unless another thread is already sending. Therefore no thread has to be woken,
//! and records that arrive meanwhile are sent together.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use parking_lot::Mutex;

use crate::error::{BenchError, Result};

/// Length of a group's header, which contains the size of the records in bytes and the number of
/// the last record.
const HEAD_BYTES: usize = 16;
/// Maximum size of one read, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Sending end of a connection.
#[derive(Debug)]
pub(super) struct RecordSender {
    stream: TcpStream,
    waiting: Mutex<UnsentRecords>,
}

#[derive(Debug, Default)]
struct UnsentRecords {
    records: Vec<u8>,
    /// Number of the last queued record.
    last: u64,
    sent: u64,
    is_sending: bool,
}

impl RecordSender {
    /// Queues a record for the next flush, and returns its number.
    pub(super) fn put(&self, record: &[u8]) -> u64 {
        let mut waiting = self.waiting.lock();
        waiting.records.extend_from_slice(record);
        waiting.last += 1;
        waiting.last
    }

    /// Queues a number without a record, for an acknowledgement or a commit.
    pub(super) fn put_number(&self, last: u64) {
        self.waiting.lock().last = last;
    }

    /// Sends the queued records, unless another thread is already sending.
    pub(super) fn flush(&self) -> io::Result<()> {
        let (mut records, mut group) = (Vec::new(), Vec::new());
        let mut waiting = self.waiting.lock();
        if waiting.is_sending {
            // The sending thread will check the queue again.
            return Ok(());
        }
        while waiting.sent < waiting.last {
            waiting.is_sending = true;
            waiting.sent = waiting.last;
            let last = waiting.last;
            std::mem::swap(&mut waiting.records, &mut records);
            drop(waiting);
            group.extend_from_slice(&(records.len() as u64).to_be_bytes());
            group.extend_from_slice(&last.to_be_bytes());
            group.append(&mut records);
            (&self.stream).write_all(&group)?;
            group.clear();
            waiting = self.waiting.lock();
            waiting.is_sending = false;
        }
        Ok(())
    }

    /// Closes the connection for both ends.
    pub(super) fn close(&self) {
        // Fails if the other end has already closed the connection.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Receiving end of a connection.
#[derive(Debug)]
pub(super) struct RecordReader {
    stream: TcpStream,
    part: Vec<u8>,
    bytes: Vec<u8>,
    /// Number of bytes at the beginning of `bytes` that have already been returned.
    taken: usize,
}

impl RecordReader {
    /// Waits for a complete group. Returns all complete groups with their headers, and the number
    /// of the last record.
    pub(super) fn next(&mut self) -> io::Result<(&[u8], u64)> {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        let last = loop {
            if let Some((end, last)) = complete(&self.bytes) {
                self.taken = end;
                break last;
            }
            let count = self.stream.read(&mut self.part)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let part = self.part.get(..count).unwrap_or_default();
            self.bytes.extend_from_slice(part);
        };
        Ok((self.bytes.get(..self.taken).unwrap_or_default(), last))
    }
}

/// Returns the end of the last complete group and the number of its last record, or `None` if no
/// group is complete.
fn complete(groups: &[u8]) -> Option<(usize, u64)> {
    let mut complete = None;
    let mut at = 0;
    while let Some(head) = groups.get(at..at + HEAD_BYTES) {
        let (bytes, last) = head.split_first_chunk()?;
        let end = at + HEAD_BYTES + usize::try_from(u64::from_be_bytes(*bytes)).ok()?;
        if end > groups.len() {
            break;
        }
        complete = Some((end, u64::from_be_bytes(*last.first_chunk()?)));
        at = end;
    }
    complete
}

/// Connects two members over loopback, and returns the sending and the receiving end of each.
pub(super) fn connect() -> Result<[(RecordSender, RecordReader); 2]> {
    let connect = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let one = TcpStream::connect(listener.local_addr()?)?;
        let (other, _) = listener.accept()?;
        Ok([ends(one)?, ends(other)?])
    };
    connect().map_err(BenchError::io("connect two members"))
}

fn ends(stream: TcpStream) -> io::Result<(RecordSender, RecordReader)> {
    stream.set_nodelay(true)?;
    let link = RecordSender {
        stream: stream.try_clone()?,
        waiting: Mutex::default(),
    };
    let groups = RecordReader {
        stream,
        part: vec![0; READ_BYTES],
        bytes: Vec::new(),
        taken: 0,
    };
    Ok((link, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_groups_are_returned() {
        let mut groups = Vec::new();
        for (bytes, last) in [(3_u64, 1_u64), (5, 4)] {
            groups.extend_from_slice(&bytes.to_be_bytes());
            groups.extend_from_slice(&last.to_be_bytes());
            groups.resize(groups.len() + usize::try_from(bytes).unwrap(), 7);
        }
        let of = |bytes: usize| complete(&groups[..bytes]);
        let whole = groups.len();
        assert_eq!([of(0), of(15), of(18)], [None; 3]);
        assert_eq!([of(19), of(whole - 1)], [Some((19, 1)); 2]);
        assert_eq!(of(whole), Some((whole, 4)));
    }

    #[test]
    fn records_of_many_senders_arrive_complete_and_in_order() {
        let [(link, _), (_, mut groups)] = connect().unwrap();
        let (mut bytes, mut last) = (0, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        link.put(&[7; 10]);
                        link.flush().unwrap();
                    }
                });
            }
            while last < 4000 {
                let (came, number) = groups.next().unwrap();
                assert!(number > last);
                (bytes, last) = (bytes + came.len(), number);
            }
        });
        assert!(bytes >= 40_000 + HEAD_BYTES, "{bytes}");
        link.put_number(5000);
        link.flush().unwrap();
        assert_eq!(groups.next().unwrap().1, 5000);
    }
}
