//! Validity of ACL ids in the sasl and x509 schemes.

/// Returns whether an id is a Kerberos name `a[/b]@c`, or any string without `@`.
///
/// Source: SASLAuthenticationProvider.isValid, KerberosName.
pub fn is_valid_sasl(id: &str) -> bool {
    let Some((name, realm)) = id.split_once('@') else {
        return true;
    };
    !realm.contains(['/', '@']) && name.matches('/').count() <= 1
}

/// Attribute types that Java accepts in a distinguished name, in addition to object identifiers.
const ATTRIBUTE_TYPES: &[&str] = &[
    "CN",
    "C",
    "L",
    "S",
    "ST",
    "O",
    "OU",
    "T",
    "IP",
    "STREET",
    "DC",
    "DNQUALIFIER",
    "DNQ",
    "SURNAME",
    "GIVENNAME",
    "INITIALS",
    "GENERATION",
    "EMAIL",
    "EMAILADDRESS",
    "UID",
    "SERIALNUMBER",
];

/// Returns whether an id is blank or a distinguished name, which consists of attributes
/// `type=value` separated by commas, semicolons or plus signs.
///
/// Source: X509AuthenticationProvider.isValid, X500Principal.
pub(super) fn is_valid_x509(id: &str) -> bool {
    id.trim().is_empty() || split_unquoted(id).into_iter().all(is_attribute)
}

fn is_attribute(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=') else {
        return false;
    };
    let name = name.trim().to_ascii_uppercase();
    let name = name.strip_prefix("OID.").unwrap_or(&name);
    let is_oid = name.contains('.')
        && name
            .split('.')
            .all(|arc| !arc.is_empty() && arc.bytes().all(|b| b.is_ascii_digit()));
    is_oid || ATTRIBUTE_TYPES.contains(&name)
}

/// Splits a name at separators that are neither quoted nor escaped.
fn split_unquoted(text: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b';' | b'+' if !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
