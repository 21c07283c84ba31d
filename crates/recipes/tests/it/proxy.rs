//! Proxy for a server that cuts a connection at one chosen request.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// Time at which the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server never receives the request.
    BeforeSend,
    /// The server receives the request. It may or may not execute it.
    AfterSend,
    /// The server has answered, but the client does not receive the answer.
    BeforeReply,
}

impl Cut {
    pub(crate) const ALL: [Self; 3] = [Self::BeforeSend, Self::AfterSend, Self::BeforeReply];
}

/// Pending actions.
#[derive(Debug, Default)]
struct Plan {
    /// Number of the request to cut, from 1, over all connections. Handshakes and pings are not
    /// counted.
    cut: Option<(usize, Cut)>,
    /// Number of the request to hold until it is released.
    hold: Option<usize>,
    is_holding: bool,
    seen: usize,
    /// Number of events that servers have sent.
    notifications: usize,
    /// Whether the proxy refuses all connections after the cut.
    is_final: bool,
    /// Whether the proxy refuses all connections now.
    refuses: bool,
}

#[derive(Debug, Default)]
struct Rules {
    plan: Mutex<Plan>,
    let_pass: Notify,
}

impl Rules {
    /// Waits while the next request is held, and returns the cut for the request, if any.
    async fn next(&self) -> Option<Cut> {
        let (cut, is_held) = {
            let mut plan = self.plan.lock();
            let cut = plan.next();
            plan.is_holding = plan.hold == Some(plan.seen);
            (cut, plan.is_holding)
        };
        if is_held {
            self.let_pass.notified().await;
        }
        cut
    }
}

impl Plan {
    fn next(&mut self) -> Option<Cut> {
        self.seen += 1;
        let (at, cut) = self.cut?;
        if self.seen != at {
            return None;
        }
        self.cut = None;
        self.refuses = self.is_final;
        Some(cut)
    }
}

/// Proxy for a server. Dropping it ends its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    rules: Arc<Rules>,
    is_open: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let rules = Arc::<Rules>::default();
        let (is_open, open) = watch::channel(true);
        let accepting = tokio::spawn(accept(
            listener,
            server.to_owned(),
            Arc::clone(&rules),
            open,
        ));
        Self {
            address,
            rules,
            is_open,
            accepting,
        }
    }

    /// Cuts the connection at this request, counting from now.
    pub(crate) fn cut_at(&self, number: usize, cut: Cut) {
        *self.rules.plan.lock() = Plan {
            cut: Some((number, cut)),
            ..Plan::default()
        };
    }

    /// Cuts the connection at this request, counting from now, and refuses connections until
    /// [`open`](Self::open).
    pub(crate) fn cut_for_good_at(&self, number: usize, cut: Cut) {
        self.cut_at(number, cut);
        self.rules.plan.lock().is_final = true;
    }

    /// Holds this request, counting from now, and all later data on its connection, until
    /// [`let_pass`](Self::let_pass).
    pub(crate) fn hold_at(&self, number: usize) {
        *self.rules.plan.lock() = Plan {
            hold: Some(number),
            ..Plan::default()
        };
    }

    /// Returns whether the request to be held has arrived.
    pub(crate) fn is_holding(&self) -> bool {
        self.rules.plan.lock().is_holding
    }

    pub(crate) fn let_pass(&self) {
        self.rules.plan.lock().is_holding = false;
        self.rules.let_pass.notify_one();
    }

    /// Returns the number of requests since the last call.
    pub(crate) fn count(&self) -> usize {
        std::mem::take(&mut self.rules.plan.lock().seen)
    }

    /// Returns the number of requests so far, without a new beginning.
    pub(crate) fn seen(&self) -> usize {
        self.rules.plan.lock().seen
    }

    /// Returns the number of events of watches since the last call.
    pub(crate) fn count_notifications(&self) -> usize {
        std::mem::take(&mut self.rules.plan.lock().notifications)
    }

    /// Returns whether the request to be cut has arrived.
    pub(crate) fn has_cut(&self) -> bool {
        self.rules.plan.lock().cut.is_none()
    }

    /// Cuts all connections and refuses new ones until [`open`](Self::open).
    pub(crate) fn close(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.rules.plan.lock().refuses = false;
        self.is_open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    rules: Arc<Rules>,
    open: watch::Receiver<bool>,
) {
    while let Ok((client, _)) = listener.accept().await {
        if !*open.borrow() || rules.plan.lock().refuses {
            continue;
        }
        let (server, rules, mut open) = (server.clone(), Arc::clone(&rules), open.clone());
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else {
                return;
            };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            tokio::select! {
                () = carry(client, server, &rules) => {}
                _ = open.wait_for(|open| !*open) => {}
            }
        });
    }
}

/// Transfers data until either side ends or the plan cuts the connection.
async fn carry(client: TcpStream, server: TcpStream, rules: &Rules) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Xid of the answer at which the connection is cut.
    let unheard = Mutex::new(None);
    tokio::select! {
        _ = forth(from_client, to_server, rules, &unheard) => {}
        _ = back(from_server, to_client, rules, &unheard) => {}
    }
}

async fn forth(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    rules: &Rules,
    unheard: &Mutex<Option<i32>>,
) -> std::io::Result<()> {
    to.write_all(&frame(&mut from).await?).await?;
    loop {
        let request = frame(&mut from).await?;
        let xid = xid(&request);
        let cut = if xid == PING {
            None
        } else {
            rules.next().await
        };
        match cut {
            Some(Cut::BeforeSend) => return Ok(()),
            Some(Cut::BeforeReply) => *unheard.lock() = Some(xid),
            Some(Cut::AfterSend) | None => {}
        }
        to.write_all(&request).await?;
        if cut == Some(Cut::AfterSend) {
            return Ok(());
        }
    }
}

async fn back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    rules: &Rules,
    unheard: &Mutex<Option<i32>>,
) -> std::io::Result<()> {
    to.write_all(&frame(&mut from).await?).await?;
    loop {
        let reply = frame(&mut from).await?;
        if *unheard.lock() == Some(xid(&reply)) {
            return Ok(());
        }
        rules.plan.lock().notifications += usize::from(xid(&reply) == NOTIFICATION);
        to.write_all(&reply).await?;
    }
}

const NOTIFICATION: i32 = -1;
const PING: i32 = -2;

/// Reads one frame, including its length.
async fn frame(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let len = from.read_u32().await?;
    let mut frame = len.to_be_bytes().to_vec();
    frame.resize(4 + usize::try_from(len).unwrap(), 0);
    from.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}

fn xid(frame: &[u8]) -> i32 {
    i32::from_be_bytes(frame[4..8].try_into().unwrap())
}
