//! Small HTTP/1.1 client that reports every deviation of an answer from the protocol.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// Largest body that a client reads.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Request of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &'static str, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the request line.
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    pub(crate) fn bytes(&self, server: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if self.header("host").is_none() {
            head.push_str(&format!("host: {server}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method != "GET" {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Status and headers of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_json(&self) -> bool {
        let content = self.header("content-type").unwrap_or_default();
        content.starts_with("application/json")
    }
}

/// Complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// Reason why an answer is missing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection was refused or ended.
    Ended(io::Error),
    /// The answer does not follow the protocol.
    Malformed(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Ended(error)
    }
}

/// Connection to an HTTP port.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: SocketAddr,
    pub(crate) stream: BufReader<TcpStream>,
    /// Whether the server has announced the end of the connection.
    pub(crate) is_over: bool,
}

impl Connection {
    /// Connects from a local address.
    pub(crate) async fn open(from: IpAddr, server: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let stream = BufReader::new(socket.connect(server).await?);
        Ok(Self {
            server,
            stream,
            is_over: false,
        })
    }

    pub(crate) async fn send(&mut self, request: &Request) -> io::Result<()> {
        self.write(&request.bytes(self.server)).await
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Answer, Fault> {
        self.send(request).await?;
        self.answer(request).await
    }

    /// Reads the whole answer to a request that was sent.
    pub(crate) async fn answer(&mut self, request: &Request) -> Result<Answer, Fault> {
        let head = self.head().await?;
        let mut body = Vec::new();
        if request.method != "HEAD" {
            let mut rest = Rest::of(&head)?;
            while let Some(piece) = self.piece(&mut rest).await? {
                body.extend_from_slice(&piece);
                if body.len() > BODY_BYTES_MAX {
                    return Err(Fault::Malformed("the body does not end".to_owned()));
                }
            }
        }
        Ok(Answer { head, body })
    }

    pub(crate) async fn head(&mut self) -> Result<Head, Fault> {
        let first = self.line().await?;
        let malformed = || Fault::Malformed(format!("status line {first:?}"));
        let status = first.strip_prefix("HTTP/1.1 ").ok_or_else(malformed)?;
        let status = status.get(..3).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(malformed)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(Fault::Malformed(format!("header {line:?}")));
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let head = Head { status, headers };
        self.is_over = head.header("connection") == Some("close");
        Ok(head)
    }

    /// Reads the next piece of a body. `None` is the end.
    pub(crate) async fn piece(&mut self, rest: &mut Rest) -> Result<Option<Vec<u8>>, Fault> {
        let left = match rest {
            Rest::Length(left) => std::mem::take(left),
            Rest::Chunks => {
                let line = self.line().await?;
                let Ok(length) = usize::from_str_radix(&line, 16) else {
                    return Err(Fault::Malformed(format!("length of a chunk: {line:?}")));
                };
                length
            }
        };
        if left > BODY_BYTES_MAX {
            return Err(Fault::Malformed(format!("{left} bytes")));
        }
        let mut piece = vec![0; left];
        self.stream.read_exact(&mut piece).await?;
        if *rest == Rest::Chunks {
            let line = self.line().await?;
            if !line.is_empty() {
                return Err(Fault::Malformed(format!("end of a chunk: {line:?}")));
            }
        }
        Ok((!piece.is_empty()).then_some(piece))
    }

    async fn line(&mut self) -> Result<String, Fault> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        if line.pop() != Some(b'\n') {
            return Err(Fault::Ended(io::ErrorKind::UnexpectedEof.into()));
        }
        if line.pop() != Some(b'\r') {
            return Err(Fault::Malformed(format!("line {line:?}")));
        }
        String::from_utf8(line).map_err(|error| Fault::Malformed(error.to_string()))
    }
}

/// Part of a body that was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Length(usize),
    Chunks,
}

impl Rest {
    pub(crate) fn of(head: &Head) -> Result<Self, Fault> {
        if matches!(head.status, 204 | 304) {
            return Ok(Self::Length(0));
        }
        if head.header("transfer-encoding") == Some("chunked") {
            return Ok(Self::Chunks);
        }
        let length = head.header("content-length");
        match length.map(str::parse) {
            Some(Ok(length)) => Ok(Self::Length(length)),
            _ => Err(Fault::Malformed(format!("length of the body: {length:?}"))),
        }
    }
}
