//! Carries out what the replica decides, on the simulated world.

use std::collections::VecDeque;
use std::sync::Arc;

use hosting::{
    CarryingOut, Delivering, Registry, ServerState, ToAnswer, answer_sync, carry_out_effect,
    deliver,
};
use proto::Zxid;
use replica::{Applied, DiskOrder, Effect, Host, Input, Note, State, Ticket};
use tree::Tree;
use zab::Record;

use super::boot::Birth;
use super::clients::Connection;
use super::disk::DiskWork;
use super::members::Members;
use crate::lent::LentWorld;
use crate::observed::Observed;
use crate::world::World;

pub(crate) struct SimHost {
    pub(crate) world: LentWorld,
    pub(crate) state: Arc<ServerState>,
    /// What the replica is told next.
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) disk: DiskWork,
    pub(crate) members: Members,
    pub(crate) clients: Registry<Connection>,
    pub(crate) observed: Observed,
    /// Why the process must end.
    pub(crate) ended: Option<String>,
}

impl SimHost {
    pub(super) fn new(
        birth: Birth,
        state: Arc<ServerState>,
        disk: DiskWork,
        world: &World,
    ) -> Self {
        let end = state.tree().last_zxid();
        Self {
            world: LentWorld::new(birth.index, birth.life, &world.plan),
            state,
            inputs: VecDeque::new(),
            disk,
            members: Members::default(),
            clients: Registry::default(),
            observed: Observed::new(birth.index, end, &world.plan),
            ended: None,
        }
    }
}

impl Host for SimHost {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        if self.ended.is_none() {
            self.show_effect(&effect);
            carry_out_effect(self, effect);
        }
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        if let Some(connection) = self.clients.of(origin) {
            self.answer(tree, &connection, ToAnswer::LeftOver);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        self.observed.applied(&applied, tree, &mut self.world);
        let origin = applied.origin.and_then(|origin| self.clients.of(origin));
        deliver(self, &mut Vec::new(), tree, applied, origin.as_ref());
    }

    fn established(&mut self, last: Zxid) {
        self.observed.established(last, &mut self.world);
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.clients.of(ticket) {
            answer_sync(self, tree, &connection);
        }
    }

    fn tree_released(&mut self) {}

    fn note(&mut self, note: Note<'_>) {
        self.observed.note(&note, &mut self.world);
    }
}

/// It has no places for requests, and its operators look elsewhere.
impl CarryingOut for SimHost {
    type Connection = Connection;
    type Links = Self;

    fn registry(&self) -> &Registry<Connection> {
        &self.clients
    }

    fn links(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn append(&mut self, record: Record) {
        self.disk.queue.group.push(record);
    }

    fn flush_log(&mut self) {
        self.start_order();
    }

    fn order(&mut self, order: DiskOrder) {
        self.disk.queue.order(order, Vec::new);
        self.start_order();
    }
}
