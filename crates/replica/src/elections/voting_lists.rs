//! Member lists in the form that elections use.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use config::members::{Member, MemberAddress, MemberRole};
use config::membership::Membership;
use election::{Electorate, MemberList, ReceivedNotification, Role};
use proto::Sid;
use proto::hello::Endpoint;
use proto::notification::{CONFIG_BYTES_MAX, Notification};
use proto::quorum::QuorumVerifier;

/// Reason why a member list cannot be used for an election.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElectorateError {
    /// The list contains only observers, or is empty.
    #[error("the member list does not contain a participant")]
    NoParticipants,
    /// Other servers would close the connection after a notification of this size.
    #[error("the text of the member list has {len} bytes and does not fit into a notification")]
    TooLong {
        /// Size of the encoded list, bytes.
        len: usize,
    },
}

/// Lists that decide an election: the committed one and a newer proposed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) committed: Membership,
    pub(crate) proposed: Option<Membership>,
}

impl Lists {
    /// Creates the lists. A proposed list that is not newer is obsolete and is ignored.
    pub(crate) fn new(committed: Membership, proposed: Option<Membership>) -> Self {
        let proposed = proposed.filter(|proposed| proposed.version > committed.version);
        Self {
            committed,
            proposed,
        }
    }

    /// Converts the lists for the election.
    ///
    /// # Errors
    /// If one of the lists contains no participant, or if the encoded committed list is too long
    /// for a notification.
    pub(crate) fn electorate(&self) -> Result<Electorate, ElectorateError> {
        let text = self.committed.node_data();
        if text.len() > CONFIG_BYTES_MAX {
            return Err(ElectorateError::TooLong { len: text.len() });
        }
        let (version, text) = (self.committed.version, Bytes::from(text));
        let electorate = Electorate::new(quorum(&self.committed)?, version, text);
        Ok(match &self.proposed {
            Some(proposed) => electorate.with_proposed(quorum(proposed)?),
            None => electorate,
        })
    }

    /// Returns every server in either list, including observers.
    pub(crate) fn sids(&self) -> BTreeSet<Sid> {
        let lists = self.both().flat_map(|list| list.members.keys());
        lists.copied().collect()
    }

    /// Returns the election endpoints of a server: first those in the committed list, then
    /// additional ones in the proposed list.
    pub(crate) fn election_endpoints(&self, sid: Sid) -> Vec<Endpoint> {
        let members = self.both().filter_map(|list| list.members.get(&sid));
        let mut all = Vec::new();
        for endpoint in members.flat_map(election_endpoints) {
            if !all.contains(&endpoint) {
                all.push(endpoint);
            }
        }
        all
    }

    /// Returns the endpoints on which this server listens; `None` if no list contains the server,
    /// which then keeps its current endpoints.
    pub(crate) fn own_endpoints(&self, me: Sid) -> Option<Vec<Endpoint>> {
        let member = self.both().find_map(|list| list.members.get(&me))?;
        Some(election_endpoints(member).collect())
    }

    fn both(&self) -> impl Iterator<Item = &Membership> {
        [&self.committed].into_iter().chain(&self.proposed)
    }
}

/// Returns the role of a server in a list. A server that is not in the list follows without a vote.
pub(crate) fn role_in(list: &Membership, me: Sid) -> Role {
    let member = list.members.get(&me);
    role(member.map(|member| member.role).unwrap_or_default())
}

pub(crate) fn role(role: MemberRole) -> Role {
    match role {
        MemberRole::Observer => Role::Observer,
        MemberRole::Participant => Role::Participant,
    }
}

/// Returns a notification in the form that elections use, with its member list. An invalid list
/// does not invalidate the rest.
pub(crate) fn read(
    notification: Notification,
    multi_address_enabled: bool,
) -> (ReceivedNotification, Option<Membership>) {
    let list = read_list(&notification, multi_address_enabled);
    let members = list.as_ref().map(|list| MemberList {
        version: list.version,
        voters: list.participants().map(|member| member.sid).collect(),
    });
    let received = ReceivedNotification {
        notification,
        members,
    };
    (received, list)
}

