//! Certificates and revocation lists that tests generate at runtime.

use std::net::{IpAddr, Ipv4Addr};

use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationList,
    CertificateRevocationListParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, SigningKey,
    date_time_ymd,
};

/// Maximum length of a serial number (RFC 5280, 4.1.2.2), bytes.
const SERIAL_BYTES_MAX: usize = 20;

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Signed {
    /// Certificate, which is public.
    pub certificate: Certificate,
    /// Private key of the owner.
    pub key: KeyPair,
}

impl Signed {
    /// Returns the key, followed by the certificate, as PEM.
    pub fn pem(&self) -> String {
        self.key.serialize_pem() + &self.certificate.pem()
    }
}

/// A certificate of X.509 version 1 with its key.
#[derive(Debug)]
pub struct SignedVersion1 {
    /// Certificate in DER encoding.
    pub der: Vec<u8>,
    /// Private key of the owner.
    pub key: KeyPair,
}

impl SignedVersion1 {
    /// Returns the certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        let text = BASE64_STANDARD.encode(&self.der);
        let lines: Vec<&[u8]> = text.as_bytes().chunks(64).collect();
        let lines = lines.join(&b'\n');
        let lines = String::from_utf8_lossy(&lines);
        format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    }

    /// Returns the key, followed by the certificate, as PEM.
    pub fn pem(&self) -> String {
        self.key.serialize_pem() + &self.certificate_pem()
    }

    /// Creates an authority that has this certificate's key. `params` are the parameters of the
    /// certificate.
    pub fn into_authority(self, params: CertificateParams) -> Authority {
        let pem = self.certificate_pem();
        let issuer = Issuer::new(params, self.key);
        Authority { issuer, pem }
    }

    /// Creates a self-signed certificate of version 1.
    pub fn self_signed(params: &CertificateParams) -> Self {
        let Signed { certificate, key } = self_signed(params);
        let der = to_version1(certificate.der(), &key);
        Self { der, key }
    }
}

impl Authority {
    /// Creates an authority with this name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = self_signed(&params);
        let pem = own.certificate.pem();
        let issuer = Issuer::new(params, own.key);
        Self { issuer, pem }
    }

    /// Returns the authority's own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs a certificate for a new key.
    pub fn sign(&self, params: &CertificateParams) -> Signed {
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer);
        Signed {
            certificate: certificate.expect("a certificate"),
            key,
        }
    }

    /// Signs a certificate of version 1 for a new key. Omits the extensions of `params`, such as
    /// alternative names.
    pub fn sign_version1(&self, params: &CertificateParams) -> SignedVersion1 {
        let Signed { certificate, key } = self.sign(params);
        let der = to_version1(certificate.der(), self.issuer.key());
        SignedVersion1 { der, key }
    }

    /// Signs a certificate for a member or client with this name, with the parameters of
    /// [`params`].
    pub fn member(&self, name: &str) -> Signed {
        self.sign(&params(name))
    }

    /// Creates a revocation list that is valid until the start of `until_year`. `names` determine
    /// the [`serial_number`]s of the revoked certificates.
    pub fn revoke(&self, names: &[&str], until_year: i32) -> CertificateRevocationList {
        let revoked = names.iter().map(|name| RevokedCertParams {
            serial_number: serial_number(name),
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: date_time_ymd(until_year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).expect("a list")
    }
}

/// Returns a copy of a certificate without version, unique ids and extensions, signed with `key`.
fn to_version1(certificate: &[u8], key: &KeyPair) -> Vec<u8> {
    let (_, signed, _) = element(certificate);
    let (_, data, rest) = element(signed);
    let (_, algorithm_content, _) = element(rest);
    let mut fields = data;
    let mut kept = Vec::new();
    while !fields.is_empty() {
        let (tag, content, rest) = element(fields);
        // Version, unique ids and extensions have other tags. The kept fields are a number and
        // sequences.
        if matches!(tag, 0x02 | 0x30) {
            kept.extend(with_tag(tag, content));
        }
        fields = rest;
    }
    let data = with_tag(0x30, &kept);
    let signature = key.sign(&data).expect("a signature");
    let signature = [&[0][..], &signature].concat();
    let algorithm = with_tag(0x30, algorithm_content);
    let signed = [data, algorithm, with_tag(0x03, &signature)].concat();
    with_tag(0x30, &signed)
}

/// Returns the tag and content of the first DER element, and the bytes after this element.
fn element(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let (tag, first) = (bytes[0], bytes[1]);
    let (len, start) = match first {
        0..=0x7F => (usize::from(first), 2),
        _ => {
            let digits = usize::from(first & 0x7F);
            let digits = &bytes[2..2 + digits];
            let len = digits
                .iter()
                .fold(0, |len, &digit| len << 8 | usize::from(digit));
            (len, 2 + digits.len())
        }
    };
    (tag, &bytes[start..start + len], &bytes[start + len..])
}

/// Encodes an element with this tag.
fn with_tag(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(content.len()) {
        Ok(len @ ..0x80) => bytes.push(len),
        Ok(len) => bytes.extend([0x81, len]),
        Err(_) => {
            let len = u16::try_from(content.len()).expect("a short element");
            bytes.push(0x82);
            bytes.extend(len.to_be_bytes());
        }
    }
    bytes.extend(content);
    bytes
}

/// Creates a self-signed certificate.
pub fn self_signed(params: &CertificateParams) -> Signed {
    let key = new_key();
    let certificate = params.self_signed(&key).expect("a certificate");
    Signed { certificate, key }
}

/// Returns the parameters for a member or client with this name: `CN=<name>,OU=Ops,O=Test`, valid
/// for clients and servers on the loopback address.
pub fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.serial_number = Some(serial_number(name));
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in [
        (DnType::OrganizationName, "Test"),
        (DnType::OrganizationalUnitName, "Ops"),
        (DnType::CommonName, name),
    ] {
        params.distinguished_name.push(kind, value);
    }
    params.subject_alt_names = vec![
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::DnsName("localhost".try_into().expect("a name")),
    ];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

/// Returns a serial number that contains the name, truncated to the maximum length.
pub fn serial_number(name: &str) -> SerialNumber {
    let bytes = name.as_bytes();
    SerialNumber::from_slice(bytes.get(..SERIAL_BYTES_MAX).unwrap_or(bytes))
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
