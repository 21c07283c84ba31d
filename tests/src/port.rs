//! Loopback ports that no other test of this machine uses.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::fs::{FlockOperation, flock};

/// First port. The range is below the ports that the kernel assigns to outgoing connections, so
/// that no client takes a port while its server restarts.
const FIRST: u16 = 21_000;
const COUNT: u16 = 9_000;

/// A reserved port of the loopback address, while this value lives.
///
/// A lock on a file in the temporary directory keeps other test processes from using it, also while
/// no server listens on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Takes a free port.
    pub fn take() -> Port {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Processes start at different places, so that they rarely compete for a lock.
        let start = u16::try_from(std::process::id() * 37 % u32::from(COUNT)).unwrap_or(0);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + start.wrapping_add(step) % COUNT;
            if let Some(port) = Port::try_take(number) {
                return port;
            }
        }
        panic!("none of the ports {FIRST} to {} is free", FIRST + COUNT - 1);
    }

    fn try_take(number: u16) -> Option<Port> {
        let dir = std::env::temp_dir().join("zoarium-test-ports");
        std::fs::create_dir_all(&dir).ok()?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join(number.to_string()))
            .ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Port {
            number,
            _lock: lock,
        })
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}
