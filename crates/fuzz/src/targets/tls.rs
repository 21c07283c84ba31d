//! Key and trust stores, and the names of certificates.

use std::sync::OnceLock;

use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use rcgen::DnType;
use sha1::{Digest, Sha1};
use testkit::certificates::{Authority, Signed, params, self_signed};
use transport::tls::{
    StoreFormat, certificate, read_key_store, read_revocations, read_trust_store, verify_version1,
};

use crate::{Memory, Target};

const PASSWORD: &str = "pw";

pub(super) const JKS: Target = Target {
    name: "jks_store",
    run: |data| read(StoreFormat::Jks, data),
    seeds: || vec![jks()],
    words: &["X.509"],
    repair: Some(seal),
    memory: Memory::DECODER,
};

pub(super) const PKCS12: Target = Target {
    name: "pkcs12_store",
    run: |data| read(StoreFormat::Pkcs12, data),
    seeds: || vec![pkcs12()],
    words: &[],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const PEM: Target = Target {
    name: "pem_store",
    run: |data| read(StoreFormat::Pem, data),
    seeds: || vec![own().pem().into_bytes()],
    words: &[
        "-----BEGIN ",
        "-----END ",
        "CERTIFICATE-----",
        "ENCRYPTED PRIVATE KEY-----",
        "\n",
    ],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const SUBJECT: Target = Target {
    name: "certificate_subject",
    run: |data| {
        certificate::subject(&data.into());
    },
    seeds: || vec![own().certificate.der().to_vec()],
    words: &[],
    repair: None,
    memory: Memory::DECODER,
};

/// Verification of a certificate of version 1. Only the bytes of the certificate that the authority
/// has signed may be accepted.
pub(super) const VERSION1: Target = Target {
    name: "version1_certificate",
    run: |data| {
        let (authority, genuine) = version1();
        for list in [None, Some(&*lists().0)] {
            match verify_version1(data, authority, list, NOW_S) {
                Ok(()) => assert_eq!(data, genuine),
                Err(reason) => assert!(!reason.is_empty()),
            }
        }
    },
    seeds: || {
        let (authority, genuine) = version1();
        vec![genuine.clone(), authority.clone()]
    },
    words: &[],
    repair: None,
    memory: Memory::DECODER,
};

/// Time in seconds since 1970 at which the certificates are valid.
const NOW_S: u64 = 1_800_000_000;

/// Returns an authority and a certificate of version 1 that it has signed. That certificate must be
/// accepted.
fn version1() -> &'static (Vec<u8>, Vec<u8>) {
    static MADE: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let authority = Authority::new("Authority");
        let genuine = authority.sign_version1(&params("zk1")).der;
        let authority = read_trust_store(StoreFormat::Pem, authority.pem().as_bytes(), "");
        let authority = authority.expect("a store").remove(0).to_vec();
        assert_eq!(verify_version1(&genuine, &authority, None, NOW_S), Ok(()));
        (authority, genuine)
    })
}

pub(super) const REVOCATIONS: Target = Target {
    name: "revocation_lists",
    run: |data| match read_revocations(data) {
        Ok(lists) => assert!(!lists.is_empty()),
        Err(fault) => assert!(!fault.to_string().is_empty()),
    },
    seeds: || {
        let (der, pem) = lists();
        vec![der, pem.repeat(2).into_bytes()]
    },
    words: &["-----BEGIN X509 CRL-----", "-----END X509 CRL-----", "\n"],
    repair: None,
    memory: Memory::DECODER,
};

/// Returns a revocation list with two certificates, as DER and as PEM.
fn lists() -> (Vec<u8>, String) {
    static LISTS: OnceLock<(Vec<u8>, String)> = OnceLock::new();
    let made = LISTS.get_or_init(|| {
        let list = Authority::new("Authority").revoke(&["zk1", "zk2"], 4000);
        (list.der().to_vec(), list.pem().expect("a list"))
    });
    made.clone()
}

fn read(format: StoreFormat, data: &[u8]) {
    for password in ["", PASSWORD] {
        if let Err(fault) = read_key_store(format, data, password) {
            assert!(!fault.to_string().is_empty());
        }
        let _ = read_trust_store(format, data, password);
    }
}

/// Returns the certificate for all cases in this process. Keys are random, so a case is repeatable
/// only with the same certificate.
fn own() -> &'static Signed {
    static OWN: OnceLock<Signed> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut params = params("zk1");
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Test, with a comma");
        self_signed(&params)
    })
}

/// Returns a store that contains an encrypted key with its certificate, and a trusted certificate.
fn jks() -> Vec<u8> {
    let mut out = vec![0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2, 0, 0, 0, 2];
    let sized = |out: &mut Vec<u8>, bytes: &[u8]| {
        let len = u32::try_from(bytes.len()).expect("a short one");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(bytes);
    };
    let entry = |out: &mut Vec<u8>, kind: u8| {
        out.extend_from_slice(&[0, 0, 0, kind, 0, 3]);
        out.extend_from_slice(b"own");
        out.extend_from_slice(&[0; 8]);
    };
    let of_type = |out: &mut Vec<u8>| out.extend_from_slice(b"\0\x05X.509");
    entry(&mut out, 1);
    sized(&mut out, &protected(&own().key.serialize_der()));
    out.extend_from_slice(&[0, 0, 0, 1]);
    of_type(&mut out);
    sized(&mut out, own().certificate.der());
    entry(&mut out, 2);
    of_type(&mut out);
    sized(&mut out, own().certificate.der());
    out.extend_from_slice(&[0; 20]);
    seal(&mut out);
    out
}

/// Encrypts a key as Java's KeyProtector does, with a salt of zeroes.
fn protected(key: &[u8]) -> Vec<u8> {
    let password = utf16();
    let mut block = vec![0; 20];
    let mut inner = block.clone();
    for chunk in key.chunks(20) {
        block = Sha1::new()
            .chain_update(&password)
            .chain_update(&block)
            .finalize()
            .to_vec();
        inner.extend(chunk.iter().zip(&block).map(|(byte, mask)| byte ^ mask));
    }
    inner.extend(
        Sha1::new()
            .chain_update(&password)
            .chain_update(key)
            .finalize(),
    );
    let algorithm = b"\x30\x0e\x06\x0a\x2b\x06\x01\x04\x01\x2a\x02\x11\x01\x01\x05\x00";
    let body = [algorithm, &*element(0x04, &inner)].concat();
    element(0x30, &body)
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("a short one");
    let mut out = vec![tag, 0x82];
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(content);
    out
}

fn utf16() -> Vec<u8> {
    PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// Corrects the checksum at the end.
fn seal(bytes: &mut [u8]) {
    if let Some((content, checksum)) = bytes.split_last_chunk_mut::<20>() {
        let hash = Sha1::new()
            .chain_update(utf16())
            .chain_update(b"Mighty Aphrodite")
            .chain_update(content)
            .finalize();
        checksum.copy_from_slice(&hash);
    }
}

fn pkcs12() -> Vec<u8> {
    let certificate = Certificate::from_der(own().certificate.der()).expect("a certificate");
    let key = PrivateKey::from_der(&own().key.serialize_der()).expect("a key");
    let chain = PrivateKeyChain::new("own", key, [certificate.clone()]);
    let mut store = KeyStore::new();
    store.add_entry("own", KeyStoreEntry::PrivateKeyChain(chain));
    store.add_entry("peer", KeyStoreEntry::Certificate(certificate));
    let writer = store.writer(PASSWORD);
    let writer = writer.encryption_iterations(1).mac_iterations(1);
    writer.write().expect("a store")
}
