//! JKS, Java's first key store.
//!
//! ```text
//! magic FE ED FE ED, version (1 or 2), number of entries       each u32, big-endian
//! entry:  1  alias, time, encrypted key, certificate chain      a private key
//!         2  alias, time, certificate                           a trusted certificate
//! end:    SHA-1 of (password as UTF-16BE, "Mighty Aphrodite", all bytes before)
//!
//! text: u16 length, bytes    key: u32 length, bytes    time: u64 ms
//! certificate: in version 2 a text ("X.509"); u32 length, DER      chain: u32 number, certificates
//! ```
//!
//! The encrypted key is DER: an algorithm (1.3.6.1.4.1.42.2.17.1.1) and a string. The string
//! consists of a salt (20 bytes), the key XORed with a stream of SHA-1 blocks, and a check (20
//! bytes). Source: JavaKeyStore, KeyProtector.

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::KeyMaterial;
use crate::tls::error::StoreFault;

/// Magic number of JKS stores.
pub(super) const MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];

const KIND: &str = "JKS";
const HASH_BYTES: usize = 20;

/// Constant part of the checksum's input, the same in all stores.
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// DER encoding of the identifier 1.3.6.1.4.1.42.2.17.1.1.
const KEY_PROTECTOR: [u8; 12] = [
    0x06, 0x0A, 0x2B, 0x06, 0x01, 0x04, 0x01, 0x2A, 0x02, 0x11, 0x01, 0x01,
];

/// Maximum number of entries. A store with a larger number is treated as corrupt.
const ENTRIES_MAX: u32 = 100_000;

enum StoreEntry<'a> {
    Key {
        encrypted: &'a [u8],
        chain: Vec<&'a [u8]>,
    },
    Trusted(&'a [u8]),
}

pub(super) fn key(bytes: &[u8], password: &str) -> Result<KeyMaterial, StoreFault> {
    for entry in entries(bytes, password)? {
        let StoreEntry::Key { encrypted, chain } = entry else {
            continue;
        };
        if chain.is_empty() {
            continue;
        }
        let key = unprotect(encrypted, password)?;
        return Ok(KeyMaterial {
            key: PrivatePkcs8KeyDer::from(key).into(),
            chain: chain.into_iter().map(owned).collect(),
        });
    }
    Err(StoreFault::NoKey)
}

/// Returns the trusted certificates, and each key's own certificate, which Java also trusts.
pub(super) fn certificates(
    bytes: &[u8],
    password: &str,
) -> Result<Vec<CertificateDer<'static>>, StoreFault> {
    let trusted = entries(bytes, password)?.into_iter();
    let trusted = trusted.filter_map(|entry| match entry {
        StoreEntry::Trusted(der) => Some(owned(der)),
        StoreEntry::Key { chain, .. } => chain.first().copied().map(owned),
    });
    let trusted: Vec<_> = trusted.collect();
    if trusted.is_empty() {
        return Err(StoreFault::NoCertificates { hint: "" });
    }
    Ok(trusted)
}

fn owned(der: &[u8]) -> CertificateDer<'static> {
    der.to_vec().into()
}

fn entries<'a>(bytes: &'a [u8], password: &str) -> Result<Vec<StoreEntry<'a>>, StoreFault> {
    let (content, checksum) = bytes
        .split_last_chunk::<HASH_BYTES>()
        .ok_or_else(cut_off)
        .map(|(content, checksum)| (content, checksum.as_slice()))?;
    let mut reader = Reader(content);
    reader.take(MAGIC.len())?;
    let version = reader.u32()?;
    if !matches!(version, 1 | 2) {
        let reason = format!("version {version} is unknown");
        return Err(StoreFault::malformed(KIND, reason));
    }
    let count = reader.u32()?;
    if count > ENTRIES_MAX {
        let reason = format!("the number of entries is {count}, the limit is {ENTRIES_MAX}");
        return Err(StoreFault::malformed(KIND, reason));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(reader.entry(version)?);
    }
    if !reader.0.is_empty() {
        return Err(StoreFault::malformed(KIND, "bytes follow the last entry"));
    }
    // Java ignores the checksum of a trust store if no password is configured.
    let is_sealed = bool::from(seal(content, password)[..].ct_eq(checksum));
    if !password.is_empty() && !is_sealed {
        return Err(StoreFault::Password);
    }
    Ok(entries)
}

