//! Tests of key and trust stores written by keytool and openssl.

use std::path::PathBuf;
use std::process::Command;

use config::StoreFormat;
use proptest::prelude::*;
use tempfile::TempDir;
use zoarium_transport::tls::{certificate, read_key_store, read_trust_store};

const PASSWORD: &str = "a password";
const NAME: &str = "CN=zk1, OU=Ops, O=Test";
const SUBJECT: &str = "CN=zk1,OU=Ops,O=Test";

struct Site {
    dir: TempDir,
}

/// Returns a directory for stores, or `None` if one of the tools is missing.
fn site() -> Option<Site> {
    let has = |tool: &str| Command::new(tool).arg("-help").output().is_ok();
    if !has("keytool") || !has("openssl") {
        eprintln!("skipped: keytool or openssl is missing");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    Some(Site { dir })
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, tool: &str, args: &[&str]) {
        let ran = Command::new(tool)
            .current_dir(self.dir.path())
            .args(args)
            .output()
            .unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(ran.status.success(), "{tool} {args:?}: {said}");
    }

    /// Creates a store with a key of this algorithm.
    fn key_store(&self, name: &str, kind: &str, algorithm: &str) {
        self.run(
            "keytool",
            &[
                "-genkeypair",
                "-alias",
                "own",
                "-keyalg",
                algorithm,
                "-dname",
                NAME,
                "-validity",
                "30",
                "-keystore",
                name,
                "-storetype",
                kind,
                "-storepass",
                PASSWORD,
                "-keypass",
                PASSWORD,
            ],
        );
    }

    /// Creates a store that trusts the certificate of `of`.
    fn trust_store(&self, name: &str, kind: &str, of: &str) {
        let exported = format!("{name}.crt");
        self.run(
            "keytool",
            &[
                "-exportcert",
                "-alias",
                "own",
                "-keystore",
                of,
                "-storepass",
                PASSWORD,
                "-file",
                &exported,
            ],
        );
        self.run(
            "keytool",
            &[
                "-importcert",
                "-noprompt",
                "-alias",
                "peer",
                "-file",
                &exported,
                "-keystore",
                name,
                "-storetype",
                kind,
                "-storepass",
                PASSWORD,
            ],
        );
    }

    /// Creates `key.pem` and `cert.pem`.
    fn pair(&self) {
        self.run(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                "key.pem",
                "-out",
                "cert.pem",
                "-days",
                "30",
                "-subj",
                "/O=Test/OU=Ops/CN=zk1",
            ],
        );
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
}

fn subjects(format: StoreFormat, bytes: &[u8], password: &str) -> Result<Vec<String>, String> {
    let trusted = read_trust_store(format, bytes, password).map_err(|fault| fault.to_string())?;
    let subjects = trusted.iter().map(|der| certificate::subject(der).unwrap());
    Ok(subjects.collect())
}

/// Returns the subjects of the chain, and checks that the store contains a key.
fn key(format: StoreFormat, bytes: &[u8], password: &str) -> Result<Vec<String>, String> {
    let material = read_key_store(format, bytes, password).map_err(|fault| fault.to_string())?;
    assert!(material.key.secret_der().len() > 32);
    let chain = material.chain.iter();
    Ok(chain
        .map(|der| certificate::subject(der).unwrap())
        .collect())
}

#[test]
fn stores_of_keytool_are_read_with_any_configured_type() {
    let Some(site) = site() else { return };
    for (kind, algorithm) in [
        ("JKS", "RSA"),
        ("JKS", "EC"),
        ("PKCS12", "RSA"),
        ("PKCS12", "EC"),
    ] {
        let (own, trusted) = (
            format!("{kind}{algorithm}.own"),
            format!("{kind}{algorithm}.trust"),
        );
        site.key_store(&own, kind, algorithm);
        site.trust_store(&trusted, kind, &own);
        for format in [StoreFormat::Jks, StoreFormat::Pkcs12] {
            let own = site.read(&own);
            assert_eq!(key(format, &own, PASSWORD).unwrap(), [SUBJECT], "{kind}");
            // A key's own certificate is trusted, too.
            assert_eq!(subjects(format, &own, PASSWORD).unwrap(), [SUBJECT]);
            let trusted = site.read(&trusted);
            assert_eq!(subjects(format, &trusted, PASSWORD).unwrap(), [SUBJECT]);
            assert!(
                key(format, &trusted, PASSWORD)
                    .unwrap_err()
                    .contains("a private key with a certificate")
            );
            let wrong = key(format, &own, "wrong").unwrap_err();
            assert!(wrong.contains("password is wrong"), "{wrong}");
            assert!(!wrong.contains("wrong\""), "{wrong}");
        }
    }
}

