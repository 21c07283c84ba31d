//! Unused ports of the loopback address.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::ServerError;

/// First port. The range is below the ports that the kernel assigns to outgoing connections, so no
/// such connection occupies the port of a server that is down.
const FIRST: u16 = 10_100;
const COUNT: u16 = 10_800;

/// Returns `count` different free ports. They are not reserved, so another process may use a port
/// before the caller does.
pub(crate) fn free(count: usize) -> Result<Vec<SocketAddr>, ServerError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Different processes usually start at different ports.
    let start = u16::try_from(u64::from(std::process::id()) * 97 % u64::from(COUNT)).unwrap_or(0);
    let mut held = Vec::with_capacity(count);
    for _ in 0..COUNT {
        if held.len() == count {
            break;
        }
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + step) % COUNT;
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    let addresses = held.iter().map(TcpListener::local_addr);
    let addresses: Result<Vec<_>, _> = addresses.collect();
    match addresses {
        Ok(addresses) if addresses.len() == count => Ok(addresses),
        _ => Err(ServerError::Test {
            what: "too few free ports",
            why: format!(
                "{count} are needed between {FIRST} and {}",
                FIRST + COUNT - 1
            ),
        }),
    }
}
