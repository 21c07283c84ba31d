//! Peers that act as members.

use std::net::SocketAddr;
use std::sync::Arc;

use client::transport::sasl::{ClientExchange, ClientStep, MEMBERS, SaslLogin};
use client::{Connector, Secret, Stream};
use testkit::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::bytes::{hello, introduction};
use super::visits::{ENDS, ENDS_WITHIN, check};
use crate::addresses::{ELECTION_PORT, QUORUM_PORT, address_of, attacker, connect};
use crate::world::World;

const UNANSWERED: &str = "an attacker is not answered as a member";

/// Beginning of each packet of a login between members.
const MAGIC: i64 = 0x5f24_3501_3501_edcc;
/// Status of a packet that continues a login.
const IN_PROGRESS: i32 = 0;
/// Status of a packet that refuses a login.
const ERROR: i32 = -1;
const TOKEN_BYTES_MAX: i32 = 4096;

/// Acts as a member, if the ports of members refuse attackers.
pub(super) async fn visit(world: Arc<World>, mut random: Random) {
    let security = world.security();
    if !security.refuses_attackers() {
        return;
    }
    let members: Vec<_> = world.settings.members().collect();
    let member = random.pick(&members).expect("members");
    let port = random.pick(&[QUORUM_PORT, ELECTION_PORT]).expect("ports");
    let server = SocketAddr::new(address_of(member), port);
    let connector = if random.percent(60) {
        security.attacker(&mut random)
    } else {
        Connector::plain()
    };
    let Ok(stream) = connect(server, attacker()).await else {
        return;
    };
    let logs_in = random.percent(60);
    let shown = format!("port {port} of {member}, {connector:?}, login: {logs_in}");
    let visiting = async {
        let Ok(mut stream) = connector
            .establish(stream, &[&server.ip().to_string()])
            .await
        else {
            return Vec::new();
        };
        let sid = random.pick(&members).expect("members").0;
        let mut received = Vec::new();
        let _ = act(&mut stream, port, sid, logs_in, &mut random, &mut received).await;
        received
    };
    match timeout(ENDS_WITHIN, visiting).await {
        Ok(received) => {
            check(&world, &shown, &received);
            if !received.is_empty() {
                world.report(UNANSWERED, &format!("{shown}: {received:?}"));
            }
        }
        Err(_) => world.report(ENDS, &shown),
    }
}

/// Sends the first messages of a member. Returns at the end of the connection. `received` contains
/// all bytes that do not refuse the login.
async fn act(
    stream: &mut Stream,
    port: u16,
    sid: i64,
    logs_in: bool,
    random: &mut Random,
    received: &mut Vec<u8>,
) -> std::io::Result<()> {
    if port == ELECTION_PORT {
        stream.write_all(&hello(sid)).await?;
    }
    if logs_in {
        log_in(stream, random, received).await?;
    }
    if port == QUORUM_PORT {
        stream.write_all(&introduction()).await?;
    }
    stream.flush().await?;
    stream.read_to_end(received).await.map(drop)
}

async fn log_in(
    stream: &mut Stream,
    random: &mut Random,
    received: &mut Vec<u8>,
) -> std::io::Result<()> {
    let user = random.pick(&["zk", "old", "nobody", ""]).unwrap_or("zk");
    let login = SaslLogin {
        user: user.to_owned(),
        password: Secret::new("guess"),
    };
    let nonce = std::array::from_fn(|_| random.byte());
    let mut exchange = ClientExchange::new(MEMBERS, nonce);
    let mut token = Vec::new();
    loop {
        write(stream, &token).await?;
        let (magic, status) = (stream.read_i64().await?, stream.read_i32().await?);
        let len = stream.read_i32().await?;
        if magic == MAGIC && status == ERROR {
            return Ok(());
        }
        let len = len.clamp(0, TOKEN_BYTES_MAX);
        let mut challenge = vec![0; usize::try_from(len).unwrap_or_default()];
        stream.read_exact(&mut challenge).await?;
        match exchange.step(&challenge, &login) {
            Ok(ClientStep::Respond(response)) if status == IN_PROGRESS => token = response,
            _ => {
                received.extend(challenge);
                return Ok(());
            }
        }
        match random.below(6) {
            0 => token.truncate(random.below(token.len())),
            1 => {
                let at = random.below(token.len());
                token[at] = random.byte();
            }
            _ => {}
        }
    }
}

async fn write(stream: &mut Stream, token: &[u8]) -> std::io::Result<()> {
    let len = i32::try_from(token.len()).unwrap_or(-1);
    let mut packet = MAGIC.to_be_bytes().to_vec();
    packet.extend(IN_PROGRESS.to_be_bytes());
    packet.extend(len.to_be_bytes());
    packet.extend(token);
    stream.write_all(&packet).await?;
    stream.flush().await
}
