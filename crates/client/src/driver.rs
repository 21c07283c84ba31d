//! Task of a [`crate::Client`]. It moves bytes and reads the clock for a [`Machine`], which makes
//! all decisions.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

use crate::cleanup::CleanupQueue;
use crate::error::{Error, LossReason, Result};
use crate::handshake::{Accepted, Handshake, RawConnection};
use crate::machine::{HostOrder, Hosts, Machine};
use crate::options::Options;
use crate::wire::Wire;

type ServerWire = Wire<transport::Stream>;

/// Opens or continues the session that `options` describe. Tries each server once, and repeats this
/// until `options.wait` has passed. Also returns the time at which the successful attempt began.
pub(crate) async fn connect(
    options: &Options,
    hosts: &mut Hosts,
) -> Result<(RawConnection, Instant)> {
    let begun = Instant::now();
    let mut last = Error::NoServers;
    loop {
        let mut pause = Duration::ZERO;
        for _ in 0..hosts.len() {
            let opened = Instant::now();
            match RawConnection::open(&hosts.current(), &options.handshake()).await {
                Ok(connection) => return Ok((connection, opened)),
                Err(error) if error.ends_session() => return Err(error),
                Err(error) => last = error,
            }
            pause = hosts.handle_failed();
        }
        if hosts.len() == 0 || begun.elapsed() + pause >= options.wait {
            return Err(last);
        }
        tokio::time::sleep(pause).await;
    }
}

pub(crate) struct Driver {
    pub(crate) machine: Machine,
    pub(crate) cleanups: Arc<CleanupQueue>,
    /// Origin of the machine's clock.
    pub(crate) origin: Instant,
    pub(crate) leaving: tokio::sync::oneshot::Receiver<()>,
}

impl Driver {
    /// Runs the session until it ends, is handed over, or has no handles left.
    pub(crate) async fn run(self, first: RawConnection) {
        let Self {
            mut machine,
            cleanups,
            origin,
            leaving,
        } = self;
        let mut serving = Serving {
            machine: &mut machine,
            cleanups: &cleanups,
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
    cleanups: &'a CleanupQueue,
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

    /// Passes the result of a dial to the machine.
    fn adopt(&mut self, dialed: Result<RawConnection>) -> Option<ServerWire> {
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

    async fn serve(&mut self, mut wire: ServerWire) {
        while self.machine.is_connected() {
            if let Err(reason) = self.step(&mut wire).await {
                let now = self.now();
                self.machine.handle_lost(&reason, now);
            }
        }
    }

    /// Waits for data from the server, a call, background work or the deadline, and handles it. The
    /// order of the branches is fixed to make simulations repeatable. The first branch handles data
    /// and then all other work, so data never delays this work.
    async fn step(&mut self, wire: &mut ServerWire) -> Result<(), LossReason> {
        self.machine.leave_removed_server()?;
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
                self.machine.handle_new_servers();
                self.machine.handle_cleanups(wire.outbound(), now);
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
            () = self.cleanups.woken.notified() => {
                let now = self.origin.elapsed();
                self.machine.handle_new_servers();
                self.machine.handle_cleanups(wire.outbound(), now);
            }
            () = tokio::time::sleep_until(at(self.origin, deadline)) => {
                let now = self.origin.elapsed();
                self.machine.handle_deadline(wire.outbound(), now)?;
            }
        }
        Ok(())
    }

    /// Sends the waiting calls while the machine has room for them.
    async fn take_commands(&mut self, wire: &mut ServerWire) -> Result<(), LossReason> {
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

    /// Finishes after the last handle has been dropped without a close. Executes the remaining
    /// background work, and lets the session time out.
    async fn finish(&mut self, wire: &mut ServerWire) -> Result<(), LossReason> {
        let now = self.now();
        self.machine.handle_cleanups(wire.outbound(), now);
        while self.machine.has_cleanups() {
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

    async fn reconnect(&mut self) -> Option<ServerWire> {
        let now = self.now();
        match self.machine.poll_order(now) {
            Some(HostOrder::Dial { server, handshake }) => {
                let dialed = self.dial(&server, &handshake).await;
                self.adopt(dialed)
            }
            None => {
                self.pass_time().await;
                None
            }
        }
    }

    /// Connects to a server, and meanwhile handles background work and deadlines.
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

    /// Waits for background work or the next deadline while there is no connection, and handles it.
    async fn pass_time(&mut self) {
        let deadline = self.machine.deadline().unwrap_or(Duration::MAX);
        let mut nowhere = Vec::new();
        tokio::select! {
            biased;
            () = self.cleanups.woken.notified() => {
                let now = self.origin.elapsed();
                self.machine.handle_cleanups(&mut nowhere, now);
            }
            () = tokio::time::sleep_until(at(self.origin, deadline)) => {
                let now = self.origin.elapsed();
                // The only error is a dead connection, which is impossible without a connection.
                let _ = self.machine.handle_deadline(&mut nowhere, now);
            }
        }
    }
}

/// Returns the instant of `moment`, or an instant in the far future if `moment` is too large.
fn at(origin: Instant, moment: Duration) -> Instant {
    let far = || Instant::now() + FAR;
    origin.checked_add(moment).unwrap_or_else(far)
}

/// Duration that is longer than every wait for a deadline.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
