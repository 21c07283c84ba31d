//! Key and trust stores in the formats that servers read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use sha1::{Digest, Sha1};

/// Password of all stores that have one.
pub(crate) const PASSWORD: &str = "the password of all stores";

/// Format of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Pem,
    Pkcs12,
    Jks,
}

/// A private key in PKCS #8 and its certificate, in DER and in PEM encoding.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) key: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
    pub(crate) pem: String,
}

impl Format {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Pem => "pem",
            Self::Pkcs12 => "p12",
            Self::Jks => "jks",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pem => "PEM",
            Self::Pkcs12 => "PKCS12",
            Self::Jks => "JKS",
        }
    }

    /// Returns a store with this key.
    pub(crate) fn key_store(self, pair: &Pair) -> Vec<u8> {
        match self {
            Self::Pem => pair.pem.clone().into_bytes(),
            Self::Pkcs12 => {
                let key = PrivateKey::from_der(&pair.key).expect("a key");
                let certificate = Certificate::from_der(&pair.certificate).expect("a certificate");
                let chain = PrivateKeyChain::new("own", key, [certificate]);
                pkcs12("own", KeyStoreEntry::PrivateKeyChain(chain))
            }
            Self::Jks => {
                let mut entry = jks_entry(1);
                let key = protected(&pair.key);
                put_sized(&mut entry, &key);
                entry.extend(1_u32.to_be_bytes());
                put_certificate(&mut entry, &pair.certificate);
                jks(&entry)
            }
        }
    }

    /// Returns a store that trusts a certificate in PEM encoding.
    pub(crate) fn trust_store(self, pem: &str) -> Vec<u8> {
        match self {
            Self::Pem => pem.as_bytes().to_vec(),
            Self::Pkcs12 => {
                let certificate = Certificate::from_der(&der_of(pem)).expect("a certificate");
                pkcs12("trusted", KeyStoreEntry::Certificate(certificate))
            }
            Self::Jks => {
                let mut entry = jks_entry(2);
                put_certificate(&mut entry, &der_of(pem));
                jks(&entry)
            }
        }
    }
}

/// Decodes a PEM file with one section.
fn der_of(pem: &str) -> Vec<u8> {
    let lines = pem.lines().filter(|line| !line.starts_with('-'));
    let text: String = lines.collect();
    STANDARD.decode(text).expect("base64")
}

fn pkcs12(alias: &str, entry: KeyStoreEntry) -> Vec<u8> {
    let mut store = KeyStore::new();
    store.add_entry(alias, entry);
    let writer = store.writer(PASSWORD);
    // More iterations only take time.
    let writer = writer.encryption_iterations(1).mac_iterations(1);
    writer.write().expect("a store")
}

fn utf16() -> Vec<u8> {
    PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// Returns a store with one entry. The module `transport::tls` describes the format.
fn jks(entry: &[u8]) -> Vec<u8> {
    let mut store = vec![0xFE, 0xED, 0xFE, 0xED];
    store.extend(2_u32.to_be_bytes());
    store.extend(1_u32.to_be_bytes());
    store.extend(entry);
    let mut hash = Sha1::new();
    hash.update(utf16());
    hash.update(b"Mighty Aphrodite");
    hash.update(&store);
    store.extend(hash.finalize());
    store
}

/// Returns the kind, the alias and the time of an entry.
fn jks_entry(kind: u32) -> Vec<u8> {
    let mut entry = kind.to_be_bytes().to_vec();
    put_text(&mut entry, b"own");
    entry.extend(0_u64.to_be_bytes());
    entry
}

fn put_text(entry: &mut Vec<u8>, text: &[u8]) {
    let len = u16::try_from(text.len()).expect("a short text");
    entry.extend(len.to_be_bytes());
    entry.extend(text);
}

fn put_sized(entry: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("few bytes");
    entry.extend(len.to_be_bytes());
    entry.extend(bytes);
}

fn put_certificate(entry: &mut Vec<u8>, certificate: &[u8]) {
    put_text(entry, b"X.509");
    put_sized(entry, certificate);
}

/// Returns a key as JKS protects it: a sequence of the algorithm and the encrypted key.
fn protected(key: &[u8]) -> Vec<u8> {
    const ALGORITHM: [u8; 16] = [
        0x30, 0x0E, 0x06, 0x0A, 0x2B, 0x06, 0x01, 0x04, 0x01, 0x2A, 0x02, 0x11, 0x01, 0x01, 0x05,
        0x00,
    ];
    let salt = [7; 20];
    let (mut encrypted, mut block) = (salt.to_vec(), salt.to_vec());
    for chunk in key.chunks(20) {
        let mut hash = Sha1::new();
        hash.update(utf16());
        hash.update(&block);
        block = hash.finalize().to_vec();
        encrypted.extend(chunk.iter().zip(&block).map(|(byte, mask)| byte ^ mask));
    }
    let mut hash = Sha1::new();
    hash.update(utf16());
    hash.update(key);
    encrypted.extend(hash.finalize());
    let content = [&ALGORITHM[..], &element(0x04, &encrypted)].concat();
    element(0x30, &content)
}

/// Encodes a DER element.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("a short element");
    let [high, low] = len.to_be_bytes();
    [&[tag, 0x82, high, low], content].concat()
}
