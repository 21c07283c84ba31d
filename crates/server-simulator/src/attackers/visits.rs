//! Connections that send anything, or nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use client::{Connector, Stream};
use testkit::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::bytes::{Port, draw};
use crate::addresses::{
    ADMIN_PORT, CLIENT_PORT, ELECTION_PORT, QUORUM_PORT, SECURE_PORT, address_of, connect,
};
use crate::security::secrets::secret_in;
use crate::world::World;

pub(super) const ENDS: &str = "the connection of an attacker ends";
pub(super) const SECRET: &str = "an attacker receives no secret";

/// Time after which the server must have closed the connection of an attacker.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(180);
/// Maximum number of bytes that are sent one by one.
const SLOW_BYTES_MAX: usize = 60;
/// Number of sent bytes that a report shows.
const SHOWN_BYTES: usize = 40;
/// Maximum number of bytes that are kept.
const BYTES_MAX: u64 = 1 << 20;

/// Connects once or many times, and waits for the end of the connections.
pub(super) async fn visit(world: Arc<World>, source: IpAddr, mut random: Random) {
    let ports = [
        (Port::Client, CLIENT_PORT),
        (Port::Secure, SECURE_PORT),
        (Port::Quorum, QUORUM_PORT),
        (Port::Election, ELECTION_PORT),
        (Port::Admin, ADMIN_PORT),
    ];
    let (port, number) = random.pick(&ports).expect("ports");
    let members: Vec<_> = world.settings.members().collect();
    let member = random.pick(&members).expect("members");
    let server = SocketAddr::new(address_of(member), number);
    let count = if random.percent(5) {
        20 + random.below(100)
    } else {
        1
    };
    let manner = match Manner::draw(&mut random) {
        // Many slow connections take long to simulate.
        Manner::Slowly(_) if count > 1 => Manner::Silent,
        manner => manner,
    };
    let connector = if random.percent(25) {
        world.security().attacker(&mut random)
    } else {
        Connector::plain()
    };
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..count {
        let Ok(stream) = connect(server, source).await else {
            continue;
        };
        let bytes = draw(&mut random, port, !world.security().refuses_attackers());
        let visit = Visit {
            manner,
            connector: connector.clone(),
            bytes,
        };
        let world = world.clone();
        all.spawn(async move {
            let shown = format!("{port:?} of {member}, {visit}");
            match timeout(ENDS_WITHIN, visit.make(stream, &server.ip().to_string())).await {
                Ok(received) => check(&world, &shown, &received),
                Err(_) => world.report(ENDS, &shown),
            }
        });
    }
    while all.join_next().await.is_some() {}
}

/// Checks that the bytes contain no secret.
pub(super) fn check(world: &World, shown: &str, received: &[u8]) {
    if let Some(secret) = secret_in(received) {
        let text = String::from_utf8_lossy(received);
        world.report(SECRET, &format!("{shown}: {secret:?} in {text}"));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Silent,
    AtOnce,
    /// One byte after each pause.
    Slowly(Duration),
    /// Resets the connection after the bytes.
    Reset,
    /// Closes the writing half after the bytes.
    HalfClosed,
}

impl Manner {
    fn draw(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::Silent,
            1 => Self::Slowly(Duration::from_secs(60)),
            2 => Self::Slowly(Duration::from_millis(random.range(1, 3000).unsigned_abs())),
            3 => Self::Reset,
            4 => Self::HalfClosed,
            _ => Self::AtOnce,
        }
    }
}

struct Visit {
    manner: Manner,
    connector: Connector,
    bytes: Vec<u8>,
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            manner,
            connector,
            bytes,
        } = self;
        let first = &bytes[..bytes.len().min(SHOWN_BYTES)];
        let len = bytes.len();
        write!(f, "{connector:?}, {manner:?}: {len} bytes, first {first:?}")
    }
}

impl Visit {
    /// Returns the received bytes after the server has closed the connection.
    async fn make(self, stream: TcpStream, host: &str) -> Vec<u8> {
        if self.manner == Manner::Reset && stream.set_zero_linger().is_err() {
            return Vec::new();
        }
        let Ok(stream) = self.connector.establish(stream, &[host]).await else {
            return Vec::new();
        };
        let (mut input, mut output) = tokio::io::split(stream);
        let mut received = Vec::new();
        let sending = async {
            let _ = send(&mut output, self.manner, &self.bytes).await;
            if self.manner != Manner::Reset {
                std::future::pending::<()>().await;
            }
        };
        let receiving = async {
            let mut limited = (&mut input).take(BYTES_MAX);
            let _ = limited.read_to_end(&mut received).await;
        };
        tokio::select! {
            () = sending => {}
            () = receiving => {}
        }
        received
    }
}

async fn send(
    output: &mut tokio::io::WriteHalf<Stream>,
    manner: Manner,
    bytes: &[u8],
) -> std::io::Result<()> {
    match manner {
        Manner::Silent => {}
        Manner::AtOnce | Manner::Reset => {
            output.write_all(bytes).await?;
            output.flush().await?;
        }
        Manner::HalfClosed => {
            output.write_all(bytes).await?;
            output.shutdown().await?;
        }
        Manner::Slowly(pause) => {
            for byte in bytes.iter().take(SLOW_BYTES_MAX) {
                output.write_all(&[*byte]).await?;
                output.flush().await?;
                sleep(pause).await;
            }
        }
    }
    Ok(())
}
