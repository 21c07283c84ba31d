//! HTTP as a probe or a script uses it: one request per connection, with the answer read to its
//! end.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use client::tls::Connector;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::launcher::Flavour;
use crate::secrets::search;

/// Time limit for an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// Headers in order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    /// Method, such as GET or POST.
    pub method: &'a str,
    /// Path and query, as they are sent.
    pub target: &'a str,
    /// Headers in addition to `Connection`, `Content-Length` and, unless it is listed, `Host`.
    pub headers: &'a [(&'a str, &'a str)],
    /// Body of a request that has one.
    pub body: Option<&'a [u8]>,
}

impl HttpAnswer {
    /// Returns the value of a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(':'));
        let mut answer = Self {
            status,
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
                .collect(),
            body: bytes[end + 4..].to_vec(),
        };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body)?;
        }
        Some(answer)
    }
}

/// Decodes a chunked body. Returns `None` if it is incomplete.
fn unchunked(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n")?;
        let len = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).ok()?, 16).ok()?;
        if len == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunks.get(end + 2..end + 2 + len)?);
        chunks = chunks.get(end + 2 + len + 2..)?;
    }
}

impl HttpRequest<'_> {
    /// Sends the request and returns the answer.
    ///
    /// # Errors
    /// If no server listens, or the answer is invalid.
    pub fn send(&self, port: u16) -> io::Result<HttpAnswer> {
        self.send_to((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Sends the request to another address of this machine.
    ///
    /// # Errors
    /// Under the conditions of [`send`](Self::send).
    pub fn send_to(&self, address: SocketAddr) -> io::Result<HttpAnswer> {
        let port = address.port();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(self.head(port).as_bytes())?;
        // A refusal may arrive, and the connection end, before the server has read the body.
        let _ = stream.write_all(self.body.unwrap_or_default());
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        self.take(port, &answer)
    }

    /// Sends the request over TLS.
    ///
    /// # Errors
    /// Under the conditions of [`send`](Self::send), and if one side refuses the other.
    pub fn send_by_tls(&self, port: u16, connector: &Connector) -> io::Result<HttpAnswer> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut answer = Vec::new();
        let exchange = async {
            let stream = net::TcpStream::connect(("127.0.0.1", port)).await?;
            let mut stream = connector.establish(stream, &["127.0.0.1"]).await?;
            stream.write_all(self.head(port).as_bytes()).await?;
            stream.write_all(self.body.unwrap_or_default()).await?;
            stream.flush().await?;
            stream.read_to_end(&mut answer).await
        };
        let limited = runtime.block_on(async { timeout(PATIENCE, exchange).await });
        limited.map_err(|_| io::ErrorKind::TimedOut)??;
        self.take(port, &answer)
    }

    fn head(&self, port: u16) -> String {
        let (method, target) = (self.method, self.target);
        let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        if !self.headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: 127.0.0.1:{port}\r\n"));
        }
        for (name, value) in self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = self.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        format!("{head}\r\n")
    }

    fn take(&self, port: u16, answer: &[u8]) -> io::Result<HttpAnswer> {
        if Flavour::under_test() == Flavour::Zoarium {
            let place = format!("the answer of port {port} to {}", self.target);
            search(&place, answer);
        }
        HttpAnswer::parse(answer).ok_or_else(|| io::Error::other("no HTTP answer"))
    }
}

/// Sends a plain GET. Panics without an answer.
pub fn http_get(port: u16, target: &str) -> HttpAnswer {
    let request = HttpRequest {
        method: "GET",
        target,
        headers: &[],
        body: None,
    };
    request.send(port).expect("an answer over HTTP")
}
