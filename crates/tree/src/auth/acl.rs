//! Conversion of a request's ACL list to the stored list.
//!
//! Source: PrepRequestProcessor.fixupACL.

use hashbrown::HashSet;
use jute::Str;
use proto::data::RequestAcl;
use proto::{Acl, ErrorCode, Id};

use super::settings::{ANYONE, AUTH, AuthSettings, WORLD};

/// Maximum number of entries in a stored list that is created from entries with the scheme `auth`.
/// Such an entry expands to all of the caller's identities, and a client chooses the number of
/// entries and of identities.
const EXPANDED_ENTRIES_MAX: usize = 1 << 16;
/// Number of entries up to which comparing all pairs is cheaper than hashing.
const COMPARED_ENTRIES_MAX: usize = 8;

/// Returns the list to store for `acl`.
///
/// # Errors
/// InvalidAcl if the list is invalid, or MarshallingError where Java dereferences a null. Both
/// errors use a zxid.
pub fn normalise(
    settings: &AuthSettings,
    acl: Option<&[RequestAcl]>,
    identities: &[Id],
) -> Result<Vec<Acl>, ErrorCode> {
    let acl = match acl {
        None | Some([]) => return Err(ErrorCode::InvalidAcl),
        Some(acl) => acl,
    };
    // This list is by far the most frequent and does not need the other steps.
    if let [entry] = acl
        && is_world_anyone(entry)
    {
        return Ok(vec![open_entry(entry.perms)]);
    }
    let mut stored = Vec::with_capacity(acl.len());
    for entry in without_duplicates(acl)? {
        append(settings, entry, identities, &mut stored)?;
    }
    Ok(stored)
}

fn is_world_anyone(entry: &RequestAcl) -> bool {
    entry.scheme.as_deref() == Some(WORLD) && entry.id.as_deref() == Some(ANYONE)
}

fn open_entry(perms: i32) -> Acl {
    Acl {
        perms,
        id: Id {
            scheme: Str::from_static(WORLD),
            id: Str::from_static(ANYONE),
        },
    }
}

fn append(
    settings: &AuthSettings,
    entry: &RequestAcl,
    identities: &[Id],
    stored: &mut Vec<Acl>,
) -> Result<(), ErrorCode> {
    let refused = Err(ErrorCode::InvalidAcl);
    let perms = entry.perms;
    let Some(scheme) = &entry.scheme else {
        return refused;
    };
    if scheme == AUTH {
        let mine = identities
            .iter()
            .filter(|id| settings.is_authenticated(&id.scheme));
        let before = stored.len();
        stored.extend(mine.map(|id| Acl {
            perms,
            id: id.clone(),
        }));
        let is_bad = stored.len() == before || stored.len() > EXPANDED_ENTRIES_MAX;
        return if is_bad { refused } else { Ok(()) };
    }
    if scheme != WORLD && !settings.is_registered(scheme) {
        return refused;
    }
    let Some(id) = &entry.id else {
        return Err(ErrorCode::MarshallingError);
    };
    if is_world_anyone(entry) {
        stored.push(open_entry(perms));
    } else if settings.is_valid_id(scheme, id) {
        let id = Id {
            scheme: scheme.clone(),
            id: id.clone(),
        };
        stored.push(Acl { perms, id });
    } else {
        return refused;
    }
    Ok(())
}

/// Returns the first occurrence of each entry.
///
/// Java compares a new entry with the kept entries by perms, then scheme, then id. If such a
/// comparison reaches a null in the new entry, the request is refused (MarshallingError).
fn without_duplicates(acl: &[RequestAcl]) -> Result<Vec<&RequestAcl>, ErrorCode> {
    if acl.len() <= COMPARED_ENTRIES_MAX {
        return compare_all(acl);
    }
    let mut kept = Vec::with_capacity(acl.len());
    let mut perms_seen = HashSet::new();
    let mut schemes_seen = HashSet::new();
    let mut entries_seen = HashSet::new();
    for entry in acl {
        let (perms, scheme, id) = (entry.perms, entry.scheme.as_deref(), entry.id.as_deref());
        let meets_null = match (scheme, id) {
            (None, _) => perms_seen.contains(&perms),
            (_, None) => schemes_seen.contains(&(perms, scheme)),
            _ => false,
        };
        if meets_null {
            return Err(ErrorCode::MarshallingError);
        }
        perms_seen.insert(perms);
        schemes_seen.insert((perms, scheme));
        if entries_seen.insert((perms, scheme, id)) {
            kept.push(entry);
        }
    }
    Ok(kept)
}

fn compare_all(acl: &[RequestAcl]) -> Result<Vec<&RequestAcl>, ErrorCode> {
    let mut kept: Vec<&RequestAcl> = Vec::with_capacity(acl.len());
    'entries: for entry in acl {
        for other in &kept {
            if entry.perms != other.perms {
                continue;
            }
            let scheme = entry.scheme.as_ref().ok_or(ErrorCode::MarshallingError)?;
            if Some(scheme) != other.scheme.as_ref() {
                continue;
            }
            let id = entry.id.as_ref().ok_or(ErrorCode::MarshallingError)?;
            if Some(id) == other.id.as_ref() {
                continue 'entries;
            }
        }
        kept.push(entry);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part() -> impl Strategy<Value = Option<Str>> {
        proptest::option::of(prop_oneof!["a", "b"].prop_map(Str::from))
    }

    proptest! {
        #[test]
        fn long_lists_lose_their_duplicates_as_short_ones_do(
            entries in proptest::collection::vec((0..2i32, part(), part()), 9..14),
        ) {
            let acl: Vec<_> = entries
                .into_iter()
                .map(|(perms, scheme, id)| RequestAcl { perms, scheme, id })
                .collect();
            prop_assert_eq!(without_duplicates(&acl), compare_all(&acl));
        }
    }
}
