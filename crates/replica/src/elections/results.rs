//! Results of elections and their consequences for the role.

use crate::elections::{ElectionAction, ElectionEffect, Elections};
use crate::interface::effect::Effect;
use crate::interface::host::{Host, Turn};
use crate::interface::note::Note;
use crate::replica::Replica;
use crate::roles::Role;

impl<H: Host> Replica<H> {
    /// Calls the elections and executes their actions. Does nothing without an ensemble.
    pub(crate) fn with_elections(
        &mut self,
        turn: &mut Turn<'_, H>,
        handle: impl FnOnce(&mut Elections, i64, &mut Vec<ElectionAction>),
    ) {
        let Some(member) = &mut self.member else {
            return;
        };
        let mut actions = Vec::new();
        handle(&mut member.elections, turn.now.ms, &mut actions);
        for action in actions {
            self.carry_out_election(action, turn);
        }
    }

    fn carry_out_election(&mut self, action: ElectionAction, turn: &mut Turn<'_, H>) {
        match action {
            ElectionAction::Carry(ElectionEffect::QueryOracle) => self.query_oracle(turn),
            ElectionAction::Carry(effect) => turn.effect(Effect::Election(effect)),
            ElectionAction::Elected {
                state,
                vote,
                round,
                took_ms,
            } => {
                turn.note(Note::Elected { took_ms });
                if matches!(self.role, Role::Looking) {
                    self.take_role(state, vote.leader, turn);
                } else {
                    tracing::debug!(%round, "ignoring the result of an election that was cancelled");
                }
            }
            ElectionAction::ListSeen { from, list } => {
                let version = list.version;
                log_limiter::limited!(info, %from, %version, "another server has a newer member list");
                self.install_list(list, turn);
            }
            ElectionAction::SupporterLooks { sid } => {
                tracing::debug!(%sid, "a voter that elected this server is looking for a leader");
                self.with_leader(turn, |leader, now_ms, out| {
                    leader.handle_supporter_looks(now_ms, out);
                });
            }
        }
    }

    /// Starts looking for a leader.
    pub(crate) fn start_election(&mut self, turn: &mut Turn<'_, H>) {
        if let Some(member) = &self.member {
            let candidate = member.candidate();
            self.with_elections(turn, |elections, now_ms, out| {
                elections.start_election(candidate, now_ms, out);
            });
        }
    }

    pub(crate) fn elections_ms(&self) -> Option<i64> {
        self.member.as_ref()?.elections.deadline_ms()
    }

    pub(crate) fn handle_elections_deadline(&mut self, turn: &mut Turn<'_, H>) {
        if self
            .elections_ms()
            .is_some_and(|at_ms| at_ms <= turn.now.ms)
        {
            self.with_elections(turn, |elections, now_ms, out| {
                elections.handle_deadline(now_ms, out);
            });
        }
    }

    /// Handles the oracle's answer, both for the election and for the leader.
    pub(crate) fn handle_oracle(&mut self, grants: bool, turn: &mut Turn<'_, H>) {
        let member = self.member.as_mut();
        let asked_ms = member.and_then(|member| member.oracle_queried_ms.pop_front());
        let age_ms = asked_ms.map_or(0, |asked_ms| turn.now.ms - asked_ms);
        self.with_elections(turn, |elections, now_ms, out| {
            elections.handle_oracle(grants, now_ms, out);
        });
        self.handle_leaders_oracle(grants, age_ms, turn);
    }
}
