//! Certificates of X.509 version 1: accepted as Java accepts them, and never as authorities.

use config::Tls;
use testkit::certificates::SignedVersion1;
use zoarium_transport::tls::{Endpoint, TlsSource, verify_version1};

use crate::authority::{Authority, params};
use crate::handshakes::{Site, client_refusal, meets, refusal};

/// Seconds since 1970 at which the certificates of these tests are valid.
const NOW_S: u64 = 1_800_000_000;

fn own(site: &Site, name: &str, own: &SignedVersion1, trusted: &str) -> Tls {
    let mut tls = site.server.clone();
    let dir = site.dir.path();
    let (key, trust) = (
        dir.join(format!("{name}.pem")),
        dir.join(format!("{name}-trust.pem")),
    );
    std::fs::write(&key, own.pem()).unwrap();
    std::fs::write(&trust, trusted).unwrap();
    tls.key_store.location = Some(key);
    tls.trust_store.location = Some(trust);
    tls
}

fn version1_of(site: &Site, name: &str) -> SignedVersion1 {
    site.authority.sign_version1(&params(name))
}

fn without(tls: &Tls) -> Tls {
    Tls {
        accepts_version1: false,
        ..tls.clone()
    }
}

#[tokio::test]
async fn both_sides_accept_signed_certificates_of_version_1() {
    let site = Site::new();
    let trusted = site.authority.pem();
    let server = own(&site, "server1", &version1_of(&site, "zk1"), trusted);
    let client = own(&site, "client1", &version1_of(&site, "zk2"), trusted);
    for protocol in ["TLSv1.3", "TLSv1.2"] {
        let with = |tls: &Tls| Tls {
            enabled_protocols: Some(vec![protocol.to_owned()]),
            ..tls.clone()
        };
        for (server, client) in [
            (&server, &client),
            (&server, &site.client),
            (&site.server, &client),
        ] {
            let (accepted, connected) = meets(&with(server), &with(client)).await;
            assert!(
                accepted.is_ok() && connected.is_ok(),
                "{accepted:?} {connected:?}"
            );
        }
    }
    // When the support is switched off, a server's own certificate of version 1 cannot be used, and
    // a peer's certificate is refused.
    let error = TlsSource::load(&without(&server), Endpoint::Quorum, true).unwrap_err();
    assert!(
        error.to_string().contains("UnsupportedCertVersion"),
        "{error}"
    );
    let reason = refusal(&without(&site.server), &client).await;
    assert!(reason.contains("UnsupportedCertVersion"), "{reason}");
    let reason = client_refusal(&server, &without(&site.client)).await;
    assert!(reason.contains("UnsupportedCertVersion"), "{reason}");
}

#[tokio::test]
async fn a_certificate_of_version_1_in_the_trust_store_is_trusted() {
    let site = Site::new();
    let both = SignedVersion1::self_signed(&params("zk"));
    let server = own(&site, "server1", &both, &both.certificate_pem());
    let client = own(&site, "client1", &both, &both.certificate_pem());
    let (accepted, connected) = meets(&server, &client).await;
    assert!(
        accepted.is_ok() && connected.is_ok(),
        "{accepted:?} {connected:?}"
    );
    // Only peers that trust the certificate accept it.
    let client = own(&site, "client2", &both, site.authority.pem());
    let reason = refusal(&site.server, &client).await;
    assert!(reason.contains("UnknownIssuer"), "{reason}");
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused() {
    let site = Site::new();
    let mut mixed = version1_of(&site, "zk1");
    mixed.key = version1_of(&site, "zk2").key;
    let server = own(&site, "mixed", &mixed, site.authority.pem());
    let error = TlsSource::load(&server, Endpoint::Quorum, true).unwrap_err();
    assert!(error.to_string().contains("KeyMismatch"), "{error}");
}

/// Otherwise its holder could sign certificates for any name.
#[tokio::test]
async fn a_certificate_of_version_1_is_not_an_authority() {
    let site = Site::new();
    let (authority, middle) = (&site.authority, version1_of(&site, "middle"));
    let (middle_der, middle_pem) = (middle.der.clone(), middle.certificate_pem());
    let root = der(authority);
    assert_eq!(verify_version1(&middle_der, &root, None, NOW_S), Ok(()));
    let middle = middle.into_authority(params("middle"));
    let leaf = middle.sign_version1(&params("zk2"));
    for authority in [&root, &middle_der] {
        let refused = verify_version1(&leaf.der, authority, None, NOW_S).unwrap_err();
        assert!(refused.contains("UnknownIssuer"), "{refused}");
    }
    // A chain leads from a certificate of version 3 through this certificate to the root.
    let leaf = middle.member("zk2");
    let client = site.own("chain", &leaf);
    let path = client.key_store.location.as_ref().unwrap();
    std::fs::write(path, leaf.pem() + &middle_pem).unwrap();
    let reason = refusal(&site.server, &client).await;
    assert!(reason.contains("UnsupportedCertVersion"), "{reason}");
}

#[test]
fn dates_signature_and_revocation_count_as_for_other_certificates() {
    let site = Site::new();
    let authority = &site.authority;
    let root = der(authority);
    let member = version1_of(&site, "zk1").der;
    let refused = |certificate: &[u8], list: Option<&[u8]>, now_s| {
        verify_version1(certificate, &root, list, now_s).unwrap_err()
    };
    assert_eq!(verify_version1(&member, &root, None, NOW_S), Ok(()));
    let mut dated = params("zk1");
    dated.not_before = rcgen::date_time_ymd(2026, 1, 1);
    dated.not_after = rcgen::date_time_ymd(2028, 1, 1);
    let dated = authority.sign_version1(&dated).der;
    assert_eq!(verify_version1(&dated, &root, None, NOW_S), Ok(()));
    let early = refused(&dated, None, 1_700_000_000);
    assert!(early.contains("NotValidYet"), "{early}");
    let late = refused(&dated, None, 1_900_000_000);
    assert!(late.contains("Expired"), "{late}");
    // Another authority of the same name has another key.
    let stranger = Authority::new("Authority").sign_version1(&params("zk1"));
    let refused_stranger = refused(&stranger.der, None, NOW_S);
    assert!(
        refused_stranger.contains("BadSignature"),
        "{refused_stranger}"
    );
    let version3 = authority.member("zk1");
    refused(version3.certificate.der(), None, NOW_S);

    let list = |names: &[&str], until_year| authority.revoke(names, until_year).der().to_vec();
    let nobody = list(&["somebody"], 3000);
    assert_eq!(
        verify_version1(&member, &root, Some(&nobody), NOW_S),
        Ok(())
    );
    let strangers = Authority::new("Authority").revoke(&[], 3000).der().to_vec();
    for (list, reason) in [
        (list(&["zk1"], 3000), "Revoked"),
        (list(&[], 2002), "ExpiredRevocationList"),
        (strangers, "UnknownRevocationStatus"),
        (vec![0x30, 0], "UnknownRevocationStatus"),
    ] {
        let refused = refused(&member, Some(&list), NOW_S);
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
}

/// Returns the bytes of an authority's certificate.
fn der(authority: &Authority) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let der = CertificateDer::from_pem_slice(authority.pem().as_bytes());
    der.unwrap().to_vec()
}
