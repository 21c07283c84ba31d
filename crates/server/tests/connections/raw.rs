//! A server for one test, and a client that sends any bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zoarium_server::Server;

/// Timeout longer than any event here takes; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The fields xid, zxid, err and body of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) err: i32,
    pub(crate) body: Vec<u8>,
}

/// A running server on a new directory.
pub(crate) struct TestServer {
    runtime: Runtime,
    server: Option<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) directory: Arc<TempDir>,
}

impl TestServer {
    /// Starts a server with these lines of zoo.cfg.
    pub(crate) fn start(lines: &str) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), lines)
    }

    pub(crate) fn start_in(directory: Arc<TempDir>, lines: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let config = config(directory.path(), lines);
        let server = runtime.block_on(Server::start(Arc::new(config))).unwrap();
        let address = server.started().client_address.unwrap();
        Self {
            runtime,
            server: Some(server),
            address,
            directory,
        }
    }

    pub(crate) fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }

    /// Opens a connection with a new session.
    pub(crate) fn session(&self) -> Raw {
        let mut raw = self.connect();
        raw.handshake(0, &[0; 16]);
        raw
    }

    /// Stops as on SIGTERM; the directory stays.
    pub(crate) fn stop(mut self) -> Arc<TempDir> {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
        self.directory.clone()
    }
}

/// Returns a configuration with port 0, for which the system chooses a free port.
pub(crate) fn config(directory: &Path, lines: &str) -> Config {
    let data = directory.display();
    let text = format!(
        "dataDir={data}\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\npreAllocSize=64\ntickTime=200\n{lines}"
    );
    let raw = RawConfig::parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap();
    Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).unwrap()
}

/// A client connection whose every byte the test controls.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    next_xid: i32,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            session: 0,
            password: Vec::new(),
            next_xid: 1,
        }
    }

    /// Sends a handshake and reads the answer. Returns the session, or 0 if it is refused.
    pub(crate) fn handshake(&mut self, session: i64, password: &[u8]) -> i64 {
        let mut body = vec![0; 12];
        body.extend(4000i32.to_be_bytes());
        body.extend(session.to_be_bytes());
        put_buffer(&mut body, password);
        body.push(0);
        self.send_frame(&body);
        let answer = self.frame().expect("an answer to the handshake");
        self.session = i64::from_be_bytes(answer[8..16].try_into().unwrap());
        self.password = answer[20..36].to_vec();
        self.session
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn send_frame(&mut self, body: &[u8]) {
        let mut frame = i32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(body);
        self.send(&frame);
    }

    /// Sends a request. Returns its xid.
    pub(crate) fn request(&mut self, op: i32, record: &[u8]) -> i32 {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.send_frame(&[&xid.to_be_bytes()[..], &op.to_be_bytes(), record].concat());
        xid
    }

    /// Sends a request and reads the next frame as its reply.
    pub(crate) fn call(&mut self, op: i32, record: &[u8]) -> Reply {
        let xid = self.request(op, record);
        let reply = self.reply().expect("a reply");
        assert_eq!(reply.xid, xid);
        reply
    }

    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let frame = self.frame()?;
        Some(Reply {
            xid: i32::from_be_bytes(frame[..4].try_into().unwrap()),
            zxid: i64::from_be_bytes(frame[4..12].try_into().unwrap()),
            err: i32::from_be_bytes(frame[12..16].try_into().unwrap()),
            body: frame[16..].to_vec(),
        })
    }

    /// Reads the next frame; `None` once the server has closed the connection.
    pub(crate) fn frame(&mut self) -> Option<Vec<u8>> {
        let mut len = [0; 4];
        if !self.fill(&mut len) {
            return None;
        }
        let mut body = vec![0; u32::from_be_bytes(len) as usize];
        self.fill(&mut body).then_some(body)
    }

    /// Returns whether the server closes the connection without sending another byte.
    pub(crate) fn is_closed_in_silence(&mut self) -> bool {
        !self.fill(&mut [0])
    }

    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) => match error.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => false,
                _ => panic!("{error} while waiting for the server"),
            },
        }
    }
}

pub(crate) fn put_buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
    out.extend(bytes);
}

/// Opcodes of these tests.
pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const PING: i32 = 11;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const ADD_WATCH: i32 = 106;
    pub(crate) const CLOSE: i32 = -11;
}

/// Encodes a create with an open ACL.
pub(crate) fn create(path: &str, data: &[u8], flags: i32) -> Vec<u8> {
    let mut out = Vec::new();
    put_buffer(&mut out, path.as_bytes());
    put_buffer(&mut out, data);
    out.extend(1i32.to_be_bytes());
    out.extend(31i32.to_be_bytes());
    put_buffer(&mut out, b"world");
    put_buffer(&mut out, b"anyone");
    out.extend(flags.to_be_bytes());
    out
}

/// Encodes an exists or getData without a watch.
pub(crate) fn path(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_buffer(&mut out, path.as_bytes());
    out.push(0);
    out
}

/// Encodes a setData for any version.
pub(crate) fn set(path: &str, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_buffer(&mut out, path.as_bytes());
    put_buffer(&mut out, data);
    out.extend((-1i32).to_be_bytes());
    out
}
