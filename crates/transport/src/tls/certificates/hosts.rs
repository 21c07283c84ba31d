//! Verification that a certificate is valid for a host.
//!
//! An address must be among the addresses in the certificate. A name must be among its DNS names,
//! where `*` may replace the first label. The common name is used only if the certificate lacks
//! alternative names. Source: ZKHostnameVerifier.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The certificate is valid only for other hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the certificate is not valid for {wanted} (hosts of the certificate: {found})")]
pub struct WrongHost {
    /// Expected host.
    wanted: String,
    /// Hosts in the certificate.
    found: String,
}

/// Names in a certificate.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ips: Vec<IpAddr>,
    dns: Vec<String>,
    common: Option<String>,
    has_alternatives: bool,
}

/// Checks that the certificate is valid for this address or one of these names.
///
/// # Errors
/// If the certificate is valid only for other hosts.
pub(crate) fn check(
    certificate: &CertificateDer<'_>,
    ip: IpAddr,
    names: &[&str],
) -> Result<(), WrongHost> {
    let ip = ip.to_canonical();
    let given = Names::of(certificate);
    let address = ip.to_string();
    if given.fits_host(&address) || names.iter().any(|name| given.fits_host(name)) {
        return Ok(());
    }
    let wanted = [&[address.as_str()], names].concat().join(" or ");
    let found = given.describe();
    Err(WrongHost { wanted, found })
}

impl Names {
    /// Returns the names in a certificate. If the certificate cannot be parsed, the result is empty
    /// and does not match any host.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return Self::default();
        };
        let mut names = Self {
            common: common_name(&parsed),
            ..Self::default()
        };
        let Ok(Some(alternatives)) = parsed.subject_alternative_name() else {
            return names;
        };
        for name in &alternatives.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => names.ips.extend(ip_of(bytes)),
                _ => continue,
            }
            names.has_alternatives = true;
        }
        names
    }

    pub(crate) fn fits_ip(&self, ip: IpAddr) -> bool {
        self.ips.contains(&ip)
    }

    pub(crate) fn fits_name(&self, name: &str) -> bool {
        if self.has_alternatives {
            return self.dns.iter().any(|pattern| fits(pattern, name));
        }
        self.common
            .as_ref()
            .is_some_and(|common| fits(common, name))
    }

    /// Returns whether a host matches, which is a name or an address. Without alternative names, the
    /// common name may be an address. Source: ZKHostnameVerifier.
    pub(crate) fn fits_host(&self, host: &str) -> bool {
        match host.parse::<IpAddr>() {
            Ok(ip) if self.has_alternatives => self.fits_ip(ip.to_canonical()),
            _ => self.fits_name(host),
        }
    }

    /// Returns the addresses, the DNS names and the common name, as text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        let ips = self.ips.iter().map(IpAddr::to_string);
        ips.chain(self.dns.iter().chain(&self.common).cloned())
    }

    fn describe(&self) -> String {
        let ips = self.ips.iter().map(IpAddr::to_string);
        let mut all: Vec<String> = ips.chain(self.dns.iter().cloned()).collect();
        if !self.has_alternatives {
            all.extend(self.common.clone());
        }
        if all.is_empty() {
            return "none".to_owned();
        }
        // Escaped because the peer controls the string.
        all.join(", ").escape_debug().take(200).collect()
    }
}

fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let mut names = certificate.subject().iter_common_name();
    names.next()?.as_str().ok().map(str::to_owned)
}

fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::from(sixteen).to_canonical())
}

/// Returns whether a name in a certificate matches this host.
fn fits(pattern: &str, name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    match pattern.strip_prefix("*.") {
        // `*` matches one label. At least two labels must follow, so `*.example` does not match any
        // name.
        Some(parent) => name
            .split_once('.')
            .is_some_and(|(_, rest)| rest.contains('.') && rest.eq_ignore_ascii_case(parent)),
        None => pattern.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(fits("*.zk.example", "a.zk.example"));
        assert!(fits("ZK1.example", "zk1.EXAMPLE."));
        assert!(!fits("*.zk.example", "a.b.zk.example"));
        assert!(!fits("*.zk.example", "zk.example"));
        assert!(!fits("*.example", "zk.example"));
        assert!(!fits("*", "zk"));
    }

    #[test]
    fn an_invalid_certificate_matches_no_host() {
        let nothing = CertificateDer::from(vec![0x30, 0]);
        let error = check(&nothing, "::ffff:127.0.0.1".parse().unwrap(), &["zk1"]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "the certificate is not valid for 127.0.0.1 or zk1 (hosts of the certificate: none)"
        );
    }
}
