//! Collector of traces, which sometimes fails, hangs or is slow.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use testkit::Random;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::settings::{self, COLLECTOR_PATH};
use crate::world::World;

const TRACES: &str = "members send well-formed traces";

/// Receives traces until the clients end.
pub(super) async fn run(world: Arc<World>, mut random: Random) {
    let address = settings::collector();
    let Ok(listener) = TcpListener::bind(address).await else {
        return world.report(TRACES, &format!("{address} is taken"));
    };
    let mut connections = JoinSet::new();
    while !world.is_over() {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let random = Random::new(random.any());
                    connections.spawn(serve(world.clone(), BufReader::new(stream), random));
                }
            }
            () = sleep(Duration::from_secs(1)) => {}
        }
    }
}

async fn serve(world: Arc<World>, mut stream: BufReader<TcpStream>, mut random: Random) {
    while let Ok((head, body)) = request(&mut stream).await {
        let is_protobuf = head.contains("content-type: application/x-protobuf");
        let is_post = head.starts_with(&format!("post {COLLECTOR_PATH} http/1.1"));
        // Each request has spans, and the name of the service.
        let has_spans = body.first() == Some(&0x0a)
            && body.windows(7).any(|bytes| bytes == b"zoarium")
            && body.windows(14).any(|bytes| bytes == b"zookeeper.zxid");
        if !is_protobuf || !is_post || !has_spans {
            world.report(
                TRACES,
                &format!("{head} {}", String::from_utf8_lossy(&body)),
            );
        }
        let answer: &[u8] = match random.below(10) {
            0 => return,
            1 => {
                sleep(Duration::from_secs(60)).await;
                return;
            }
            2 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            3 => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx",
            4 => b"nonsense\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// Reads a request. Returns its head in small letters, and its body.
async fn request(stream: &mut BufReader<TcpStream>) -> io::Result<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = head.to_ascii_lowercase();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((head, body))
}
