//! Kerberos: settings that a build with the feature `gssapi` accepts, and refusals by other builds.

use std::path::Path;

use zoarium_config::{Config, ConfigError, SaslAcceptor, SaslInitiator};

use crate::support::{JAAS_FILE, Machine};

const PROVIDER: &str =
    "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";
const MODULE: &str = "com.sun.security.auth.module.Krb5LoginModule required";

fn section(name: &str, options: &str) -> String {
    format!("{name} {{\n  {MODULE} {options};\n}};\n")
}

fn options(key_tab: &str, principal: &str) -> String {
    format!("useKeyTab=true storeKey=true keyTab=\"{key_tab}\" principal=\"{principal}\"")
}

fn with(machine: Machine, jaas: &str) -> Result<Config, ConfigError> {
    let flag = format!("java.security.auth.login.config={JAAS_FILE}");
    machine.file(JAAS_FILE, jaas).flag(&flag).load()
}

#[test]
fn a_section_names_a_principal_and_its_key_tab() {
    for written in [
        "/etc/zk.keytab",
        "FILE:/etc/zk.keytab",
        "file:/etc/zk.keytab",
    ] {
        let jaas = section("Server", &options(written, "zookeeper/h@A"));
        let config = with(Machine::alone(PROVIDER).gssapi(), &jaas).unwrap();
        let Some(SaslAcceptor::Kerberos(key)) = config.auth.sasl.acceptor else {
            panic!("no key");
        };
        assert_eq!(key.principal, "zookeeper/h@A");
        assert_eq!(key.key_tab, Path::new("/etc/zk.keytab"));
    }
}

#[test]
fn a_missing_option_of_a_section_is_reported_with_its_line() {
    for (options, lacks) in [
        (
            "keyTab=\"/a\" principal=\"zk/h@A\"",
            "does not use a key tab",
        ),
        ("useKeyTab=false keyTab=\"/a\"", "does not use a key tab"),
        (
            "useKeyTab=true principal=\"zk/h@A\"",
            "does not name a key tab",
        ),
        ("useKeyTab=true keyTab=\"/a\"", "does not name a principal"),
        (
            "useKeyTab=true keyTab=\"/a\" principal=\"*\"",
            "does not name a principal",
        ),
    ] {
        let machine = Machine::alone(PROVIDER).gssapi();
        let refused = with(machine, &section("Server", options)).unwrap_err();
        let begins = format!("{JAAS_FILE}:2: the section Server {lacks}");
        assert!(refused.to_string().starts_with(&begins), "{refused}");
    }
}

#[test]
fn a_build_without_kerberos_refuses_it_and_names_the_feature() {
    let jaas = section("Server", &options("/a", "zookeeper/h@A"));
    let refused = with(Machine::alone(PROVIDER), &jaas).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "/conf/jaas.conf:2: the section Server requires Kerberos (GSSAPI), which a build without \
         the feature `gssapi` does not support (use a build with this feature, or remove the \
         Kerberos settings and use DIGEST-MD5)"
    );
    let lines = "kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true\n\
                 kerberos.canonicalizeHostNames=true\nsecurity.auth_to_local=RULE:[1:$1]\n\
                 quorum.auth.kerberos.servicePrincipal=zk/_HOST\n";
    let config = Machine::alone(lines).config();
    assert_eq!(config.refusals.len(), 5);
    assert!(config.check_supported().is_err());
    let config = Machine::alone(lines).gssapi().config();
    config.check_supported().unwrap();
    assert!(config.auth.sasl.remove_host_from_principal);
}

#[test]
fn rules_that_make_no_sense_are_refused_where_kerberos_is_used() {
    let jaas = section("Server", &options("/a", "zookeeper/h@A"));
    let lines = format!("{PROVIDER}security.auth_to_local=DEFAULT, RULE\n");
    let refused = with(Machine::alone(&lines).gssapi(), &jaas).unwrap_err();
    let begins = "/conf/zoo.cfg:4: security.auth_to_local: Invalid rule: , RULE";
    assert!(refused.to_string().starts_with(begins), "{refused}");
}

#[test]
fn members_log_in_by_kerberos_under_fips_mode_too() {
    let lines = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n\
                 quorum.auth.serverRequireSasl=true\n\
                 quorum.auth.kerberos.servicePrincipal=zk/_HOST\n";
    let of_server = section("QuorumServer", &options("/a", "zk/h@A"));
    let of_learner = section("QuorumLearner", &options("/b", "zk/h@A"));
    let jaas = of_server + &of_learner;
    let config = with(Machine::member(lines).gssapi(), &jaas).unwrap();
    let sasl = config.ensemble.unwrap().sasl;
    assert_eq!(sasl.service_principal, "zk/_HOST");
    assert!(matches!(sasl.may_join, Some(SaslAcceptor::Kerberos(_))));
    assert!(matches!(sasl.learner, Some(SaslInitiator::Kerberos(_))));
    // One process cannot use two key tabs for accepted logins.
    let more = jaas + &section("Server", &options("/c", "zookeeper/h@A"));
    let refused = with(Machine::member(lines).gssapi(), &more).unwrap_err();
    assert!(
        refused.to_string().contains("into one key tab"),
        "{refused}"
    );
}
