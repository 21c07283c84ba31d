//! A follower at the limit: it is sent groups of records over loopback, writes and syncs all that came, and tells its
//! leader how far it is. It knows nothing of the protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::super::error::{BenchError, Result};
use super::super::fsync::Scratch;
use super::super::threads::spawn;
use super::log::{Durable, Place};

/// In front of a group: how many bytes it has, and the number of its last record.
const HEAD_BYTES: usize = 16;
/// Most bytes that are read, and synced, at once.
const READ_BYTES: usize = 1 << 20;

/// Starts follower number `index`, which writes to `scratch` what is put into `place`.
pub(super) fn start(
    index: usize,
    scratch: Scratch,
    place: Arc<Place>,
    durable: Arc<Durable>,
) -> Result<()> {
    let (of_leader, of_follower) = connection().map_err(BenchError::io("connect a follower"))?;
    let acknowledged = of_leader.try_clone();
    let acknowledged = acknowledged.map_err(BenchError::io("connect a follower"))?;
    let fails = Arc::clone(&durable);
    spawn(&format!("echo-send-{index}"), move || {
        fails.or_fail(send(&place, of_leader).map_err(BenchError::io("send to a follower")));
    })?;
    let fails = Arc::clone(&durable);
    spawn(&format!("echo-follow-{index}"), move || {
        fails.or_fail(follow(scratch, of_follower));
    })?;
    spawn(&format!("echo-acks-{index}"), move || {
        let heard = hear(index, acknowledged, &durable);
        durable.or_fail(heard.map_err(BenchError::io("hear a follower")));
    })
}

/// Both ends of it.
fn connection() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

fn send(place: &Place, mut stream: TcpStream) -> std::io::Result<()> {
    let (mut records, mut group) = (Vec::new(), Vec::new());
    loop {
        let last = place.take(&mut records);
        group.extend_from_slice(&(records.len() as u64).to_be_bytes());
        group.extend_from_slice(&last.to_be_bytes());
        group.append(&mut records);
        stream.write_all(&group)?;
        group.clear();
    }
}

fn follow(mut scratch: Scratch, mut stream: TcpStream) -> Result<()> {
    let mut part = vec![0; READ_BYTES];
    let mut groups = Vec::new();
    loop {
        let count = stream.read(&mut part);
        let count = count.map_err(BenchError::io("read what a leader sends"))?;
        groups.extend_from_slice(part.get(..count).unwrap_or_default());
        let Some((end, last)) = complete(&groups) else {
            continue;
        };
        scratch.write(groups.get(..end).unwrap_or_default())?;
        groups.drain(..end);
        let told = stream.write_all(&last.to_be_bytes());
        told.map_err(BenchError::io("answer a leader"))?;
    }
}

/// Where the last group ends that is there as a whole, and the number of its last record.
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

fn hear(index: usize, mut stream: TcpStream, durable: &Durable) -> std::io::Result<()> {
    let mut last = [0; 8];
    loop {
        stream.read_exact(&mut last)?;
        durable.advance(index, u64::from_be_bytes(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_synced_when_they_are_whole() {
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
}
