//! Proxies between clients and servers, which read all bytes that pass through.

use std::net::SocketAddr;
use std::sync::Arc;

use testkit::Random;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::addresses::{CLIENT_PORT, SECURE_PORT, address_of, observer};
use crate::security::secrets::secret_in;
use crate::world::World;

const ENCRYPTED: &str = "an observer of a TLS connection learns no secret";
/// First byte of a connection with TLS.
const HANDSHAKE: u8 = 0x16;
const READ_BYTES: usize = 16 << 10;
/// Number of bytes that are kept from earlier reads. It exceeds the length of all secrets.
const KEPT_BYTES: usize = 64;

/// Forwards connections until the task is aborted.
pub(super) async fn run(world: Arc<World>, mut random: Random) {
    let mut ports = JoinSet::new();
    for port in [CLIENT_PORT, SECURE_PORT] {
        ports.spawn(forward(world.clone(), port, Random::new(random.any())));
    }
    while ports.join_next().await.is_some() {}
}

async fn forward(world: Arc<World>, port: u16, mut random: Random) {
    let address = SocketAddr::new(observer(), port);
    let listener = TcpListener::bind(address).await.expect("a free port");
    let members: Vec<_> = world.settings.members().collect();
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let member = random.pick(&members).expect("members");
        let server = SocketAddr::new(address_of(member), port);
        let world = world.clone();
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else {
                return;
            };
            let (mut client_in, mut client_out) = client.into_split();
            let (mut server_in, mut server_out) = server.into_split();
            // The end of one direction ends the connection.
            tokio::select! {
                () = copy(&world, &mut client_in, &mut server_out) => {}
                () = copy(&world, &mut server_in, &mut client_out) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn copy<R, W>(world: &World, input: &mut R, output: &mut W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut bytes = vec![0; READ_BYTES];
    let mut seen = Vec::new();
    let mut is_encrypted = None;
    while let Ok(len @ 1..) = input.read(&mut bytes).await {
        let new = &bytes[..len];
        if *is_encrypted.get_or_insert(matches!(new[0], HANDSHAKE)) {
            seen.extend_from_slice(new);
            if let Some(secret) = secret_in(&seen) {
                world.report(ENCRYPTED, secret);
            }
            seen.drain(..seen.len().saturating_sub(KEPT_BYTES));
        }
        if output.write_all(new).await.is_err() {
            return;
        }
    }
}
