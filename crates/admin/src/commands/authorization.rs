//! Authentication of requests with the `Authorization` header.

use http::StatusCode;
use metrics::view::AdminView;
use proto::Id;
use tree::auth::X509;

use crate::answer::{Answer, Body, Object};

/// Credentials of a request, with its origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credentials<'a> {
    /// Value of the header: `<scheme>` or `<scheme> <data>`. `None` if the header is missing.
    pub(crate) header: Option<&'a [u8]>,
    /// Address of the client as text.
    pub(crate) address: &'a str,
    /// Subject of the client's certificate, if the certificate is trusted and the client requests
    /// to be identified by it.
    pub(crate) subject: Option<&'a str>,
}

/// Reason why a command is refused. Source: Commands.runCommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The header is missing.
    #[error("Auth info is missing for the command")]
    Missing,
    /// The scheme is unknown, or its data is invalid.
    #[error("Not authenticated")]
    NotAuthenticated,
    /// The ACL of `/` does not grant all permissions to this client.
    #[error("Not authorized")]
    NotAuthorized,
    /// The client ports would refuse the caller, for this reason.
    #[error("{0}")]
    Unreachable(&'static str),
    /// The ACL of `/` grants all permissions to everybody, but does not name an administrator.
    #[error("Not authorized: {OPEN_TO_WORLD}")]
    OpenToWorld,
}

/// Warning about an ACL of `/` that grants everything to everybody, with the recommended action.
pub(crate) const OPEN_TO_WORLD: &str = "the ACL of / permits everything to everybody. Every client may create, change and \
    delete znodes below /, and the ACL does not name an administrator. To restrict access, set an ACL that names an \
    identity with all permissions (setAcl / digest:USER:HASH:cdrwa). Administrators can use this identity, \
    superDigest, or the credential that `zoarium admin-token` writes";

impl Refused {
    /// Checks whether the identities permit administration. Administrators are super users and
    /// identities to which the ACL of `/` explicitly grants all permissions.
    ///
    /// # Errors
    /// If none of these identities is an administrator.
    pub(crate) fn unless_administrator(
        view: &dyn AdminView,
        identities: &[Id],
    ) -> Result<(), Self> {
        if view.is_administrator(identities) {
            return Ok(());
        }
        Err(if view.is_open_to_world() {
            Self::OpenToWorld
        } else {
            Self::NotAuthorized
        })
    }

    /// Creates the answer, which repeats the requested name of the command.
    pub(crate) fn answer(self, command: &str) -> Answer {
        let status = match self {
            Self::Missing | Self::NotAuthenticated => StatusCode::UNAUTHORIZED,
            _ => StatusCode::FORBIDDEN,
        };
        let text = self.to_string();
        Answer::of(status, Body::Fields(Object::new())).under(command, Some(&text))
    }
}

impl Credentials<'_> {
    /// Checks whether the client is an administrator.
    ///
    /// # Errors
    /// If the client is not an administrator.
    pub(crate) fn check(&self, view: &dyn AdminView) -> Result<(), Refused> {
        if self.header.is_none() {
            return Err(Refused::Missing);
        }
        let identities = self.identities(view)?;
        Refused::unless_administrator(view, &identities)
    }

    /// Returns the authenticated identities of the client. Without a header, the list is empty.
    ///
    /// # Errors
    /// If there is a header that does not prove an identity.
    pub(crate) fn identities(&self, view: &dyn AdminView) -> Result<Vec<Id>, Refused> {
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
        if identities.is_empty() {
            Err(Refused::NotAuthenticated)
        } else {
            Ok(identities)
        }
    }
}

/// Splits a header into scheme and data, separated by one blank. Like Java's `split`, ignores
/// blanks at the end. A second blank between scheme and data makes the header invalid.
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
