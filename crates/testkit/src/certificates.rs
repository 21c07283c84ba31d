//! Certificates and lists of revoked ones, made when a test runs.

use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationList,
    CertificateRevocationListParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

/// Bytes of a serial number (RFC 5280, 4.1.2.2).
const SERIAL_BYTES_MAX: usize = 20;

/// Who signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key.
#[derive(Debug)]
pub struct Signed {
    /// What others are shown.
    pub certificate: Certificate,
    /// What is its owner's.
    pub key: KeyPair,
}

impl Signed {
    /// The key, and the certificate behind it.
    pub fn pem(&self) -> String {
        self.key.serialize_pem() + &self.certificate.pem()
    }
}

impl Authority {
    /// An authority of this name that has signed nothing yet.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = self_signed(&params);
        let pem = own.certificate.pem();
        let issuer = Issuer::new(params, own.key);
        Self { issuer, pem }
    }

    /// Its own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs for a new key.
    pub fn sign(&self, params: &CertificateParams) -> Signed {
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer);
        Signed {
            certificate: certificate.expect("a certificate"),
            key,
        }
    }

    /// For a member or client of this name, as [`params`] says.
    pub fn member(&self, name: &str) -> Signed {
        self.sign(&params(name))
    }

    /// A list of those that count no more, by the names of their [`serial_number`]s, until a year begins.
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

/// One that only its own key stands for.
pub fn self_signed(params: &CertificateParams) -> Signed {
    let key = new_key();
    let certificate = params.self_signed(&key).expect("a certificate");
    Signed { certificate, key }
}

/// What a member or client of this name asks for: `CN=<name>,OU=Ops,O=Test`, good for both sides on the loopback
/// address.
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

/// By a name, of which it has room for so much.
pub fn serial_number(name: &str) -> SerialNumber {
    let bytes = name.as_bytes();
    SerialNumber::from_slice(bytes.get(..SERIAL_BYTES_MAX).unwrap_or(bytes))
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
