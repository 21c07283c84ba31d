//! Address or identity that holds a share.

use std::fmt;
use std::net::IpAddr;

use config::BudgetClients;
use proto::Id;
use tree::auth::{ANYONE, IP, name_of, user_name};

use crate::failures::network;

/// Holder of a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ShareKey {
    /// Address, or 64-bit network for IPv6.
    Address(IpAddr),
    /// Name as in the output of the admin command `clients`.
    Identity(String),
}

/// Returns the holders of the shares that a budget for `who` assigns to a client with this address
/// and these identities.
pub(super) fn keys_of(who: &BudgetClients, address: IpAddr, identities: &[Id]) -> Vec<ShareKey> {
    let of_address = || vec![ShareKey::Address(network(address))];
    let of_users = |is_meant: &dyn Fn(&Id) -> bool| {
        let names = identities.iter().filter(|id| is_meant(id)).map(name_of);
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(ShareKey::Identity).collect()
    };
    match who {
        BudgetClients::Network(network) if network.contains(address) => of_address(),
        BudgetClients::Network(_) => Vec::new(),
        BudgetClients::AnyAddress => of_address(),
        BudgetClients::AnyUser { scheme } => of_users(&|id| *id.scheme == **scheme),
        BudgetClients::User { scheme, user } => {
            of_users(&|id| *id.scheme == **scheme && user_name(id) == user)
        }
        BudgetClients::Anyone if identities.iter().all(|id| &*id.scheme == IP) => {
            vec![ShareKey::Identity(ANYONE.to_owned())]
        }
        BudgetClients::Anyone => Vec::new(),
    }
}

impl fmt::Display for ShareKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "ip:{address}"),
            Self::Identity(name) => f.write_str(name),
        }
    }
}
