//! Verification that a certificate presented on a port of the ensemble belongs to a member.
//!
//! Trust alone does not distinguish a member from an application, because both may have
//! certificates from the same authority. A member's certificate is valid for a host in the member
//! list, is this server's own, or matches a pattern set by the operator.

use std::net::SocketAddr;

use config::{MemberCheckMode, QuorumTls};
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;

use super::hosts::Names;
use super::subject;
use log_limiter::LogLimiter;

/// Name of the setting that selects the reaction to certificates that do not belong to a member.
const KEY: &str = "zoarium.ssl.quorum.memberCheck";

/// A certificate that does not belong to a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this connection does not belong to a member (certificate: {subject:?}). The hosts of the \
     certificate are not in the member list, and it does not match ssl.quorum.members ({KEY}=refuse)"
)]
pub struct NotAMember {
    subject: String,
}

/// Check of the peers' certificates on the ports of the ensemble.
#[derive(Debug)]
pub struct MemberCheck {
    mode: MemberCheckMode,
    patterns: Vec<String>,
    hosts: RwLock<Vec<String>>,
    log_limiter: LogLimiter,
}

impl MemberCheck {
    /// Creates the check from the settings. It does not know any hosts until
    /// [`set_hosts`](Self::set_hosts) is called.
    pub fn new(settings: &QuorumTls) -> Self {
        Self {
            mode: settings.member_check,
            patterns: settings.members.clone(),
            hosts: RwLock::default(),
            log_limiter: LogLimiter::of("certificates of members"),
        }
    }

    /// Replaces the hosts from the member list, given by name or by address.
    pub fn set_hosts(&self, hosts: Vec<String>) {
        *self.hosts.write() = hosts;
    }

    /// Checks the certificate of a peer. `own` is this server's certificate.
    ///
    /// # Errors
    /// If the certificate is missing or does not belong to a member, and the setting is `refuse`.
    /// If the setting is `warn`, the connection is accepted and logged.
    pub(crate) fn check(
        &self,
        shown: Option<&CertificateDer<'_>>,
        own: Option<&CertificateDer<'_>>,
        peer: SocketAddr,
    ) -> Result<(), NotAMember> {
        if self.mode == MemberCheckMode::Off
            || shown.is_some_and(|shown| own == Some(shown) || self.names_member(shown))
        {
            return Ok(());
        }
        let subject = shown.and_then(subject::subject);
        let subject = subject.unwrap_or_else(|| "(no certificate)".to_owned());
        if self.mode == MemberCheckMode::Refuse {
            return Err(NotAMember { subject });
        }
        log_limiter::limited!(in self.log_limiter => warn, ?subject, %peer, "accepted a connection that does not belong to a member. The hosts of its certificate are not in the member list, and the certificate does not match ssl.quorum.members. {KEY}=refuse refuses such connections");
        Ok(())
    }

    fn names_member(&self, certificate: &CertificateDer<'_>) -> bool {
        let names = Names::of(certificate);
        let is_host = |host: &String| names.fits_host(host);
        self.hosts.read().iter().any(is_host)
            || names
                .texts()
                .any(|text| self.patterns.iter().any(|pattern| fits(pattern, &text)))
    }
}

/// Returns whether a pattern matches a whole string. `*` matches any characters. The comparison
/// ignores case.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The earliest match leaves the most characters for the following parts.
        let Some((_, after)) = text.split_once(part) else {
            return false;
        };
        text = after;
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text) in [
            ("*", ""),
            ("zk9", "ZK9"),
            ("zk*", "zk"),
            ("*.zk.example", "a.b.zk.example"),
            ("zk*-*.example", "zk1-eu-2.example"),
            ("a*b*b", "abb"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("zk9", "zk99"),
            ("zk*", "azk"),
            ("*.zk.example", "zk.example"),
            ("a*b*b", "ab"),
            ("ab*ba", "aba"),
            ("", "a"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
