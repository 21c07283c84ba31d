//! Server in memory that answers each request after one second of virtual time. The time that a
//! recipe takes is therefore the length of its longest chain of requests that wait for each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, Dial, Dialing, Duplex, Options};
use jute::{Decode, Encode, Reader};
use proto::connect::{ConnectResponse, ReplyHeader, RequestHeader};
use proto::request::PathWatchRequest;
use proto::response::{GetDataResponse, NamesResponse};
use proto::{ErrorCode, OpCode, SessionId, Stat, Zxid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Time from a request to its answer.
const DELAY: Duration = Duration::from_secs(1);
const SESSION_TIMEOUT: Duration = Duration::from_secs(3600);
/// Capacity of a connection's pipe, in bytes.
const PIPE_BYTES: usize = 1 << 20;

/// Server with fixed znodes. Its tests need a runtime with paused time.
#[derive(Debug, Default)]
pub(crate) struct SlowServer {
    /// Names of the children of each znode.
    nodes: BTreeMap<String, Vec<String>>,
    requests: AtomicUsize,
}

impl SlowServer {
    /// Creates a server with these znodes, each after its parent.
    pub(crate) fn new(paths: &[String]) -> Arc<Self> {
        let mut nodes = BTreeMap::<String, Vec<String>>::new();
        for path in paths {
            nodes.insert(path.clone(), Vec::new());
            let (parent, name) = path.rsplit_once('/').unwrap();
            if let Some(children) = nodes.get_mut(parent) {
                children.push(name.to_owned());
            }
        }
        Arc::new(Self {
            nodes,
            requests: AtomicUsize::new(0),
        })
    }

    pub(crate) async fn connect(self: &Arc<Self>) -> Client {
        let dialer = Memory(Arc::clone(self));
        let options = Options::new("memory").with_dialer(Arc::new(dialer));
        Client::connect(options).await.unwrap()
    }

    /// Returns the number of requests without handshakes and pings.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite) {
        let (mut from, mut to) = tokio::io::split(stream);
        let (answers, mut answering) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
        let reading = async {
            let mut is_connected = false;
            while let Ok(length) = from.read_u32().await {
                let mut request = vec![0; usize::try_from(length).unwrap()];
                from.read_exact(&mut request).await.unwrap();
                let answer = if std::mem::replace(&mut is_connected, true) {
                    self.answer(request)
                } else {
                    accepted()
                };
                answers.send((Instant::now() + DELAY, answer)).unwrap();
            }
        };
        let writing = async {
            while let Some((at, answer)) = answering.recv().await {
                tokio::time::sleep_until(at).await;
                let length = u32::try_from(answer.len()).unwrap();
                let written = to.write_u32(length).await.and(to.write_all(&answer).await);
                if written.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    }

    fn answer(&self, request: Vec<u8>) -> Vec<u8> {
        let mut input = Reader::new(request);
        let RequestHeader { xid, op } = RequestHeader::decode(&mut input).unwrap();
        let op = OpCode::from_i32(op).unwrap();
        if op != OpCode::Ping {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        let body = match op {
            OpCode::GetData | OpCode::GetChildren => {
                let request = PathWatchRequest::decode(&mut input).unwrap();
                let children = self.nodes.get(&*request.path.unwrap());
                children.map(|names| read(op, names))
            }
            // The error code is repeated here.
            OpCode::AddWatch => Some(0_i32.to_bytes().to_vec()),
            _ => Some(Vec::new()),
        };
        let err = body.as_ref().map_or(ErrorCode::NoNode.code(), |_| 0);
        let zxid = Zxid(1);
        let mut answer = ReplyHeader { xid, zxid, err }.to_bytes().to_vec();
        answer.extend(body.unwrap_or_default());
        answer
    }
}

fn accepted() -> Vec<u8> {
    let accepted = ConnectResponse {
        protocol_version: 0,
        timeout_ms: i32::try_from(SESSION_TIMEOUT.as_millis()).unwrap(),
        session_id: SessionId(1),
        password: client::Bytes::from_static(&[1; 16]).into(),
        read_only: Some(false),
    };
    accepted.to_bytes().to_vec()
}

fn read(op: OpCode, names: &[String]) -> Vec<u8> {
    if op == OpCode::GetChildren {
        let names = names.iter().map(|name| name.as_str().into()).collect();
        return NamesResponse { names }.to_bytes().to_vec();
    }
    let stat = Stat {
        num_children: i32::try_from(names.len()).unwrap(),
        ..Stat::default()
    };
    let data = Some(client::Bytes::new());
    GetDataResponse { data, stat }.to_bytes().to_vec()
}

#[derive(Debug)]
struct Memory(Arc<SlowServer>);

impl Dial for Memory {
    fn dial(&self, _: &str) -> Dialing {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(async move { server.serve(far).await });
            Ok(Box::new(near) as Box<dyn Duplex>)
        })
    }
}
