//! Tests of stores that change while the server runs.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use config::Tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zoarium_transport::Stream;
use zoarium_transport::tls::{Acceptor, Connector, Endpoint, Gate, TlsSource, certificate};

use crate::authority::{Authority, settings, write_key};

const PATIENCE: Duration = Duration::from_secs(20);

/// The captured log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns whether a line contains both texts.
    fn holds(&self, text: &str, place: &str) -> bool {
        let written = self.0.lock().unwrap();
        let written = String::from_utf8_lossy(&written);
        let mut lines = written.lines();
        lines.any(|line| line.contains(text) && line.contains(place))
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Port {
    acceptor: Acceptor,
    connector: Connector,
    listener: TcpListener,
}

impl Port {
    async fn meet(&self) -> (Stream, Stream) {
        let address = self.listener.local_addr().unwrap();
        let accepting = async {
            let (stream, peer) = self.listener.accept().await.unwrap();
            self.acceptor.establish(stream, peer).await.unwrap()
        };
        let connecting = async {
            let stream = TcpStream::connect(address).await.unwrap();
            self.connector
                .establish(stream, &["127.0.0.1"])
                .await
                .unwrap()
        };
        tokio::join!(accepting, connecting)
    }

    /// Returns the server's subject on a new connection.
    async fn name(&self) -> String {
        let (_accepted, connected) = self.meet().await;
        certificate::subject(connected.peer_certificate().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn new_connections_use_the_new_certificate_and_invalid_files_are_ignored() {
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || written.clone());
    // The subscriber is global, because files are read on other threads. It also captures the log
    // of other tests.
    subscriber.with_ansi(false).init();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("Authority");
    let server: Tls = settings(
        dir.path(),
        "server",
        &authority.member("before"),
        authority.pem(),
    );
    let client: Tls = settings(
        dir.path(),
        "client",
        &authority.member("client"),
        authority.pem(),
    );
    let served = TlsSource::load(&server, Endpoint::Quorum, true).unwrap();
    let watch = tokio::spawn(served.clone().watch());
    let port = Port {
        acceptor: Acceptor::tls(served, Gate::new(None), false),
        connector: Connector::tls(TlsSource::load(&client, Endpoint::Quorum, true).unwrap()),
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
    };
    assert_eq!(port.name().await, "CN=before,OU=Ops,O=Test");
    let (mut accepted, mut connected) = port.meet().await;

    let key = server.key_store.location.clone().unwrap();
    fs::write(&key, "garbage").unwrap();
    let begun = Instant::now();
    let place = key.display().to_string();
    while !log.holds("has changed but cannot be loaded", &place) {
        assert!(begun.elapsed() < PATIENCE, "nobody looks at the garbage");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(port.name().await, "CN=before,OU=Ops,O=Test");
    write_key(&key, &authority.member("after"));
    let begun = Instant::now();
    while port.name().await != "CN=after,OU=Ops,O=Test" {
        assert!(begun.elapsed() < PATIENCE, "the store is not loaded again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    accepted.write_all(b"still here").await.unwrap();
    accepted.flush().await.unwrap();
    let mut text = [0; 10];
    connected.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"still here");
    watch.abort();
}
