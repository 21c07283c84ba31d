//! Many concurrent greedy clients from several addresses, as plain sockets that read only on
//! request.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::frame::put_request;
use jute::Encode;
use proto::connect::ConnectRequest;
use proto::request::Request;
use proto::{SessionId, Xid, Zxid};
use tests::ensemble::Ensemble;
use tokio::net::TcpSocket;

use crate::attacker::ATTACKER_TIMEOUT_MS;

/// Connections per address: the default of `maxClientCnxns`.
pub(crate) const OF_ADDRESS: usize = 60;

/// Bytes that the system of a slow reader buffers.
const BUFFER_SMALL: u32 = 4 << 10;

/// Wait after which a socket that accepts nothing counts as full.
const FULL_AFTER: Duration = Duration::from_millis(100);
/// Time limit for each expected event.
const PATIENCE: Duration = Duration::from_secs(120);

/// Opens as many connections to a member as it accepts from this many addresses.
pub(crate) fn connections(ensemble: &Ensemble, id: u64, addresses: u8) -> Vec<TcpStream> {
    connections_to(ensemble.member(id).client_address(), addresses)
}

/// Opens the same number of connections to any port.
pub(crate) fn connections_to(to: SocketAddr, addresses: u8) -> Vec<TcpStream> {
    let from = (1..=addresses).flat_map(|last| std::iter::repeat_n(last, OF_ADDRESS));
    from.map(|last| connect(Ipv4Addr::new(127, 0, 1, last), to, None))
        .collect()
}

/// Opens connections whose system buffers hardly anything before they read.
pub(crate) fn slow_readers(to: SocketAddr, addresses: u8) -> Vec<TcpStream> {
    let from = (1..=addresses).flat_map(|last| std::iter::repeat_n(last, OF_ADDRESS));
    from.map(|last| connect(Ipv4Addr::new(127, 0, 1, last), to, Some(BUFFER_SMALL)))
        .collect()
}

/// Opens connections with a session each.
pub(crate) fn sessions(ensemble: &Ensemble, id: u64, addresses: u8) -> Vec<TcpStream> {
    with_sessions(connections(ensemble, id, addresses))
}

/// Opens a session on each of these connections.
pub(crate) fn with_sessions(mut streams: Vec<TcpStream>) -> Vec<TcpStream> {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: ATTACKER_TIMEOUT_MS,
        session_id: SessionId::NONE,
        password: Some(Bytes::from_static(&[0; 16])).into(),
        read_only: Some(false),
    };
    let mut frame = vec![0; 4];
    request.encode(&mut frame);
    set_length(&mut frame);
    for stream in &mut streams {
        stream.write_all(&frame).expect("a handshake");
    }
    for stream in &mut streams {
        let answer = take_frame(stream).expect("a session");
        assert_eq!(answer.len(), 37, "no session");
    }
    streams
}

/// Returns a request as it is sent.
pub(crate) fn frame_of(xid: i32, request: &Request) -> Vec<u8> {
    let mut frame = Vec::new();
    put_request(Xid(xid), request.op().number(), &mut frame, |out| {
        request.encode(out).expect("a request of a client");
    });
    frame
}

/// Returns the next frame without its length, or `None` after the server has closed the connection.
pub(crate) fn take_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    read_frame(stream).ok()
}

/// Sends these requests on every connection at the same time, and reads `answers` replies on each.
pub(crate) fn ask_all(streams: &mut [TcpStream], requests: &[u8], answers: usize) {
    let begun = Instant::now();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(requests)?;
        (0..answers).try_for_each(|_| read_frame(stream).map(drop))
    };
    let count = streams.len();
    let failed: Vec<std::io::Error> = std::thread::scope(|scope| {
        let asking: Vec<_> = streams
            .iter_mut()
            .map(|stream| scope.spawn(|| ask(stream)))
            .collect();
        let results = asking
            .into_iter()
            .map(|asked| asked.join().expect("a thread"));
        results.filter_map(Result::err).collect()
    });
    let took = begun.elapsed();
    assert!(
        failed.is_empty(),
        "{} of {count} connections had no answer, after {took:?}: {:?}",
        failed.len(),
        failed[0]
    );
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

/// Sends as much of this as the sockets accept now, on all connections. Returns how many
/// connections the server has closed.
pub(crate) fn push(streams: &mut [TcpStream], bytes: &[u8]) -> usize {
    let mut ended = 0;
    for stream in streams {
        let timeout = |stream: &TcpStream, time| stream.set_write_timeout(Some(time));
        timeout(stream, FULL_AFTER).expect("a timeout of a socket");
        ended += usize::from(!push_one(stream, bytes));
        timeout(stream, PATIENCE).expect("a timeout of a socket");
    }
    ended
}

fn push_one(stream: &mut TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(_) => return false,
        }
    }
    true
}

fn connect(from: Ipv4Addr, to: SocketAddr, buffer: Option<u32>) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for a connection");
    let connected = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.bind((from, 0).into())?;
        socket.connect(to).await?.into_std()
    });
    let stream = connected.expect("a connection");
    stream.set_nonblocking(false).expect("a socket that waits");
    let limit = Some(PATIENCE);
    stream.set_read_timeout(limit).expect("a timeout");
    stream.set_write_timeout(limit).expect("a timeout");
    stream
}

fn set_length(frame: &mut [u8]) {
    let length = u32::try_from(frame.len() - 4).expect("a short frame");
    frame[..4].copy_from_slice(&length.to_be_bytes());
}
