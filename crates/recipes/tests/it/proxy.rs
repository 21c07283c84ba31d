//! A way to a server that cuts a connection at one chosen request.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// When the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server never sees the request.
    BeforeSend,
    /// The server gets the request; whether it carries it out is open.
    AfterSend,
    /// The server has answered, and the client does not hear it.
    BeforeReply,
}

impl Cut {
    pub(crate) const ALL: [Self; 3] = [Self::BeforeSend, Self::AfterSend, Self::BeforeReply];
}

/// What is still to be done.
#[derive(Debug, Default)]
struct Plan {
    /// Which request, from 1, over all connections; handshakes and pings do not count.
    cut: Option<(usize, Cut)>,
    seen: usize,
    /// Whether no connection is let through after the cut.
    is_final: bool,
    /// Whether none is let through now.
    refuses: bool,
}

impl Plan {
    /// What is to be done about the next request.
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

/// The proxy; what goes through it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    is_open: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::<Mutex<Plan>>::default();
        let (is_open, open) = watch::channel(true);
        let accepting = tokio::spawn(accept(listener, server.to_owned(), Arc::clone(&plan), open));
        Self {
            address,
            plan,
            is_open,
            accepting,
        }
    }

    /// Cuts the connection at the request of this number, counted from now.
    pub(crate) fn cut_at(&self, number: usize, cut: Cut) {
        let mut plan = self.plan.lock();
        *plan = Plan {
            cut: Some((number, cut)),
            ..Plan::default()
        };
    }

    /// The same, and lets none through from then on until [`open`](Self::open).
    pub(crate) fn cut_for_good_at(&self, number: usize, cut: Cut) {
        self.cut_at(number, cut);
        self.plan.lock().is_final = true;
    }

    /// How many requests came since this was asked last.
    pub(crate) fn count(&self) -> usize {
        std::mem::take(&mut self.plan.lock().seen)
    }

    /// Whether the request came at which the connection was to be cut.
    pub(crate) fn has_cut(&self) -> bool {
        self.plan.lock().cut.is_none()
    }

    /// Cuts all connections and lets none through until [`open`](Self::open).
    pub(crate) fn close(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.plan.lock().refuses = false;
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
    plan: Arc<Mutex<Plan>>,
    open: watch::Receiver<bool>,
) {
    while let Ok((client, _)) = listener.accept().await {
        if !*open.borrow() || plan.lock().refuses {
            continue;
        }
        let (server, plan, mut open) = (server.clone(), Arc::clone(&plan), open.clone());
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else {
                return;
            };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            tokio::select! {
                () = carry(client, server, &plan) => {}
                _ = open.wait_for(|open| !*open) => {}
            }
        });
    }
}

/// Until either side ends, or the plan says so.
async fn carry(client: TcpStream, server: TcpStream, plan: &Mutex<Plan>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // The xid of the answer at which the connection is cut.
    let unheard = Mutex::new(None);
    tokio::select! {
        _ = forth(from_client, to_server, plan, &unheard) => {}
        _ = back(from_server, to_client, &unheard) => {}
    }
}

async fn forth(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &Mutex<Plan>,
    unheard: &Mutex<Option<i32>>,
) -> std::io::Result<()> {
    to.write_all(&frame(&mut from).await?).await?;
    loop {
        let request = frame(&mut from).await?;
        let xid = xid(&request);
        let cut = if xid == PING {
            None
        } else {
            plan.lock().next()
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
    unheard: &Mutex<Option<i32>>,
) -> std::io::Result<()> {
    to.write_all(&frame(&mut from).await?).await?;
    loop {
        let reply = frame(&mut from).await?;
        if *unheard.lock() == Some(xid(&reply)) {
            return Ok(());
        }
        to.write_all(&reply).await?;
    }
}

const PING: i32 = -2;

/// One frame with its length.
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
