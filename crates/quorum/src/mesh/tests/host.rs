//! Mesh and a server's elections on a separate task.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use config::members::MemberRole;
use config::membership::Membership;
use election::{Candidate, Vote};
use proto::notification::PeerState;
use proto::{ElectionRound, Epoch, Sid};
use replica::elections::{ElectionAction, ElectionEffect, ElectionSettings, Elections};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::mesh::{BindError, Mesh, MeshEvent, MeshSettings, OracleFile};

/// Returns the time since the first call, in ms.
fn now_ms() -> i64 {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(ORIGIN.elapsed().as_millis()).unwrap()
}

/// Event of the elections or the mesh.
#[derive(Debug)]
pub(super) enum VoterEvent {
    Elected {
        state: PeerState,
        vote: Vote,
        round: ElectionRound,
    },
    ListSeen {
        list: Membership,
    },
    SupporterLooks {
        sid: Sid,
    },
    Failed {
        error: BindError,
    },
}

enum Order {
    Look(Candidate),
    EpochActive(Epoch),
    Appoint(PeerState, Vote),
    Configure(Membership, Option<Membership>, MemberRole),
    Stop,
}

/// Server that only takes part in elections.
pub(super) struct Voter {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// Initial state of a voter.
pub(super) struct VoterStart {
    pub(super) settings: MeshSettings,
    pub(super) election: election::Settings,
    pub(super) oracle: Option<OracleFile>,
    pub(super) list: Membership,
    pub(super) candidate: Candidate,
    pub(super) told: mpsc::UnboundedSender<VoterEvent>,
}

impl Voter {
    pub(super) fn start(start: VoterStart) -> Self {
        let settings = ElectionSettings {
            me: start.settings.me,
            election: start.election,
            multi_address: start.settings.multi_address,
            has_oracle: start.oracle.is_some(),
        };
        let elections = Elections::new(settings, start.list, None, start.candidate).unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let sink = Box::new(move |event| {
            let _ = sender.send(event);
        });
        let (orders, received) = mpsc::unbounded_channel();
        let (said, answers) = mpsc::unbounded_channel();
        let running = Running {
            elections,
            mesh: Mesh::start(start.settings, sink),
            oracle: start.oracle.map(|oracle| Arc::new(Mutex::new(oracle))),
            said,
            told: start.told,
        };
        let task = tokio::spawn(running.run(received, events, answers));
        Self { orders, task }
    }

    pub(super) fn start_election(&self, candidate: Candidate) {
        let _ = self.orders.send(Order::Look(candidate));
    }

    pub(super) fn epoch_active(&self, epoch: Epoch) {
        let _ = self.orders.send(Order::EpochActive(epoch));
    }

    pub(super) fn appoint(&self, state: PeerState, vote: Vote) {
        let _ = self.orders.send(Order::Appoint(state, vote));
    }

    pub(super) fn configure(
        &self,
        committed: Membership,
        proposed: Option<Membership>,
        role: MemberRole,
    ) {
        let _ = self
            .orders
            .send(Order::Configure(committed, proposed, role));
    }

    pub(super) async fn stop(mut self) {
        let _ = self.orders.send(Order::Stop);
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Voter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Running {
    elections: Elections,
    mesh: Mesh,
    oracle: Option<Arc<Mutex<OracleFile>>>,
    said: mpsc::UnboundedSender<bool>,
    told: mpsc::UnboundedSender<VoterEvent>,
}

impl Running {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut events: mpsc::UnboundedReceiver<MeshEvent>,
        mut answers: mpsc::UnboundedReceiver<bool>,
    ) {
        let mut out = Vec::new();
        self.elections.begin(&mut out);
        loop {
            self.carry_out(std::mem::take(&mut out));
            let deadline_ms = self.elections.deadline_ms().unwrap_or(i64::MAX);
            let pause_ms = deadline_ms.saturating_sub(now_ms());
            let pause = Duration::from_millis(u64::try_from(pause_ms).unwrap_or(0));
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Stop) | None => break,
                    Some(order) => self.order(order, &mut out),
                },
                Some(grants) = answers.recv() => {
                    self.elections.handle_oracle(grants, now_ms(), &mut out);
                }
                () = sleep(pause.min(Duration::from_secs(60))) => {
                    self.elections.handle_deadline(now_ms(), &mut out);
                }
                Some(event) = events.recv() => match event {
                    MeshEvent::Input { input, .. } => {
                        self.elections.handle(input, now_ms(), &mut out);
                    }
                    MeshEvent::Failed { error } => drop(self.told.send(VoterEvent::Failed { error })),
                },
            }
        }
        self.mesh.stop().await;
    }

    fn order(&mut self, order: Order, out: &mut Vec<ElectionAction>) {
        match order {
            Order::Look(candidate) => self.elections.start_election(candidate, now_ms(), out),
            Order::EpochActive(epoch) => self.elections.handle_epoch_active(epoch),
            Order::Appoint(state, vote) => self.elections.appoint(state, vote),
            Order::Configure(committed, proposed, role) => {
                let now_ms = now_ms();
                self.elections
                    .configure(committed, proposed, role, now_ms, out);
            }
            Order::Stop => {}
        }
    }

    fn carry_out(&mut self, actions: Vec<ElectionAction>) {
        for action in actions {
            let told = match action {
                ElectionAction::Carry(ElectionEffect::QueryOracle) => {
                    self.query_oracle();
                    continue;
                }
                ElectionAction::Carry(effect) => {
                    self.mesh.carry_out(effect);
                    continue;
                }
                ElectionAction::Elected {
                    state, vote, round, ..
                } => VoterEvent::Elected { state, vote, round },
                ElectionAction::ListSeen { list, .. } => VoterEvent::ListSeen { list },
                ElectionAction::SupporterLooks { sid } => VoterEvent::SupporterLooks { sid },
            };
            let _ = self.told.send(told);
        }
    }

    fn query_oracle(&self) {
        let (oracle, said) = (self.oracle.clone(), self.said.clone());
        tokio::spawn(async move {
            let grants = match oracle {
                Some(oracle) => oracle.lock().await.query().await,
                None => false,
            };
            let _ = said.send(grants);
        });
    }
}
