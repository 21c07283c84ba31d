use jute::Str;
use proto::data::{RequestAcl, perms};
use proto::{Acl, ErrorCode, Id, Secret};

use super::*;

fn id(scheme: &str, id: &str) -> Id {
    Id {
        scheme: scheme.into(),
        id: id.into(),
    }
}

fn entry(perms: i32, scheme: Option<&str>, id: Option<&str>) -> RequestAcl {
    RequestAcl {
        perms,
        scheme: scheme.map(Str::from),
        id: id.map(Str::from),
    }
}

fn stored(entries: &[RequestAcl], identities: &[Id]) -> Result<Vec<Acl>, ErrorCode> {
    normalise(&AuthSettings::default(), Some(entries), identities)
}

fn one(scheme: Option<&str>, id: Option<&str>) -> Result<Vec<Acl>, ErrorCode> {
    stored(&[entry(31, scheme, id)], &[])
}

#[test]
fn digest_ids_are_those_of_the_tables() {
    for (data, expected) in [
        ("super:admin", "super:xQJmxLMiHGwaqBvst5y6rkB6HQs="),
        ("user:pass", "user:smGaoVKd/cQkjm7b88GyorAUz20="),
        ("bob:pw", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="),
        ("super:hunter2", "super:V1o6/gHR24bI2f+NOZanWPgr+eg="),
    ] {
        assert_eq!(digest_id(DigestAlgorithm::Sha1, data.as_bytes()), expected);
    }
    let sha256 = DigestAlgorithm::from_name("sha-256").unwrap();
    assert_eq!(digest_id(sha256, b"").len(), 1 + 44);
    assert_eq!(DigestAlgorithm::from_name("MD5"), None);
}

#[test]
fn row_231_auth_data_without_colon_is_all_user() {
    let ids = authenticate(&AuthSettings::default(), Some("digest"), Some(b"zed"), "").unwrap();
    assert!(ids[0].id.starts_with("zed:"));
}

#[test]
fn rows_232_to_234_and_321_schemes_that_cannot_be_used() {
    let settings = AuthSettings::default();
    let mut refused = vec![(Some("digest"), None), (None, Some(&b"x"[..]))];
    for scheme in [
        "", "foo", "sasl", "super", "world", "auth", "x509", "ensemble",
    ] {
        refused.push((Some(scheme), Some(b"a:b")));
    }
    for (scheme, data) in refused {
        let result = authenticate(&settings, scheme, data, "1.2.3.4");
        assert_eq!(result, Err(ErrorCode::AuthFailed), "{scheme:?}");
    }
}

#[test]
fn rows_235_and_322_ip_ignores_its_data_and_digest_takes_empty_data() {
    let settings = AuthSettings::default();
    let ip = authenticate(&settings, Some("ip"), None, "1.2.3.4").unwrap();
    assert_eq!(ip, [id("ip", "1.2.3.4")]);
    let empty = authenticate(&settings, Some("digest"), Some(b""), "").unwrap();
    assert_eq!(user_name(&empty[0]), "");
}

#[test]
fn row_243_the_super_digest_brings_two_identities() {
    let mut settings = AuthSettings::default();
    settings.digest.super_digest = Some(Secret::new("super:xQJmxLMiHGwaqBvst5y6rkB6HQs="));
    let ids = authenticate(&settings, Some("digest"), Some(b"super:admin"), "").unwrap();
    assert_eq!(ids[0], id("super", ""));
    assert_eq!(
        (ids.len(), user_name(&ids[0]), user_name(&ids[1])),
        (2, "", "super")
    );
    let other = authenticate(&settings, Some("digest"), Some(b"super:wrong"), "").unwrap();
    assert_eq!(other.len(), 1);
}

#[test]
fn ensemble_names_are_compared_when_there_are_any() {
    let names = |names: &[&str]| AuthSettings {
        ensemble: Some(EnsembleSettings {
            names: names.iter().map(ToString::to_string).collect(),
        }),
        ..AuthSettings::default()
    };
    let ask = |settings: &AuthSettings, name: &[u8]| {
        authenticate(settings, Some("ensemble"), Some(name), "").is_ok()
    };
    assert!(
        ask(&names(&[]), b"any") && ask(&names(&["one"]), b"") && ask(&names(&["one"]), b"one")
    );
    assert!(!ask(&names(&["one"]), b"two"));
}

#[test]
fn rows_83_to_87_lists_that_are_refused() {
    let none = normalise(&AuthSettings::default(), None, &[]);
    assert_eq!(none, Err(ErrorCode::InvalidAcl));
    assert_eq!(stored(&[], &[]), Err(ErrorCode::InvalidAcl));
    assert_eq!(one(Some("foo"), Some("x")), Err(ErrorCode::InvalidAcl));
    assert_eq!(one(Some("world"), Some("x")), Err(ErrorCode::InvalidAcl));
}

#[test]
fn row_88_a_null_scheme_fails_depending_on_earlier_entries() {
    let world = entry(31, Some("world"), Some("anyone"));
    assert_eq!(one(None, Some("x")), Err(ErrorCode::InvalidAcl));
    let behind_other_perms = [world.clone(), entry(1, None, Some("x"))];
    assert_eq!(stored(&behind_other_perms, &[]), Err(ErrorCode::InvalidAcl));
    let behind_equal_perms = [world, entry(31, None, Some("x"))];
    assert_eq!(
        stored(&behind_equal_perms, &[]),
        Err(ErrorCode::MarshallingError)
    );
}

#[test]
fn rows_89_and_302_a_null_id_fails_by_its_scheme() {
    for scheme in ["world", "ip", "digest"] {
        assert_eq!(
            one(Some(scheme), None),
            Err(ErrorCode::MarshallingError),
            "{scheme}"
        );
    }
    assert_eq!(one(Some("sasl"), None), Err(ErrorCode::InvalidAcl));
    let bob = [id("digest", "bob:x")];
    let auth = stored(&[entry(3, Some("auth"), None)], &bob).unwrap();
    assert_eq!(auth, [Acl::new(3, "digest", "bob:x")]);
}

#[test]
fn rows_239_and_240_auth_stands_for_all_authenticated_identities() {
    let mine = [
        id("ip", "1.2.3.4"),
        id("digest", "a:1"),
        id("super", ""),
        id("digest", "b:2"),
    ];
    let expanded = stored(&[entry(31, Some("auth"), Some(""))], &mine).unwrap();
    assert_eq!(
        expanded,
        [Acl::new(31, "digest", "a:1"), Acl::new(31, "digest", "b:2")]
    );
    let nobody = stored(&[entry(31, Some("auth"), Some(""))], &mine[..1]);
    assert_eq!(nobody, Err(ErrorCode::InvalidAcl));
}

#[test]
fn the_auth_scheme_cannot_inflate_a_list() {
    let mine: Vec<_> = (0..1000)
        .map(|n| id("digest", &format!("u{n}:x")))
        .collect();
    let entries: Vec<_> = (0..1000).map(|n| entry(n, Some("auth"), None)).collect();
    assert_eq!(stored(&entries, &mine), Err(ErrorCode::InvalidAcl));
}

#[test]
fn row_244_digest_ids() {
    for (text, valid) in [
        ("a:b", true),
        (":x", true),
        ("a:b:", true),
        ("a", false),
        ("a:", false),
        ("a:b:c", false),
        ("", false),
        ("::", false),
    ] {
        assert_eq!(one(Some("digest"), Some(text)).is_ok(), valid, "{text}");
    }
}

#[test]
fn rows_245_and_246_addresses() {
    for (text, valid) in [
        ("1.2.3.4", true),
        ("1.2.3.4/8", true),
        ("1.2.3.4/0", true),
        ("1.2.3.4/32", true),
        ("::1/128", true),
        ("::1", true),
        ("fe80::1:2/64", true),
        ("1:2:3:4:5:6:7:8", true),
        ("1.2.3.4/33", false),
        ("1.2.3", false),
        ("1.2.3.4/", false),
        ("1.2.3.256", false),
        ("::1/129", false),
        ("::ffff:1.2.3.4", false),
        ("1:2:3", false),
        ("", false),
        ("1.2.3.4/-1", false),
        ("1.2.3.4.5", false),
    ] {
        assert_eq!(one(Some("ip"), Some(text)).is_ok(), valid, "{text}");
    }
}

#[test]
fn rows_247_and_248_schemes_without_provider() {
    assert_eq!(one(Some("sasl"), Some("x")), Err(ErrorCode::InvalidAcl));
    assert_eq!(one(Some("super"), Some("")), Err(ErrorCode::InvalidAcl));
    let settings = AuthSettings {
        sasl: Some(SaslSettings::default()),
        x509: Some(X509Settings::default()),
        ..AuthSettings::default()
    };
    let ask = |scheme, text| {
        normalise(&settings, Some(&[entry(31, Some(scheme), Some(text))]), &[]).is_ok()
    };
    assert!(ask("sasl", "bob") && ask("sasl", "bob/host@REALM"));
    assert!(!ask("sasl", "a/b/c@R") && !ask("sasl", "a@b@c"));
    assert!(ask("x509", "CN=bob,OU=\"a,b\",O=x\\,y") && !ask("x509", "bob"));
}

#[test]
fn row_249_duplicates_are_stored_once_and_order_is_kept() {
    let list = [
        entry(1, Some("digest"), Some("b:x")),
        entry(1, Some("world"), Some("anyone")),
        entry(1, Some("digest"), Some("b:x")),
        entry(2, Some("digest"), Some("b:x")),
    ];
    let expected = [
        Acl::new(1, "digest", "b:x"),
        Acl::new(1, "world", "anyone"),
        Acl::new(2, "digest", "b:x"),
    ];
    assert_eq!(stored(&list, &[]).unwrap(), expected);
}

#[test]
fn rows_250_and_251_permission_bits_are_stored_as_they_come() {
    for perms in [0, -1, 32, i32::MAX] {
        let list = stored(&[entry(perms, Some("world"), Some("anyone"))], &[]).unwrap();
        let settings = AuthSettings::default();
        let may_read = permits(&settings, &list, perms::READ, &[]);
        assert_eq!((list[0].perms, may_read), (perms, perms & 1 == 1));
    }
}

#[test]
fn a_check_needs_one_bit_and_one_identity() {
    let settings = AuthSettings::default();
    let acl = [
        Acl::new(perms::READ, "digest", "a:1"),
        Acl::new(perms::WRITE, "ip", "10.0.0.0/8"),
    ];
    let may = |wanted, ids: &[Id]| permits(&settings, &acl, wanted, ids);
    assert!(may(perms::READ, &[id("digest", "a:1")]));
    assert!(!may(perms::WRITE, &[id("digest", "a:1")]));
    assert!(may(perms::READ | perms::ADMIN, &[id("digest", "a:1")]));
    assert!(
        may(perms::WRITE, &[id("ip", "10.1.2.3")]) && !may(perms::WRITE, &[id("ip", "11.1.2.3")])
    );
    assert!(!may(perms::WRITE, &[id("ip", "::1")]));
    assert!(may(perms::ADMIN, &[id("super", "")]));
    assert!(permits(&settings, &[], perms::ADMIN, &[]));
}

#[test]
fn an_address_matches_by_its_first_bits() {
    let matches = |held, wanted| AuthSettings::default().matches("ip", held, wanted);
    assert!(matches("127.0.0.1", "127.9.9.9/8") && matches("1.2.3.4", "9.9.9.9/0"));
    assert!(!matches("127.0.0.1", "127.9.9.9/9") || matches("127.0.0.1", "127.0.9.9/9"));
    assert!(matches("0:0:0:0:0:0:0:1", "::1") && matches("fe80:0:0:0:0:0:0:1%eth0", "fe80::/10"));
    assert!(!matches("0:0:0:0:0:0:0:1", "0.0.0.1"));
}

#[test]
fn sasl_and_x509_have_users_who_match_more() {
    let settings = AuthSettings {
        sasl: Some(SaslSettings {
            any_user_id: Some("everyone".into()),
        }),
        x509: Some(X509Settings {
            super_user: Some("CN=root".into()),
        }),
        ..AuthSettings::default()
    };
    assert!(settings.matches("sasl", "super", "bob") && settings.matches("sasl", "al", "everyone"));
    assert!(!settings.matches("sasl", "al", "bob"));
    assert!(settings.matches("x509", "CN=root", "CN=bob"));
    assert!(!settings.matches("x509", "CN=bob", "CN=root"));
}
