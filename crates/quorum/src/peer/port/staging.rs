//! Packets that were sent to learners but are not queued yet.

use std::sync::Arc;

use host::Schedule;
use zab::leader::LinkId;

use super::link::Link;
use crate::peer::outbox::PacketBatch;

/// Packets for each connection since the last flush.
#[derive(Default)]
pub(super) struct Staging {
    links: Vec<(Arc<Link>, PacketBatch)>,
    /// Index after the link of the last packet. The next packet is usually for the link at this
    /// index, because packets for all links are sent in a fixed order.
    next: usize,
    /// Empty batches, kept for reuse.
    spare: Vec<PacketBatch>,
}

impl Staging {
    /// Returns a link and its batch. `find` looks up the link if it does not have a batch yet, and
    /// returns `None` if the link is closed.
    pub(super) fn of(
        &mut self,
        link: LinkId,
        find: impl FnOnce() -> Option<Arc<Link>>,
    ) -> Option<&mut (Arc<Link>, PacketBatch)> {
        let at = match self.position(link) {
            Some(at) => at,
            None => {
                let batch = self.spare.pop().unwrap_or_default();
                self.links.push((find()?, batch));
                self.links.len() - 1
            }
        };
        self.next = at + 1;
        self.links.get_mut(at)
    }

    fn position(&self, link: LinkId) -> Option<usize> {
        let is_it = |(to, _): &(Arc<Link>, PacketBatch)| to.id == link;
        match self.links.get(self.next) {
            Some(next) if is_it(next) => Some(self.next),
            _ => self.links.iter().position(is_it),
        }
    }

    /// Removes and returns all batches, in the order of the schedule.
    pub(super) fn take(&mut self, latest_requester: LinkId) -> Vec<(Arc<Link>, PacketBatch)> {
        let mut links = std::mem::take(&mut self.links);
        links.sort_by_key(|(to, _)| Schedule::flush_order_of_member(to.id == latest_requester));
        links
    }

    /// Accepts empty batches for reuse.
    pub(super) fn put_back(&mut self, mut links: Vec<(Arc<Link>, PacketBatch)>) {
        self.spare.extend(links.drain(..).map(|(_, batch)| batch));
        self.links = links;
    }
}

#[cfg(test)]
mod tests {
    use proto::Zxid;
    use proto::leader::LeaderPacket;
    use proto::packet::QuorumPacket;
    use replica::Port;

    use super::*;

    fn send(staging: &mut Staging, to: u64, commit: i64) {
        let find = || {
            let peer = "127.0.0.1:1".parse().unwrap();
            Some(Link::new(Port::Learners, LinkId(to), peer))
        };
        let (_, batch) = staging.of(LinkId(to), find).unwrap();
        let zxid = Zxid(commit);
        batch.add(&QuorumPacket::from(LeaderPacket::Commit { zxid }));
    }

    /// Returns the links in the order of the schedule, each with its number of packets.
    fn flush(staging: &mut Staging, first: u64) -> Vec<(u64, u64)> {
        let mut links = staging.take(LinkId(first));
        let taken = links
            .iter()
            .map(|(to, batch)| (to.id.0, batch.packets().0))
            .collect();
        links.iter_mut().for_each(|(_, batch)| batch.clear());
        staging.put_back(links);
        taken
    }

    #[test]
    fn the_learner_with_the_latest_request_is_written_to_first() {
        let mut staging = Staging::default();
        for first in [1, 2, 3, 4] {
            for commit in [7, 8] {
                (1..=3).for_each(|to| send(&mut staging, to, commit));
            }
            let sent = flush(&mut staging, first);
            assert_eq!(sent[0].0, if first < 4 { first } else { 1 }, "{sent:?}");
            let mut all = sent.clone();
            all.sort_unstable();
            assert_eq!(all, [(1, 2), (2, 2), (3, 2)], "nothing is lost or doubled");
        }
        assert!(flush(&mut staging, 1).is_empty());
    }

    #[test]
    fn nothing_is_kept_for_a_link_that_is_gone() {
        let mut staging = Staging::default();
        assert!(staging.of(LinkId(1), || None).is_none());
        assert!(flush(&mut staging, 1).is_empty());
    }
}
