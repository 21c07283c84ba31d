//! The subject of a certificate as text, which becomes the id in the scheme x509.
//!
//! The format is the same as in Java's X500Principal.getName (RFC 2253). The last part of the name
//! comes first. Nine attributes have keywords; all others are written as numbers with their values
//! in hexadecimal.

use rustls::pki_types::CertificateDer;
use x509_parser::der_parser::asn1_rs::{Any, Tag};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

/// Attributes that have a keyword in RFC 2253.
const KEYWORDS: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];

/// Types of values that are formatted as text.
const TEXTS: &[Tag] = &[
    Tag::Utf8String,
    Tag::PrintableString,
    Tag::T61String,
    Tag::Ia5String,
    Tag::GeneralString,
    Tag::BmpString,
];

/// Characters that are escaped with a backslash. Source: sun.security.x509.AVA.toRFC2253String.
const ESCAPED: &str = ",=+<>#;\"\\";

/// A certificate, followed by the certificates that lead from it to a root.
pub type Chain = Vec<Certificate>;

/// A certificate presented by a peer.
pub type Certificate = CertificateDer<'static>;

/// Returns the subject, or `None` if the bytes are not a certificate.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(rfc2253(parsed.subject()))
}

/// Returns the end of the certificate's validity in seconds since 1970, or `None` if the bytes are
/// not a certificate.
pub(crate) fn ends_s(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

fn rfc2253(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name
        .iter_rdn()
        .map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+"))
        .collect();
    let last_first: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
    last_first.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let number = attribute.attr_type().to_id_string();
    let value = attribute.attr_value();
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == number);
    match keyword {
        Some((_, keyword)) if TEXTS.contains(&value.tag()) => {
            format!("{keyword}={}", escape(&String::from_utf8_lossy(value.data)))
        }
        Some((_, keyword)) => format!("{keyword}={}", hexadecimal(value)),
        None => format!("{number}={}", hexadecimal(value)),
    }
}

/// Returns `#` and the DER of the value in hexadecimal.
fn hexadecimal(value: &Any<'_>) -> String {
    use std::fmt::Write;

    let mut text = String::from("#");
    let mut byte = |byte: u8| {
        let _ = write!(text, "{byte:02x}");
    };
    // The parser has separated the header (tag and length) from the data, so the header is encoded
    // again.
    let tag = u8::try_from(value.tag().0).unwrap_or(0x1F);
    let constructed = if value.header.is_constructed() {
        0x20
    } else {
        0
    };
    byte((value.class() as u8) << 6 | constructed | tag);
    let len = value.data.len();
    if len < 0x80 {
        byte(len.to_be_bytes().last().copied().unwrap_or_default());
    } else {
        let digits = len.to_be_bytes();
        let used: Vec<u8> = digits.into_iter().skip_while(|digit| *digit == 0).collect();
        byte(0x80 | u8::try_from(used.len()).unwrap_or(0));
        used.into_iter().for_each(&mut byte);
    }
    value.data.iter().copied().for_each(&mut byte);
    text
}

fn escape(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\0' => text.push_str("\\00"),
            c => {
                if ESCAPED.contains(c) {
                    text.push('\\');
                }
                text.push(c);
            }
        }
    }
    let is_space = |c: char| matches!(c, ' ' | '\r');
    let lead = text.len() - text.trim_start_matches(is_space).len();
    let trail = text.trim_end_matches(is_space).len();
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if at < lead || at >= trail {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
