//! Global sessions that have ended recently.

use std::collections::{HashSet, VecDeque};

use proto::SessionId;

/// Maximum number of remembered sessions. A request for an ended session that is no longer
/// remembered is treated like a request for an unknown session.
const REMEMBERED_MAX: usize = 8192;

/// Ids of the global sessions that ended last, at most [`REMEMBERED_MAX`].
#[derive(Debug, Clone, Default)]
pub(crate) struct EndedSessions {
    ids: HashSet<SessionId>,
    /// Ids in the order in which the sessions ended, oldest first.
    order: VecDeque<SessionId>,
}

impl EndedSessions {
    pub(crate) fn note(&mut self, id: SessionId) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, id: SessionId) -> bool {
        self.ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ended_sessions_are_forgotten() {
        let max = i64::try_from(REMEMBERED_MAX).expect("a small number");
        let mut ended = EndedSessions::default();
        (0..=max)
            .chain([max])
            .for_each(|id| ended.note(SessionId(id)));
        assert!(!ended.contains(SessionId(0)));
        assert!(ended.contains(SessionId(1)) && ended.contains(SessionId(max)));
        assert_eq!(ended.ids.len(), REMEMBERED_MAX);
    }
}