fn seal(content: &[u8], password: &str) -> Vec<u8> {
    let mut hash = Sha1::new();
    hash.update(utf16(password));
    hash.update(WHITENER);
    hash.update(content);
    hash.finalize().to_vec()
}

fn utf16(password: &str) -> Zeroizing<Vec<u8>> {
    let bytes = password.encode_utf16().flat_map(u16::to_be_bytes);
    Zeroizing::new(bytes.collect())
}

/// Returns the decrypted key in PKCS #8.
fn unprotect(encrypted: &[u8], password: &str) -> Result<Vec<u8>, StoreFault> {
    let protected = protected(encrypted).ok_or_else(|| {
        StoreFault::malformed(
            KIND,
            "the private key does not use the key protection of Java",
        )
    })?;
    let (salt, rest) = protected
        .split_first_chunk::<HASH_BYTES>()
        .ok_or_else(cut_off)?;
    let (body, check) = rest.split_last_chunk::<HASH_BYTES>().ok_or_else(cut_off)?;
    let password = utf16(password);
    let mut block = salt.to_vec();
    let mut key = Vec::with_capacity(body.len());
    for chunk in body.chunks(HASH_BYTES) {
        let mut hash = Sha1::new();
        hash.update(&password);
        hash.update(&block);
        block = hash.finalize().to_vec();
        key.extend(chunk.iter().zip(&block).map(|(byte, mask)| byte ^ mask));
    }
    let mut hash = Sha1::new();
    hash.update(&password);
    hash.update(&key);
    if !bool::from(hash.finalize().as_slice().ct_eq(check)) {
        return Err(StoreFault::KeyPassword);
    }
    Ok(key)
}

/// Returns the string in `SEQUENCE { SEQUENCE { algorithm, .. }, OCTET STRING }`.
fn protected(der: &[u8]) -> Option<&[u8]> {
    let (outer, rest) = element(der, 0x30)?;
    if !rest.is_empty() {
        return None;
    }
    let (algorithm, string) = element(outer, 0x30)?;
    if !algorithm.starts_with(&KEY_PROTECTOR) {
        return None;
    }
    let (protected, rest) = element(string, 0x04)?;
    rest.is_empty().then_some(protected)
}

/// Returns the content of a DER element with this tag, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    if first != tag {
        return None;
    }
    let (len, rest) = match short {
        0..=0x7F => (usize::from(short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7F))?;
            let len = digits
                .iter()
                .fold(0, |len, digit| len << 8 | usize::from(*digit));
            (len, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

fn cut_off() -> StoreFault {
    StoreFault::malformed(KIND, "the store ends early")
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], StoreFault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreFault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, StoreFault> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<&'a [u8], StoreFault> {
        let len = u16::from_be_bytes(self.array()?);
        self.take(len.into())
    }

    fn sized(&mut self) -> Result<&'a [u8], StoreFault> {
        let len = usize::try_from(self.u32()?).map_err(|_| cut_off())?;
        self.take(len)
    }

    fn certificate(&mut self, version: u32) -> Result<&'a [u8], StoreFault> {
        if version == 2 && self.text()? != b"X.509" {
            return Err(StoreFault::malformed(KIND, "a certificate is not X.509"));
        }
        self.sized()
    }

    fn entry(&mut self, version: u32) -> Result<StoreEntry<'a>, StoreFault> {
        let tag = self.u32()?;
        self.text()?;
        self.array::<8>()?;
        match tag {
            1 => {
                let encrypted = self.sized()?;
                let count = self.u32()?;
                let mut chain = Vec::new();
                for _ in 0..count {
                    chain.push(self.certificate(version)?);
                }
                Ok(StoreEntry::Key { encrypted, chain })
            }
            2 => Ok(StoreEntry::Trusted(self.certificate(version)?)),
            _ => {
                let reason = format!("an entry has the unknown kind {tag}");
                Err(StoreFault::malformed(KIND, reason))
            }
        }
    }
}
