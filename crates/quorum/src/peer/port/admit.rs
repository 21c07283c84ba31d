//! Admission of learners: handshake, login, and the tasks of the connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use transport::{Accepting, Listener, ReservedDescriptors, SocketOptions, Stream, accept_each};
use zab::leader::LinkId;

use super::Port;
use super::link::{Link, discard};
use crate::limits;
use crate::peer::error::PeerError;
use crate::peer::event::ReadAhead;

impl Port {
    pub(super) async fn accept(self: Arc<Self>, socket: Arc<Listener>, term: u64) {
        let admit = |stream: TcpStream, peer| {
            if self.settings.acceptor.is_plain() && !self.settings.auth.is_on() {
                return self.admit(stream.into(), Vec::new(), peer, term);
            }
            let mut greetings = self.greetings.lock();
            // The end of a term ends the greetings of the term, so none may begin after it.
            if self.term.lock().number != term {
                return;
            }
            let greeting = self.runtime.spawn(self.clone().greet(stream, peer, term));
            let evicted = greetings.add(peer, greeting.abort_handle());
            drop(greetings);
            if let Some(peer) = evicted {
                log_limiter::limited!(in self.log_limiter => warn, %peer, "too many learners without a login, closing the oldest one");
            }
        };
        let accepting = Accepting {
            of: "learners",
            options: SocketOptions::default(),
            reserved_descriptors: ReservedDescriptors::ByMembers,
        };
        accept_each(&socket, accepting, admit).await;
    }

    /// Performs the TLS handshake, if any, whose duration and concurrency the acceptor limits. The
    /// learner then logs in.
    async fn greet(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, term: u64) {
        match self.settings.acceptor.establish(stream, peer).await {
            Ok(stream) => self.authenticate(stream, peer, term).await,
            Err(refused) => refused.log("learners", peer, &self.log_limiter),
        }
    }

    /// Performs the learner's login, if logins are configured, before the core is informed of the
    /// learner.
    async fn authenticate(self: &Arc<Self>, mut stream: Stream, peer: SocketAddr, term: u64) {
        let auth = &self.settings.auth;
        if !auth.is_on() {
            return self.admit(stream, Vec::new(), peer, term);
        }
        let admitted = timeout(self.settings.stall, auth.admit(&mut stream, Vec::new())).await;
        match admitted {
            Ok(Ok(ahead)) => self.admit(stream, ahead, peer, term),
            Ok(Err(error)) => log_limiter::limited!(warn, %peer, err = %error, "learner refused"),
            Err(_) => {
                log_limiter::limited!(warn, %peer, "learner refused: its login took too long");
            }
        }
    }

    /// Adds a connection, unless the term `number` is over. If there are too many connections, ends
    /// the oldest one whose learner has not introduced itself, because an honest learner does so
    /// within milliseconds. `ahead` has already been read from the stream.
    fn admit(self: &Arc<Self>, stream: Stream, ahead: Vec<u8>, peer: SocketAddr, number: u64) {
        let silent = self.term.lock().silent_if_full();
        if let Some(silent) = silent {
            self.end(&silent, PeerError::GivesWay);
        }
        let link = {
            let mut term = self.term.lock();
            if term.number != number {
                return;
            }
            if term.links.len() >= limits::LEARNER_LINKS_MAX {
                let max = limits::LEARNER_LINKS_MAX;
                log_limiter::limited!(warn, %peer, max, "learner refused: too many connections");
                return;
            }
            let link = Link::new(
                self.settings.port,
                LinkId(self.links_made.fetch_add(1, Ordering::Relaxed) + 1),
                peer,
            );
            term.links.insert(link.id, link.clone());
            link
        };
        tracing::debug!(link = link.id.0, %peer, "learner connected");
        (self.sink)(link.name.connected().into());
        let (input, output) = stream.into_split();
        let mut input = io::Cursor::new(ahead).chain(input);
        let (port, reading) = (self.clone(), link.clone());
        self.runtime.spawn(async move {
            let read_ahead = port.read_ahead.clone().unwrap_or_else(ReadAhead::new);
            let limits = port.settings.limits;
            let (sink, latest) = (&port.sink, &port.latest_requester);
            let read = reading.read(&mut input, limits, &read_ahead, sink, latest);
            match reading.while_open(read).await {
                Some(error) => port.end(&reading, error),
                None => {
                    let stall = port.settings.stall;
                    reading.unless_closed(stall, discard(&mut input)).await;
                }
            }
        });
        let (port, writing) = (self.clone(), link);
        self.runtime.spawn(async move {
            let _at_once = writing.outbox.write_at_once(output.direct_writer());
            let stall = port.settings.stall;
            let metrics = &port.settings.metrics;
            let write = writing.write(output, &port.state, stall, &port.sink, metrics);
            if let Some(Err(error)) = writing.unless_closed(stall, write).await {
                port.end(&writing, error);
            }
        });
    }
}