fn read_list(notification: &Notification, multi_address_enabled: bool) -> Option<Membership> {
    let text = std::str::from_utf8(notification.config()?).ok()?;
    Membership::parse(text, multi_address_enabled).ok()
}

fn quorum(list: &Membership) -> Result<Arc<dyn QuorumVerifier>, ElectorateError> {
    let quorum = list.quorum();
    if quorum.voters().is_empty() {
        return Err(ElectorateError::NoParticipants);
    }
    Ok(quorum)
}

fn election_endpoints(member: &Member) -> impl Iterator<Item = Endpoint> {
    member.addresses.iter().map(|address: &MemberAddress| {
        let host = address.host.clone();
        let port = address.election_port;
        Endpoint { host, port }
    })
}

#[cfg(test)]
mod tests {
    use proto::ElectionRound;
    use proto::notification::{Form, PeerState};
    use proto::{Epoch, Zxid};

    use super::*;

    fn list(text: &str) -> Membership {
        Membership::parse(text, true).unwrap()
    }

    const THREE: &str = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2:observer\nversion=5";

    #[test]
    fn a_list_without_an_electable_server_is_refused() {
        let observers = Lists::new(list("server.1=a:1:2:observer"), None);
        assert_eq!(
            observers.electorate().unwrap_err(),
            ElectorateError::NoParticipants
        );
        let host = "h".repeat(CONFIG_BYTES_MAX);
        let long = Lists::new(list(&format!("server.1={host}:1:2")), None);
        assert!(matches!(
            long.electorate(),
            Err(ElectorateError::TooLong { .. })
        ));
    }

    #[test]
    fn a_proposed_list_counts_only_while_it_is_newer() {
        let newer = list("server.1=a:1:9\nserver.4=d:1:2\nversion=6");
        let lists = Lists::new(list(THREE), Some(newer.clone()));
        let voters = |lists: &Lists| lists.electorate().unwrap().voters().len();
        assert_eq!((voters(&lists), lists.sids().len()), (3, 4));
        let at = lists.election_endpoints(Sid(1));
        let texts: Vec<_> = at.iter().map(Endpoint::to_string).collect();
        assert_eq!(texts, ["a:2", "a:9"]);
        assert_eq!(lists.own_endpoints(Sid(1)).unwrap(), at[..1]);
        let lists = Lists::new(newer, Some(list(THREE)));
        assert_eq!((voters(&lists), lists.sids().len()), (2, 2));
        assert_eq!(lists.own_endpoints(Sid(3)), None);
    }

    #[test]
    fn an_unlisted_server_follows_without_a_vote() {
        assert_eq!(role_in(&list(THREE), Sid(3)), Role::Observer);
        assert_eq!(role_in(&list(THREE), Sid(1)), Role::Participant);
        assert_eq!(role_in(&list(THREE), Sid(9)), Role::Participant);
    }

    #[test]
    fn an_invalid_list_does_not_invalidate_the_message() {
        let notification = |config: &'static [u8]| Notification {
            state: PeerState::Looking,
            leader: Sid(1),
            zxid: Zxid(2),
            round: ElectionRound(3),
            peer_epoch: Epoch(4),
            form: Form::Versioned {
                version: 2,
                config: Some(Bytes::from_static(config)),
            },
        };
        for text in [
            &b"nonsense=\\uZZZZ"[..],
            b"server.1=x",
            b"\xff\xfe",
            b"server.1=a:1:2|b:1:2",
        ] {
            let (received, _) = read(notification(text), false);
            assert_eq!(
                (received.members, received.notification.zxid),
                (None, Zxid(2))
            );
        }
        let (received, _) = read(notification(THREE.as_bytes()), false);
        assert_eq!(received.members.unwrap().to_string(), "1,2 version 5");
    }
}
