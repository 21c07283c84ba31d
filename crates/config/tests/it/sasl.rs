//! What SASL needs of the JAAS file, and how it is refused without: nobody may believe to be protected.

use config::{Config, SaslAcceptor, SaslInitiator, SaslUsers, Secret};

use crate::support::{JAAS, JAAS_FILE, Machine, warnings};

const PROVIDER: &str =
    "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";

fn named(jaas: &str) -> Machine {
    let flag = format!("java.security.auth.login.config={JAAS_FILE}");
    Machine::alone(PROVIDER).file(JAAS_FILE, jaas).flag(&flag)
}

fn users(config: Config) -> SaslUsers {
    match config.auth.sasl.acceptor {
        Some(SaslAcceptor::DigestMd5(users)) => users,
        other => panic!("{other:?}"),
    }
}

fn refusal(machine: Machine) -> String {
    let error = machine.refusal();
    assert_eq!(error.exit_code, 2);
    error.to_string()
}

/// Java starts without SASL here, and everybody may write.
#[test]
fn a_provider_without_a_jaas_file_is_refused_at_its_line() {
    let told = refusal(Machine::alone(PROVIDER));
    assert_eq!(
        told,
        "/conf/zoo.cfg:3: authProvider.sasl: asks for SASL, and no JAAS file says who may log in: \
         everybody would be let in without (start with -Djava.security.auth.login.config=<file> \
         and have a section Server in the file, or leave SASL out)"
    );
}

#[test]
fn a_jaas_file_that_is_not_there_is_refused_with_the_flag_that_names_it() {
    let machine = Machine::alone(PROVIDER).flag("java.security.auth.login.config=/no/jaas.conf");
    let told = refusal(machine);
    let begins = "the command line: -Djava.security.auth.login.config: the JAAS file \
                  /no/jaas.conf cannot be read: ";
    assert!(told.starts_with(begins), "{told}");
    assert!(told.contains("everybody would be let in without"), "{told}");
}

#[test]
fn a_missing_or_empty_section_is_refused_and_the_others_are_named() {
    for jaas in [
        "Client { a.B required; };\nServer { };",
        "Client { }; Server { };",
    ] {
        let told = refusal(named(jaas));
        let begins = "/conf/zoo.cfg:3: authProvider.sasl: asks for SASL, and the JAAS file \
                      /conf/jaas.conf has no section Server (it has: Client, Server)";
        assert!(told.starts_with(begins), "{told}");
    }
}

#[test]
fn another_section_can_be_named_and_must_be_there_then() {
    let jaas = JAAS.replace("Server {", "Zk {");
    let flag = |machine: Machine| machine.flag("zookeeper.sasl.serverconfig=Zk");
    let users = users(flag(named(&jaas)).config());
    assert!(users.password("bob").is_some());
    let told = refusal(flag(named(JAAS)));
    assert!(
        told.starts_with("the command line: -Dzookeeper.sasl.serverconfig: asks for SASL, and"),
        "{told}"
    );
}

#[test]
fn a_section_without_a_provider_lets_people_log_in_as_in_java() {
    let config = Machine::alone("").jaas().config();
    assert!(config.auth.sasl.acceptor.is_some());
    let none = Machine::alone("").config();
    assert!(none.auth.sasl.acceptor.is_none());
}

#[test]
fn faults_in_the_file_have_its_line_and_show_no_password() {
    let told = refusal(named(
        "Server {\n  a.B required\n user_bob=\"hush hush;\n};",
    ));
    assert_eq!(
        told,
        "/conf/jaas.conf:3: the quote is not closed on its line"
    );
}

#[test]
fn a_module_that_is_not_known_is_refused() {
    let told = refusal(named("Server {\n com.example.Module required; };"));
    assert_eq!(
        told,
        "/conf/jaas.conf:2: the section Server logs in by com.example.Module, which is not known \
         here (use org.apache.zookeeper.server.auth.DigestLoginModule or \
         com.sun.security.auth.module.Krb5LoginModule)"
    );
}

#[test]
fn the_super_password_replaces_that_of_the_user_super() {
    let line = "SASLAuthenticationProvider.superPassword=other\n";
    let read = |jaas: &str| {
        let flag = format!("java.security.auth.login.config={JAAS_FILE}");
        let machine = Machine::alone(&format!("{PROVIDER}{line}"));
        machine.file(JAAS_FILE, jaas).flag(&flag).config()
    };
    let with = users(read(JAAS));
    assert_eq!(with.password("super"), Some(&Secret::new("other")));
    let without = read(&JAAS.replace("user_super=", "user_sue="));
    let told = warnings(&without);
    assert!(told.iter().any(|told| told.contains("no user_super")));
    assert!(users(without).password("super").is_none());
}

#[test]
fn members_need_both_sections_and_no_fips_mode() {
    let lines = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n";
    let member = |more: &str| Machine::member(&format!("{lines}{more}"));
    let told = refusal(member("fips-mode=false"));
    assert!(
        told.contains("quorum.auth.enableSasl: asks for SASL, and no JAAS file"),
        "{told}"
    );
    let told = refusal(member("").jaas());
    assert!(
        told.contains("quorum.auth.learnerRequireSasl: asks for DIGEST-MD5"),
        "{told}"
    );
    assert!(told.ends_with("(add fips-mode=false)"), "{told}");
    let sasl = member("fips-mode=false")
        .jaas()
        .config()
        .ensemble
        .unwrap()
        .sasl;
    let Some(SaslInitiator::DigestMd5(login)) = sasl.learner else {
        panic!("no login");
    };
    assert_eq!(login.password, Secret::new("three"));
    let flag = format!("java.security.auth.login.config={JAAS_FILE}");
    for (missing, named) in [
        ("QuorumServer", "QuorumServer"),
        ("QuorumLearner", "QuorumLearner"),
    ] {
        let jaas = JAAS.replace(missing, "Else");
        let told = refusal(member("fips-mode=false").file(JAAS_FILE, &jaas).flag(&flag));
        assert!(told.contains(&format!("has no section {named}")), "{told}");
    }
    let jaas = JAAS.replace("username=", "name=");
    let told = refusal(member("fips-mode=false").file(JAAS_FILE, &jaas).flag(&flag));
    assert!(told.contains("neither username nor password"), "{told}");
}

/// Passwords are in no debug output of a configuration, and in no error.
#[test]
fn debug_output_shows_no_password() {
    let shown = format!("{:?}", Machine::switched_on("").config());
    for password in ["\"one\"", "\"two\"", "\"three\""] {
        assert!(!shown.contains(password), "{password}");
    }
}
