//! Four-letter words, and detection of a port's kind: client port, admin port, or another port.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use transport::Connector;

/// Time limit of each step: the connection with its TLS handshake, and each answer.
const STEP_LIMIT: Duration = Duration::from_secs(2);

/// Time limit for the answer to the word alone. An HTTP server does not answer a bare word.
const WORD_LIMIT: Duration = Duration::from_millis(500);

/// Size limit of an answer to a word, in bytes. The answer to `srvr` takes a few hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// First byte of a TLS alert.
const TLS_ALERT: u8 = 0x15;

/// Start of the answer from a server that does not serve clients.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// Default port of clients.
pub const CLIENT_PORT: u16 = 2181;

/// Default port of the admin server (`admin.serverPort`).
pub const ADMIN_PORT: u16 = 8080;

/// Kind of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A client port.
    Client,
    /// An admin port, or another HTTP server.
    Admin,
    /// A port that requires TLS.
    Tls,
    /// A port with another protocol, such as the ports between members.
    Other,
}

/// Sends a four-letter word to a server and returns the answer.
///
/// # Errors
/// If the server cannot be reached, or does not answer within two seconds.
pub async fn ask_word(server: &str, word: &str, connector: &Connector) -> io::Result<String> {
    let mut stream = connect(server, connector).await?;
    stream.write_all(word.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    let mut limited = stream.take(ANSWER_BYTES_MAX);
    timeout(STEP_LIMIT, limited.read_to_end(&mut answer)).await??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Detects the kind of the port at `server`.
///
/// # Errors
/// If the connection fails.
pub async fn probe(server: &str, connector: &Connector) -> io::Result<PortKind> {
    let mut stream = connect(server, connector).await?;
    if stream.write_all(b"srvr").await.is_err() || stream.flush().await.is_err() {
        return Ok(PortKind::Other);
    }
    let mut answer = [0; 128];
    let mut length = 0;
    if let Ok(read) = timeout(WORD_LIMIT, stream.read(&mut answer)).await {
        length = read.unwrap_or(0);
    } else if stream.write_all(b"\r\n\r\n").await.is_ok() && stream.flush().await.is_ok() {
        // The word was not answered. An HTTP server refuses the request after the end of its head.
        let read = timeout(STEP_LIMIT, stream.read(&mut answer)).await;
        length = read.map_or(0, |read| read.unwrap_or(0));
    }
    Ok(kind_of(&answer[..length]))
}

fn kind_of(answer: &[u8]) -> PortKind {
    let text = String::from_utf8_lossy(answer);
    let is_client = ["Zookeeper version", "srvr is not executed", NOT_SERVING];
    if is_client.iter().any(|begin| text.starts_with(begin)) {
        return PortKind::Client;
    }
    match answer {
        [b'H', b'T', b'T', b'P', b'/', ..] => PortKind::Admin,
        [TLS_ALERT, 3, ..] => PortKind::Tls,
        _ => PortKind::Other,
    }
}

/// Returns the host of `host:port`, without brackets.
pub fn host_of(server: &str) -> &str {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

async fn connect(server: &str, connector: &Connector) -> io::Result<transport::Stream> {
    let connecting = async {
        let stream = TcpStream::connect(server).await?;
        connector.establish(stream, &[host_of(server)]).await
    };
    timeout(STEP_LIMIT, connecting).await?
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn answers_reveal_the_kind_of_a_port() {
        assert_eq!(kind_of(b"Zookeeper version: 3.9.5"), PortKind::Client);
        let refused = b"srvr is not executed because it is not in the whitelist.\n";
        assert_eq!(kind_of(refused), PortKind::Client);
        assert_eq!(kind_of(NOT_SERVING.as_bytes()), PortKind::Client);
        assert_eq!(kind_of(b"HTTP/1.1 400 Bad Request\r\n"), PortKind::Admin);
        assert_eq!(kind_of(&[TLS_ALERT, 3, 3, 0, 2]), PortKind::Tls);
        assert_eq!(kind_of(b""), PortKind::Other);
        assert_eq!(host_of("[::1]:2181"), "::1");
        assert_eq!(host_of("a"), "a");
    }

    /// Starts a server that accepts one connection, reads up to the bytes `until`, and sends
    /// `answer`. Returns its address.
    async fn answering(until: &'static [u8], answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = Vec::new();
            while !got.ends_with(until) {
                let mut piece = [0; 16];
                match stream.read(&mut piece).await.unwrap() {
                    0 => break,
                    length => got.extend_from_slice(&piece[..length]),
                }
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn an_http_server_is_recognised_when_its_head_is_complete() {
        let plain = Connector::plain();
        let admin = answering(b"srvr\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n").await;
        assert_eq!(probe(&admin, &plain).await.unwrap(), PortKind::Admin);
        let client = answering(b"srvr", "Zookeeper version: 3.9.5").await;
        assert_eq!(probe(&client, &plain).await.unwrap(), PortKind::Client);
        let word = answering(b"ruok", "imok").await;
        assert_eq!(ask_word(&word, "ruok", &plain).await.unwrap(), "imok");
    }
}
