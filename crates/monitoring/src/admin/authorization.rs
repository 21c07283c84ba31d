//! Who asks, as the header `Authorization` says.

use http::StatusCode;
use proto::Id;
use tree::auth::X509;

use super::answer::{Answer, Body};
use super::json::Object;
use super::view::AdminView;

/// The header, and where it came from.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// `<scheme>` or `<scheme> <data>`; `None` if there is no such header.
    pub header: Option<&'a [u8]>,
    /// The caller's address as text.
    pub address: &'a str,
    /// The subject of the caller's certificate, if it has shown one that is trusted, and asks to be known by it.
    pub subject: Option<&'a str>,
}

/// Why a command is not carried out. Source: Commands.runCommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no header.
    #[error("Auth info is missing for the command")]
    Missing,
    /// It names no scheme that there is, or its data is no good.
    #[error("Not authenticated")]
    NotAuthenticated,
    /// The ACL of `/` does not let this caller do everything.
    #[error("Not authorized")]
    NotAuthorized,
    /// The ACL of `/` lets everybody do everything, and names nobody.
    #[error("Not authorized: {OPEN_TO_WORLD}")]
    OpenToWorld,
}

/// What an open `/` means for administration, and what to do.
pub const OPEN_TO_WORLD: &str = "the ACL of / is open to everybody: each client may create, change and delete znodes \
    below it, and it makes nobody an administrator. To close it, name an identity with all permissions in it (setAcl \
    / digest:USER:HASH:cdrwa). Administration takes such an identity, superDigest, or the credential that \
    `zoarium admin-token` writes";

impl Refused {
    /// Who may administer: super users, and whom the ACL of `/` names with all permissions.
    ///
    /// # Errors
    /// If none of these identities is one of them.
    pub fn unless_administrator(view: &dyn AdminView, identities: &[Id]) -> Result<(), Self> {
        if view.is_administrator(identities) {
            return Ok(());
        }
        Err(match view.is_open_to_world() {
            true => Self::OpenToWorld,
            false => Self::NotAuthorized,
        })
    }

    /// As an answer; it repeats the name as it was asked for.
    pub fn answer(self, asked: &str) -> Answer {
        let status = match self {
            Self::Missing | Self::NotAuthenticated => StatusCode::UNAUTHORIZED,
            Self::NotAuthorized | Self::OpenToWorld => StatusCode::FORBIDDEN,
        };
        let text = self.to_string();
        Answer::of(status, Body::Fields(Object::new())).under(asked, Some(&text))
    }
}

impl Credentials<'_> {
    /// The scheme that a header names, if it is one.
    pub fn scheme(header: Option<&[u8]>) -> Option<&str> {
        split(header?).map(|(scheme, _)| scheme)
    }

    /// Whether the caller is an administrator.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, view: &dyn AdminView) -> Result<(), Refused> {
        if self.header.is_none() {
            return Err(Refused::Missing);
        }
        let identities = self.identities(view)?;
        Refused::unless_administrator(view, &identities)
    }
}

impl Credentials<'_> {
    /// What the caller has proved; nothing without a header.
    ///
    /// # Errors
    /// If there is a header, and it proves nothing.
    pub fn identities(&self, view: &dyn AdminView) -> Result<Vec<Id>, Refused> {
        let Some(header) = self.header else {
            return Ok(Vec::new());
        };
        let (scheme, data) = split(header).ok_or(Refused::NotAuthenticated)?;
        let identities = match scheme {
            X509 => self
                .subject
                .map_or_else(Vec::new, |subject| view.identities_of_subject(subject)),
            _ => view.identities(scheme, data, self.address),
        };
        match identities.is_empty() {
            true => Err(Refused::NotAuthenticated),
            false => Ok(identities),
        }
    }
}

/// Scheme and data with one blank between them. Blanks at the end count for nothing, as with Java's
/// `split`; a second one in between spoils it.
fn split(header: &[u8]) -> Option<(&str, Option<&[u8]>)> {
    let mut parts: Vec<&[u8]> = header.split(|byte| *byte == b' ').collect();
    while parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    let (scheme, data) = match parts.as_slice() {
        [scheme] => (*scheme, None),
        [scheme, data] => (*scheme, Some(*data)),
        _ => return None,
    };
    Some((std::str::from_utf8(scheme).ok()?, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_blank_stands_between_scheme_and_data() {
        let parts = |header: &'static str| split(header.as_bytes());
        assert_eq!(parts("ip"), Some(("ip", None)));
        assert_eq!(parts(""), Some(("", None)));
        assert_eq!(parts("digest "), Some(("digest", None)));
        assert_eq!(parts("digest a:b"), Some(("digest", Some(&b"a:b"[..]))));
        assert_eq!(parts("digest  a:b"), None);
        assert_eq!(parts("digest a b"), None);
        assert_eq!(split(b"\xff x"), None);
    }
}
