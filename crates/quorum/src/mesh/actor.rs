//! Task that owns the election connections. It passes inputs to the core, and executes the core's
//! effects.

use std::sync::Arc;

use log_limiter::LogLimiter;
use proto::hello::Endpoint;
use replica::elections::{ElectionEffect, ElectionInput};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::connections::{Connections, UndecidedConnection};
use super::dial::DialRequest;
use super::event::{BindError, InputPermit, MeshEvent, MeshSink};
use super::input::{Input, ListenerContext};
use super::limits::INPUTS_MAX;
use super::listener;
use super::settings::MeshSettings;

/// Message from the handle.
#[derive(Debug)]
pub(super) enum MeshCommand {
    Carry(ElectionEffect),
    #[cfg(test)]
    Stop,
}

pub(super) struct Actor {
    settings: Arc<MeshSettings>,
    connections: Connections,
    orders: mpsc::UnboundedReceiver<MeshCommand>,
    inputs: mpsc::Receiver<Input>,
    /// Permits that limit the number of inputs that the core has not handled yet. Further inputs
    /// wait in the channel.
    permits: Arc<Semaphore>,
    context: ListenerContext,
    listeners: JoinSet<BindError>,
    sink: MeshSink,
}

impl Actor {
    pub(super) fn new(
        settings: MeshSettings,
        sink: MeshSink,
        orders: mpsc::UnboundedReceiver<MeshCommand>,
    ) -> Self {
        let settings = Arc::new(settings);
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let context = ListenerContext {
            settings: settings.clone(),
            inputs: sender,
            log_limiter: Arc::new(LogLimiter::of("election port")),
        };
        Self {
            connections: Connections::new(context.clone()),
            orders,
            inputs,
            permits: Arc::new(Semaphore::new(INPUTS_MAX)),
            context,
            settings,
            listeners: JoinSet::new(),
            sink,
        }
    }

    /// Runs until it is stopped or the handle is dropped.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    #[cfg(test)]
                    Some(MeshCommand::Stop) => break,
                    None => break,
                    Some(MeshCommand::Carry(effect)) => self.carry_out(effect).await,
                },
                // This branch receives an input only if the core can accept it.
                taken = next_input(&self.permits, &mut self.inputs) => {
                    if let Some((input, permit)) = taken {
                        self.handle_input(input, permit);
                    }
                }
                () = self.connections.reap() => {}
                Some(ended) = self.listeners.join_next(), if !self.listeners.is_empty() => {
                    self.handle_listener_end(ended.ok());
                }
            }
        }
        self.listeners.shutdown().await;
        self.connections.shutdown().await;
    }

    async fn carry_out(&mut self, effect: ElectionEffect) {
        match effect {
            ElectionEffect::Listen(own) => {
                self.listeners.shutdown().await;
                self.listen(&own);
            }
            ElectionEffect::Dial {
                sid,
                at,
                own,
                is_member,
            } => self.connections.dial(DialRequest {
                sid,
                at,
                own,
                is_member,
                settings: self.settings.clone(),
            }),
            ElectionEffect::Keep { connection, sid } => self.connections.keep(connection, sid),
            ElectionEffect::Close { connection, reason } => {
                self.connections.close(connection, reason);
            }
            ElectionEffect::Write {
                connection,
                notification,
            } => self.connections.write(connection, notification),
            // The owner of the mesh queries the oracle, because this does not use a connection.
            ElectionEffect::QueryOracle => {}
        }
    }

    fn handle_input(&mut self, input: Input, permit: InputPermit) {
        let input = match input {
            Input::Hello {
                stream,
                peer,
                hello,
                rest,
            } => {
                tracing::debug!(%peer, sid = %hello.sid, "election connection");
                let peer = Some(peer);
                let connection =
                    self.connections
                        .add_undecided(UndecidedConnection { stream, peer, rest });
                ElectionInput::Hello { connection, hello }
            }
            Input::Dialled {
                sid,
                result: Ok(stream),
                ..
            } => {
                self.connections.forget_unreachable(sid);
                let (peer, rest) = (None, Vec::new());
                let connection =
                    self.connections
                        .add_undecided(UndecidedConnection { stream, peer, rest });
                ElectionInput::Dialled { sid, connection }
            }
            Input::Dialled {
                sid,
                is_member,
                result: Err(error),
            } => {
                if is_member {
                    self.connections.log_unreachable(sid, &error);
                }
                let is_refusal = error.is_refusal();
                ElectionInput::NotReached { sid, is_refusal }
            }
            Input::ReceivedNotification {
                connection,
                notification,
            } => ElectionInput::ReceivedNotification {
                connection,
                notification,
            },
            Input::Closed { connection, end } => {
                self.connections.handle_end(connection, &end);
                ElectionInput::Closed { connection }
            }
        };
        (self.sink)(MeshEvent::Input { input, permit });
    }

    fn listen(&mut self, own: &[Endpoint]) {
        for place in listener::listen_addresses(own, self.settings.listen_on_all_ips) {
            self.listeners
                .spawn(listener::listen(place, self.context.clone()));
        }
    }

    /// Reports a listener that could not bind its address. The server fails only if no listener is
    /// left.
    fn handle_listener_end(&mut self, ended: Option<BindError>) {
        let Some(error) = ended else {
            return;
        };
        tracing::error!(err = %error, "cannot bind the election port");
        if self.listeners.is_empty() {
            (self.sink)(MeshEvent::Failed { error });
        }
    }
}

/// Returns the next input and the permit to send it to the core.
async fn next_input(
    permits: &Arc<Semaphore>,
    inputs: &mut mpsc::Receiver<Input>,
) -> Option<(Input, InputPermit)> {
    // The semaphore is never closed, so a permit is always returned.
    let permit = permits.clone().acquire_owned().await.ok()?;
    let input = inputs.recv().await?;
    Some((input, permit.into()))
}
