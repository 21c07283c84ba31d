//! The task behind a [`crate::Client`]: it moves bytes and time for a [`Machine`], which decides.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

use crate::chores::Chores;
use crate::error::{Error, LossReason, Result};
use crate::handshake::{Accepted, Handshake, RawConnection};
use crate::machine::{Hosts, Machine, Order};
use crate::options::Options;
use crate::wire::Wire;

type Link = Wire<transport::Stream>;

/// Opens the session that `options` ask for, trying each server once.
pub(crate) async fn connect(options: &Options, hosts: &mut Hosts) -> Result<RawConnection> {
    let mut last = Error::NoServers;
    for _ in 0..hosts.len() {
        match RawConnection::open(&hosts.current(), &options.handshake()).await {
            Ok(connection) => return Ok(connection),
            Err(error) if error.ends_session() => return Err(error),
            Err(error) => last = error,
        }
        hosts.handle_failed();
    }
    Err(last)
}

pub(crate) struct Driver {
    pub(crate) machine: Machine,
    pub(crate) chores: Arc<Chores>,
    /// What the machine's time counts from.
    pub(crate) origin: Instant,
    pub(crate) leaving: tokio::sync::oneshot::Receiver<()>,
}

impl Driver {
    /// Serves until the session ends, is left, or every handle is dropped.
    pub(crate) async fn run(self, first: RawConnection) {
        let Self {
            mut machine,
            chores,
            origin,
            leaving,
        } = self;
        let mut serving = Serving {
            machine: &mut machine,
            chores: &chores,
            origin,
        };
        tokio::select! {
            biased;
            Ok(()) = leaving => {}
            () = serving.run(first) => {}
        }
        machine.abandon();
    }
}

struct Serving<'a> {
    machine: &'a mut Machine,
    chores: &'a Chores,
    origin: Instant,
}

impl Serving<'_> {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    async fn run(&mut self, first: RawConnection) {
        let mut connected = Some(self.adopt(Ok(first)));
        while !self.machine.is_ended() {
            match connected.take().flatten() {
                Some(wire) => self.serve(wire).await,
                None => connected = Some(self.reconnect().await),
            }
        }
    }

    /// Tells the machine of a dial's outcome.
    fn adopt(&mut self, dialed: Result<RawConnection>) -> Option<Link> {
        let now = self.now();
        match dialed {
            Ok(RawConnection { mut wire, accepted }) => {
                let accepted: Result<Accepted> = Ok(accepted);
                self.machine.handle_dialed(accepted, wire.outbound(), now);
                Some(wire)
            }
            Err(error) => {
                self.machine.handle_dialed(Err(error), &mut Vec::new(), now);
                None
            }
        }
    }

    async fn serve(&mut self, mut wire: Link) {
        while self.machine.is_connected() {
            if let Err(reason) = self.step(&mut wire).await {
                let now = self.now();
                self.machine.handle_lost(&reason, now);
            }
        }
    }

    /// Does what is ready first in the order here, which is fixed: a simulation has to be able to
    /// repeat it. What the server sends comes first, and does not hold up the rest.
    async fn step(&mut self, wire: &mut Link) -> Result<(), LossReason> {
        let room = self.machine.has_room(wire.unsent());
        let deadline = self.machine.deadline().unwrap_or(Duration::MAX);
        tokio::select! {
            biased;
            turned = wire.turn() => {
                turned?;
                let now = self.origin.elapsed();
                while let Some((frame, out)) = wire.next_frame_and_outbound()? {
                    self.machine.handle_frame(frame, out, now)?;
                }
                if now >= deadline {
                    self.machine.handle_deadline(wire.outbound(), now)?;
                }
                self.machine.handle_chores(wire.outbound(), now);
                return self.take_commands(wire).await;
            }
            command = self.machine.inbox.recv(), if room => {
                let now = self.origin.elapsed();
                let Some(command) = command else {
                    return self.finish(wire).await;
                };
                self.machine.submit(command, wire.outbound(), now);
                return self.take_commands(wire).await;
            }
            () = self.chores.woken.notified() => {
                let now = self.origin.elapsed();
                self.machine.handle_chores(wire.outbound(), now);
            }
            () = tokio::time::sleep_until(at(self.origin, deadline)) => {
                let now = self.origin.elapsed();
                self.machine.handle_deadline(wire.outbound(), now)?;
            }
        }
        Ok(())
    }

    /// Sends the calls that are waiting, as far as there is room.
    async fn take_commands(&mut self, wire: &mut Link) -> Result<(), LossReason> {
        let now = self.now();
        while self.machine.is_connected() && self.machine.has_room(wire.unsent()) {
            match self.machine.inbox.try_recv() {
                Ok(command) => self.machine.submit(command, wire.outbound(), now),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return self.finish(wire).await,
            }
        }
        Ok(())
    }

    /// Every handle is gone without a close: what they left to be done is done, and the session is
    /// left to time out.
    async fn finish(&mut self, wire: &mut Link) -> Result<(), LossReason> {
        let now = self.now();
        self.machine.handle_chores(wire.outbound(), now);
        while self.machine.has_chores() {
            let deadline = self.machine.deadline().unwrap_or(Duration::MAX);
            tokio::select! {
                biased;
                turned = wire.turn() => {
                    turned?;
                    let now = self.origin.elapsed();
                    while let Some((frame, out)) = wire.next_frame_and_outbound()? {
                        self.machine.handle_frame(frame, out, now)?;
                    }
                }
                () = tokio::time::sleep_until(at(self.origin, deadline)) => {
                    let now = self.origin.elapsed();
                    self.machine.handle_deadline(wire.outbound(), now)?;
                }
            }
        }
        self.machine.abandon();
        Ok(())
    }

    async fn reconnect(&mut self) -> Option<Link> {
        let now = self.now();
        match self.machine.poll_order(now) {
            Some(Order::Dial { server, handshake }) => {
                let dialed = self.dial(&server, &handshake).await;
                self.adopt(dialed)
            }
            None => {
                self.pass_time().await;
                None
            }
        }
    }

    /// Dials, while chores and deadlines are seen to.
    async fn dial(&mut self, server: &Arc<str>, handshake: &Handshake) -> Result<RawConnection> {
        let mut dialing = pin!(RawConnection::open(server, handshake));
        loop {
            tokio::select! {
                biased;
                dialed = &mut dialing => return dialed,
                () = self.pass_time() => {}
            }
            if self.machine.is_ended() {
                let op = proto::OpCode::CreateSession;
                return Err(Error::Closed { op });
            }
        }
    }

    /// Waits, without a connection, for the next deadline or chore.
    async fn pass_time(&mut self) {
        let deadline = self.machine.deadline().unwrap_or(Duration::MAX);
        let mut nowhere = Vec::new();
        tokio::select! {
            biased;
            () = self.chores.woken.notified() => {
                let now = self.origin.elapsed();
                self.machine.handle_chores(&mut nowhere, now);
            }
            () = tokio::time::sleep_until(at(self.origin, deadline)) => {
                let now = self.origin.elapsed();
                // Without a connection there is none that could be dead.
                let _ = self.machine.handle_deadline(&mut nowhere, now);
            }
        }
    }
}

/// The moment, or a far one.
fn at(origin: Instant, moment: Duration) -> Instant {
    let far = || Instant::now() + FAR;
    origin.checked_add(moment).unwrap_or_else(far)
}

/// Beyond every deadline.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