#[test]
fn stores_of_openssl_are_read() {
    let Some(site) = site() else { return };
    site.pair();
    let pass = format!("pass:{PASSWORD}");
    for (name, more) in [("new.p12", &[][..]), ("old.p12", &["-legacy"])] {
        let mut args = vec![
            "pkcs12", "-export", "-inkey", "key.pem", "-in", "cert.pem", "-out", name, "-passout",
            &pass,
        ];
        args.extend(more);
        site.run("openssl", &args);
        assert_eq!(
            key(StoreFormat::Pkcs12, &site.read(name), PASSWORD).unwrap(),
            [SUBJECT]
        );
    }
    site.run(
        "openssl",
        &[
            "pkcs12",
            "-export",
            "-nokeys",
            "-in",
            "cert.pem",
            "-out",
            "trust.p12",
            "-passout",
            &pass,
        ],
    );
    let unmarked = subjects(StoreFormat::Pkcs12, &site.read("trust.p12"), PASSWORD).unwrap_err();
    assert!(unmarked.contains("keytool -importcert"), "{unmarked}");
    let pem = site.read("cert.pem");
    assert_eq!(subjects(StoreFormat::Pem, &pem, "").unwrap(), [SUBJECT]);
}

#[test]
fn keys_in_pem_are_read_with_a_password_and_without() {
    let Some(site) = site() else { return };
    site.pair();
    let pass = format!("pass:{PASSWORD}");
    let certificate = site.read("cert.pem");
    let plain = [site.read("key.pem"), certificate.clone()].concat();
    assert_eq!(key(StoreFormat::Pem, &plain, "").unwrap(), [SUBJECT]);
    site.run(
        "openssl",
        &[
            "pkcs8",
            "-topk8",
            "-in",
            "key.pem",
            "-out",
            "encrypted.pem",
            "-passout",
            &pass,
        ],
    );
    let encrypted = [site.read("encrypted.pem"), certificate.clone()].concat();
    assert_eq!(
        key(StoreFormat::Pem, &encrypted, PASSWORD).unwrap(),
        [SUBJECT]
    );
    let wrong = key(StoreFormat::Pem, &encrypted, "other").unwrap_err();
    assert!(wrong.contains("cannot be decrypted"), "{wrong}");
    assert!(
        key(StoreFormat::Pem, &certificate, "")
            .unwrap_err()
            .contains("a private key with a certificate")
    );
}

#[test]
fn corrupt_or_foreign_stores_are_reported() {
    let Some(site) = site() else { return };
    site.key_store("own.jks", "JKS", "EC");
    site.key_store("own.p12", "PKCS12", "EC");
    for (name, format) in [
        ("own.jks", StoreFormat::Jks),
        ("own.p12", StoreFormat::Pkcs12),
    ] {
        let whole = site.read(name);
        for len in [0, 1, 3, 11, 40, whole.len() / 2, whole.len() - 1] {
            key(format, &whole[..len], PASSWORD).unwrap_err();
        }
        let mut bent = whole.clone();
        let middle = bent.len() / 2;
        bent[middle] ^= 1;
        key(format, &bent, PASSWORD).unwrap_err();
    }
    let bcfks = key(StoreFormat::Bcfks, b"x", PASSWORD).unwrap_err();
    assert!(bcfks.contains("-srcstoretype BCFKS"), "{bcfks}");
    let text = key(StoreFormat::Jks, b"-----BEGIN CERTIFICATE-----", PASSWORD).unwrap_err();
    assert!(text.contains("not a JKS store"), "{text}");
}

/// Returns stores of keytool as seeds.
fn seeds() -> Vec<Vec<u8>> {
    let Some(site) = site() else {
        return vec![vec![0xFE, 0xED, 0xFE, 0xED]];
    };
    site.key_store("own.jks", "JKS", "EC");
    site.trust_store("trust.jks", "JKS", "own.jks");
    ["own.jks", "trust.jks"].map(|name| site.read(name)).into()
}

#[test]
fn no_bytes_of_a_store_cause_a_panic() {
    let seeds = seeds();
    let change = (
        0..seeds.len(),
        any::<prop::sample::Index>(),
        any::<u8>(),
        any::<u16>(),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
    let checked = runner.run(&change, |(seed, at, byte, cut)| {
        let mut bytes = seeds[seed].clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut % 3 == 0 {
            bytes.truncate(usize::from(cut) % bytes.len());
        }
        for password in ["", PASSWORD] {
            let _ = read_key_store(StoreFormat::Jks, &bytes, password);
            let _ = read_trust_store(StoreFormat::Jks, &bytes, password);
            let _ = read_key_store(StoreFormat::Pem, &bytes, password);
        }
        Ok(())
    });
    checked.unwrap();
}
