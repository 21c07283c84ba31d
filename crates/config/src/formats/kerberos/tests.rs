use super::*;

fn user(rules: &str, name: &str) -> Result<String, NoUserName> {
    let names = KerberosNames::parse(rules, true, true).unwrap();
    names.user_name(name, "HOME")
}

#[test]
fn a_kerberos_name_has_up_to_three_parts() {
    let parts = |name| KerberosName::parse(name).map(|it| (it.service, it.host, it.realm));
    assert_eq!(parts("ann"), Some(("ann", None, None)));
    assert_eq!(parts("ann@A"), Some(("ann", None, Some("A"))));
    assert_eq!(parts("zk/h@A"), Some(("zk", Some("h"), Some("A"))));
    assert_eq!(parts("zk/h"), Some(("zk/h", None, None)));
    for malformed in ["a@b@c", "a/b/c@d", "a@b/c"] {
        assert_eq!(parts(malformed), None, "{malformed}");
    }
}

#[test]
fn the_default_rule_takes_names_of_the_default_realm() {
    assert_eq!(user("DEFAULT", "ann@HOME").unwrap(), "ann");
    assert_eq!(user("DEFAULT", "zk/host@HOME").unwrap(), "zk");
    assert_eq!(user("DEFAULT", "ann").unwrap(), "ann");
    assert_eq!(user("DEFAULT", "ann@AWAY"), Err(NoUserName::NoRule));
    assert_eq!(user("DEFAULT", "a@b@c"), Err(NoUserName::Malformed));
}

/// Source: SaslServerCallbackHandler.handleAuthorizeCallback.
#[test]
fn host_and_realm_are_kept_unless_removed() {
    for (host, realm, expected) in [
        (false, false, "zk/host@HOME"),
        (true, false, "zk@HOME"),
        (false, true, "zk/host"),
        (true, true, "zk"),
    ] {
        let names = KerberosNames::parse("DEFAULT", host, realm).unwrap();
        assert_eq!(names.user_name("zk/host@HOME", "HOME").unwrap(), expected);
    }
}

/// Source: the examples of Hadoop's documentation of auth_to_local, which KerberosName follows.
#[test]
fn rules_are_tried_in_their_order() {
    let rules = "RULE:[2:$1@$0](jt@.*AWAY)s/.*/mapred/ RULE:[2:$1;$2](.*;admin)s/;admin//g\n\
                 RULE:[1:$1@$0](.*@AWAY)s/@.*// DEFAULT";
    assert_eq!(user(rules, "jt/h@AWAY").unwrap(), "mapred");
    assert_eq!(user(rules, "ann/admin@AWAY").unwrap(), "ann");
    assert_eq!(user(rules, "ann@AWAY").unwrap(), "ann");
    assert_eq!(user(rules, "ann/else@HOME").unwrap(), "ann");
    assert_eq!(user(rules, "ann/else@AWAY"), Err(NoUserName::NoRule));
}

#[test]
fn a_pattern_must_fit_the_whole_name() {
    assert_eq!(user("RULE:[1:$1](ann)", "ann@X").unwrap(), "ann");
    assert_eq!(user("RULE:[1:$1](an)", "ann@X"), Err(NoUserName::NoRule));
    assert_eq!(user("RULE:[1:$1](a|ann)", "ann@X").unwrap(), "ann");
}

#[test]
fn replacements_equal_javas() {
    assert_eq!(user("RULE:[1:$1]s/n/m/", "ann@X").unwrap(), "amn");
    assert_eq!(user("RULE:[1:$1]s/n/m/g", "ann@X").unwrap(), "amm");
    assert_eq!(user("RULE:[1:$1]s/(a)(n)/$2$1/", "ann@X").unwrap(), "nan");
    assert_eq!(user(r"RULE:[1:$1]s/a/\$/", "ann@X").unwrap(), "$nn");
    assert_eq!(user("RULE:[1:x$1$y$]", "ann@X").unwrap(), "xanny");
}

#[test]
fn the_result_of_a_rule_must_be_a_simple_name() {
    assert_eq!(user("RULE:[1:$1@$0]", "ann@X"), Err(NoUserName::NotSimple));
    assert_eq!(user("RULE:[1:$2]", "ann@X"), Err(NoUserName::NoPart));
    assert_eq!(
        user("RULE:[1:$99999999999999999999]", "ann@X"),
        Err(NoUserName::NoPart)
    );
}

#[test]
fn invalid_rules_are_refused() {
    for wrong in [
        "default",
        "RULE:[1:$1",
        "RULE:[x:$1]",
        "RULE:[1:$1]s/a",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1](a",
        "RULE:[1:$1]s/a/$/",
        r"RULE:[1:$1]s/a/b\/",
        "DEFAULT, DEFAULT",
    ] {
        let refused = KerberosNames::parse(wrong, false, false);
        assert!(matches!(refused, Err(RuleFault::NoRule(_))), "{wrong}");
    }
    for pattern in ["RULE:[1:$1](*)", "RULE:[1:$1]s/[/b/"] {
        let refused = KerberosNames::parse(pattern, false, false);
        assert!(
            matches!(refused, Err(RuleFault::Pattern { .. })),
            "{pattern}"
        );
    }
    assert!(KerberosNames::parse(" ", false, false).is_ok());
}
