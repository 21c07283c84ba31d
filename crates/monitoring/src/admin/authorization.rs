//! Who asks, as the header `Authorization` says.

use http::StatusCode;

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
}

impl Refused {
    /// As an answer; it repeats the name as it was asked for.
    pub fn answer(self, asked: &str) -> Answer {
        let status = match self {
            Self::Missing | Self::NotAuthenticated => StatusCode::UNAUTHORIZED,
            Self::NotAuthorized => StatusCode::FORBIDDEN,
        };
        let text = self.to_string();
        Answer::of(status, Body::Fields(Object::new())).under(asked, Some(&text))
    }
}

impl Credentials<'_> {
    /// Whether the caller may do anything with `/`.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, view: &dyn AdminView) -> Result<(), Refused> {
        let header = self.header.ok_or(Refused::Missing)?;
        let (scheme, data) = split(header).ok_or(Refused::NotAuthenticated)?;
        let identities = view.identities(scheme, data, self.address);
        if identities.is_empty() {
            return Err(Refused::NotAuthenticated);
        }
        match view.may_do_anything(&identities) {
            true => Ok(()),
            false => Err(Refused::NotAuthorized),
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
