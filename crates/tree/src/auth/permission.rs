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

/// Returns whether the identities suffice if clients must authenticate with one of these schemes
/// (`enforce.auth.schemes`). `None` means that any identities suffice. Source:
/// AuthenticationHelper.enforceAuthentication.
pub fn is_authenticated<S: AsRef<str>>(enforced: Option<&[S]>, identities: &[Id]) -> bool {
    let Some(schemes) = enforced else {
        return true;
    };
    let is_enforced = |id: &Id| schemes.iter().any(|scheme| *scheme.as_ref() == *id.scheme);
    identities.iter().any(is_enforced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_identity_of_one_enforced_scheme_suffices() {
        let digest = Id {
            scheme: "digest".into(),
            id: "a:b".into(),
        };
        let ip = Id {
            scheme: "ip".into(),
            id: "127.0.0.1".into(),
        };
        let identities = [ip, digest];
        assert!(is_authenticated(Some(&["x509", "digest"]), &identities));
        assert!(!is_authenticated(Some(&["x509"]), &identities));
        assert!(!is_authenticated(Some(&["digest"]), &identities[..1]));
        assert!(is_authenticated::<&str>(None, &[]));
    }
}
