//! Formats of stores, and versions and cipher suites of TLS.

use testkit::Random;

use super::files::Kind;
use super::stores::Format;

/// Draws the format of a store with a certificate of this kind.
pub(super) fn format(random: &mut Random, kind: Kind) -> Format {
    let formats = [Format::Pem, Format::Pkcs12, Format::Jks];
    match random.pick(&formats).unwrap_or(Format::Pem) {
        // The library that writes these stores accepts only certificates of version 3.
        Format::Pkcs12 if kind == Kind::Version1 => Format::Jks,
        format => format,
    }
}

/// Draws versions and cipher suites of TLS. `prefix` is the beginning of the settings.
pub(super) fn versions(random: &mut Random, prefix: &str) -> String {
    let mut lines = String::new();
    let versions = [
        "",
        "",
        "TLSv1.3",
        "TLSv1.2",
        "TLSv1.3,TLSv1.2",
        "TLSv1.1,TLSv1.2",
    ];
    let versions = random.pick(&versions).unwrap_or_default();
    if !versions.is_empty() {
        lines += &format!("{prefix}enabledProtocols={versions}\n");
    }
    let ciphers = [
        "",
        "",
        "AES_128_GCM_SHA256",
        "AES_256_GCM_SHA384",
        "CHACHA20_POLY1305_SHA256",
    ];
    let cipher = random.pick(&ciphers).unwrap_or_default();
    if !cipher.is_empty() {
        // One suite for each version of TLS, and one that Zoarium ignores.
        lines += &format!(
            "{prefix}ciphersuites=TLS_{cipher},TLS_ECDHE_ECDSA_WITH_{cipher},\
             TLS_RSA_WITH_AES_128_CBC_SHA\n"
        );
    }
    lines
}
