//! Timeouts of a leader: pings, silent learners, late acknowledgements, and the loss of a quorum.

use proto::leader::LeaderPacket;
use proto::{Sid, Zxid};

use super::link::LinkState;
use super::{Action, Leader, LinkFault, LinkId, Phase, StepDown};
use crate::learner::LearnerKind;

impl Leader {
    /// Returns the time at which to call [`Leader::handle_deadline`], ms; `None` if nothing is due.
    pub fn deadline_ms(&self) -> Option<i64> {
        let own = match self.phase {
            Phase::Down => return None,
            Phase::Broadcasting if self.is_standalone => return None,
            // The disk is working on a request. The host reports success or failure.
            Phase::Promising => None,
            Phase::Broadcasting => Some(self.ping_ms()),
            Phase::Discovering { .. }
            | Phase::CollectingEpochAcks { .. }
            | Phase::Synchronising { .. } => Some(self.settings.init_ms()),
        };
        let own = own.map(|wait_ms| self.phase_since_ms.saturating_add(wait_ms));
        let links = self
            .links
            .values()
            .filter_map(|link| self.link_deadline_ms(link));
        links.chain(own).min()
    }

    /// Handles the time of [`Leader::deadline_ms`]. A call at any other time is harmless.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.drop_silent_links(now_ms, out);
        let waited_ms = now_ms.saturating_sub(self.phase_since_ms);
        let is_over = waited_ms >= self.settings.init_ms();
        match self.phase {
            Phase::Discovering { .. } if is_over => self.step_down(StepDown::NoEpochQuorum, out),
            Phase::CollectingEpochAcks { .. } if is_over => {
                self.step_down(StepDown::NoEpochAckQuorum, out);
            }
            Phase::Synchronising { .. } if is_over => {
                self.step_down(StepDown::NoNewLeaderQuorum, out);
            }
            Phase::Broadcasting if waited_ms >= self.ping_ms() => {
                self.phase_since_ms = now_ms;
                self.handle_half_tick(now_ms, out);
            }
            _ => {}
        }
    }

    /// Handles the report that a voter that elected this server is looking for a leader again.
    /// Steps down if the wait for a quorum has lasted longer than
    /// [`epoch_wait_max_ms`](crate::Settings::epoch_wait_max_ms).
    ///
    /// Source: Leader.reportLookingSid.
    pub fn handle_supporter_looks(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let waited_ms = now_ms.saturating_sub(self.phase_since_ms);
        let max_ms = self.settings.epoch_wait_max_ms;
        let is_waiting = matches!(self.phase, Phase::Discovering { .. });
        if is_waiting && max_ms.is_some_and(|max_ms| waited_ms > max_ms) {
            self.step_down(StepDown::SupporterLooks, out);
        }
    }

    fn handle_half_tick(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.pings = self.pings.wrapping_add(1);
        if self.pings.is_multiple_of(2) && !self.is_connected_to_quorum() {
            return self.step_down(StepDown::LostQuorum, out);
        }
        self.end_comparison_if_due(now_ms, out);
        for (link, zxid, lag_ms) in self.lagging(now_ms) {
            self.close(link, LinkFault::AckLag { zxid, lag_ms }, out);
        }
        let zxid = self.proposals.last_proposed();
        for (to, link) in &self.links {
            if link.is_forwarding() && link.state != LinkState::SendingSnapshot {
                let packet = LeaderPacket::Ping { zxid };
                out.push(Action::Send { to: *to, packet });
            }
        }
    }

    /// Returns whether a quorum is connected. Links that were silent too long have already been
    /// removed.
    fn is_connected_to_quorum(&self) -> bool {
        let is_linked = |sid: Sid| {
            let mut links = self.links.values();
            links.any(|link| link.sid == Some(sid) && link.kind == LearnerKind::Follower)
        };
        let is_here = |sid| sid == self.sid || is_linked(sid);
        // A stale grant is enough here, because it only lets this server keep leading and querying
        // the oracle, without a decision.
        self.is_quorum(&is_here) || (self.oracle_grants && self.may_be_alone(&is_here))
    }

    fn lagging(&self, now_ms: i64) -> Vec<(LinkId, Zxid, i64)> {
        let broadcasting = self.links.iter();
        let broadcasting = broadcasting.filter(|(_, link)| link.state == LinkState::Broadcasting);
        let owed = broadcasting.filter_map(|(id, link)| {
            let (zxid, lag_ms) = link.lag.oldest_owed_ack(now_ms)?;
            (lag_ms > self.settings.sync_ms()).then_some((*id, zxid, lag_ms))
        });
        owed.collect()
    }

    fn drop_silent_links(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let silent = self.links.iter().filter_map(|(id, link)| {
            let deadline = self.link_deadline_ms(link)?;
            (now_ms >= deadline).then_some((*id, now_ms.saturating_sub(link.last_received_ms)))
        });
        for (link, silent_ms) in silent.collect::<Vec<_>>() {
            self.close(link, LinkFault::Silence { silent_ms }, out);
        }
    }

    fn link_deadline_ms(&self, link: &super::LearnerLink) -> Option<i64> {
        let limit = link.silence_ms(self.settings.init_ms(), self.settings.sync_ms());
        limit.map(|limit| link.last_received_ms.saturating_add(limit))
    }

    fn ping_ms(&self) -> i64 {
        (self.settings.tick_ms / 2).max(1)
    }
}
