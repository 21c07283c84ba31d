//! A leader that is deposed while all clients are on its side, and that returns before any client
//! has been connected to the new leader. It has proposals that the others never saw, and the others
//! have not committed anything since. In this case a member receives the command to truncate its
//! log (TRUNC). After a commit in the new epoch, it would receive a snapshot instead.
//!
//! ```text
//! begin   clients - leader  |  others          the others elect one of them
//! end     clients - leader  -  others          it comes back, and has to give up what it proposed last
//!         clients - leader and others
//! ```

use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use tests::ensemble::{OUTSIDE, Role};
use tests::wait_until;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Time limit for the return of the old leader, before clients reach the others.
const RETURN_LIMIT: Duration = Duration::from_secs(5);

/// The old leader, and the members that neither it nor any client reaches.
#[derive(Debug, Default)]
pub(super) struct Deposed(Option<(u64, Vec<u64>)>);

impl Nemesis for Deposed {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        _rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let Some(leader) = cluster.leader() else {
            return Ok(None);
        };
        let mut others = cluster.ids();
        others.retain(|&id| id != leader);
        cluster
            .ensemble()
            .network()
            .cut(&[OUTSIDE, leader], &others);
        let found = facts([("leader", json!(leader)), ("others", json!(others))]);
        self.0 = Some((leader, others));
        Ok(Some(found))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some((leader, others)) = self.0.take() else {
            return Ok(Facts::new());
        };
        cluster.ensemble().network().mend(&[leader], &others);
        let follows = || {
            let role = cluster.ensemble().member(leader).role();
            role.filter(|role| *role == Role::Follower)
        };
        let is_back = wait_until(RETURN_LIMIT, follows).is_some();
        cluster.ensemble().network().mend(&[OUTSIDE], &others);
        Ok(facts([
            ("leader", json!(leader)),
            ("is_back", json!(is_back)),
        ]))
    }
}
