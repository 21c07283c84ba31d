//! Injection of the faults in a simulation of applications.

use std::time::Duration;

use bytes::Bytes;
use proto::SessionId;
use proto::learner::Touch;
use proto::request::WriteRequest;
use replica::session::Owner;
use replica::{ClientRequest, Input, LargeBytes, State, Ticket};

use super::simulation::{Application, Simulation};
use super::steps::{Event, OwnEvent, Steps};
use super::{Fault, SimulationError, Target};
use crate::queue::{MS, Micros};
use crate::servers::Servers;
use crate::world::World;

/// Pause between attempts to end a session while a leader is missing.
const RETRY: Micros = 50 * MS;

impl Simulation {
    pub(super) fn begin_fault(&mut self, number: usize) -> Result<(), SimulationError> {
        let fault = self.faults[number];
        let world = &mut self.servers.world;
        world.say("fault", || format!("{fault:?}"));
        let now = world.now();
        match fault {
            Fault::Pause { target, lasts } => {
                let until = now + micros(lasts);
                let stands_until = match target {
                    Target::Application(number) => &mut self.application(number)?.stands_until,
                    Target::Server(server) => {
                        let machine = self.servers.machines.get_mut(server);
                        let machine = machine.ok_or(SimulationError::NoTarget(target))?;
                        &mut machine.stands_until
                    }
                };
                *stands_until = until.max(*stands_until);
            }
            Fault::Partition { target, lasts } => {
                self.isolate(target)?;
                let event = Event::Own(OwnEvent::Rejoin { target });
                self.servers.world.queue.after(micros(lasts), event);
            }
            Fault::Restart { target, lasts } => match target {
                Target::Application(number) => {
                    self.application(number)?.stands_until = now + micros(lasts);
                    self.applications[number].kill(number, &mut self.servers.world);
                }
                Target::Server(server) => self.stop(server, lasts, Servers::kill)?,
            },
            Fault::PowerFailure { server, lasts } => {
                self.stop(server, lasts, Servers::lose_power)?;
            }
            Fault::Expiry { application } => {
                if let Some(session) = self.application(application)?.session {
                    self.expire(session);
                }
            }
        }
        Ok(())
    }

    fn application(&mut self, number: usize) -> Result<&mut Application, SimulationError> {
        let no_target = SimulationError::NoTarget(Target::Application(number));
        self.applications.get_mut(number).ok_or(no_target)
    }

    fn stop(
        &mut self,
        server: usize,
        lasts: Duration,
        stop: fn(&mut Servers<Steps>, usize),
    ) -> Result<(), SimulationError> {
        if server >= self.servers.machines.len() {
            return Err(SimulationError::NoTarget(Target::Server(server)));
        }
        stop(&mut self.servers, server);
        let event = Event::Start { server };
        self.servers.world.queue.after(micros(lasts), event);
        Ok(())
    }

    fn isolate(&mut self, target: Target) -> Result<(), SimulationError> {
        let network = &mut self.servers.world.network;
        match target {
            Target::Application(number) if number < self.applications.len() => {
                network.isolate(number);
            }
            Target::Server(server) if server < self.servers.machines.len() => {
                self.isolated.insert(server);
                for other in 0..self.servers.machines.len() {
                    network.cut(server, other);
                    network.cut(other, server);
                }
            }
            Target::Application(_) | Target::Server(_) => {
                return Err(SimulationError::NoTarget(target));
            }
        }
        Ok(())
    }

    pub(super) fn rejoin(&mut self, target: Target) {
        let World { network, queue, .. } = &mut self.servers.world;
        match target {
            Target::Application(number) => network.rejoin(number, queue),
            Target::Server(server) => {
                self.isolated.remove(&server);
                network.heal(queue);
                for server in &self.isolated {
                    for other in 0..self.servers.machines.len() {
                        network.cut(*server, other);
                        network.cut(other, *server);
                    }
                }
            }
        }
    }

    /// Makes the leader end a session. Without a leader, tries again later.
    pub(super) fn expire(&mut self, session: SessionId) {
        let leader = self.servers.leader();
        let leader = leader.and_then(|server| self.servers.process(server));
        let Some(leader) = leader else {
            let event = Event::Own(OwnEvent::Expire { session });
            return self.servers.world.queue.after(RETRY, event);
        };
        let Some(timeout_ms) = leader.host.state.tree().session_timeout_ms(session) else {
            return;
        };
        let (process, now_ms) = (leader.host.process, self.servers.world.now_ms());
        let close = ClientRequest {
            ticket: Ticket(0),
            session,
            cxid: 0,
            identities: [].into(),
            request: WriteRequest::CloseSession,
            body: Bytes::new(),
            large_bytes: LargeBytes::NONE,
            upgrade_ms: None,
        };
        self.servers.with(process, |server| {
            let touch = Touch {
                session,
                timeout_ms,
            };
            let mut sessions = server.host.state.sessions();
            let is_known = sessions.move_to(touch, Owner::THIS_SERVER, now_ms);
            drop(sessions);
            if is_known {
                server.host.inputs.push_back(Input::Requests(vec![close]));
            }
        });
    }
}

/// Converts a duration to the unit of the simulation.
pub(super) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX / 4)
}
