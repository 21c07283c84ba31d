//! Check of identities against an ACL.

use proto::{Acl, Id};

use super::settings::{ANYONE, AuthSettings, SUPER, WORLD};

/// Returns whether a list grants one of `identities` one of the permission bits in `wanted`.
///
/// An empty list permits everything, and super users may do everything. Source:
/// ZooKeeperServer.checkACL.
pub fn permits(settings: &AuthSettings, acl: &[Acl], wanted: i32, identities: &[Id]) -> bool {
    if acl.is_empty() {
        return true;
    }
    let mut granting = acl.iter().filter(|entry| entry.perms & wanted != 0);
    granting.any(|entry| is_world(&entry.id) || is_met(settings, &entry.id, identities))
        || is_super(identities)
}

/// Returns whether the entries for `identities` together grant all permission bits in `wanted`, or
/// whether one of the identities is super. Entries for `world:anyone` are ignored.
pub fn is_named(settings: &AuthSettings, acl: &[Acl], wanted: i32, identities: &[Id]) -> bool {
    let naming = acl
        .iter()
        .filter(|entry| !is_world(&entry.id) && is_met(settings, &entry.id, identities));
    let granted = naming.fold(0, |granted, entry| granted | entry.perms);
    granted & wanted == wanted || is_super(identities)
}

/// Returns whether one of `identities` is a super user. Super users pass every permission check.
pub fn is_super(identities: &[Id]) -> bool {
    identities.iter().any(|id| id.scheme == SUPER)
}

fn is_world(id: &Id) -> bool {
    id.scheme == WORLD && id.id == ANYONE
}

fn is_met(settings: &AuthSettings, wanted: &Id, identities: &[Id]) -> bool {
    identities.iter().any(|held| {
        held.scheme == wanted.scheme && settings.matches(&wanted.scheme, &held.id, &wanted.id)
    })
}
