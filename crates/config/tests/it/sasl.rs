//! SASL sections of the JAAS file, and servers that start without the file.

use zoarium_config::{Config, SaslAcceptor, SaslInitiator, SaslUsers, Secret};

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

const REQUIRED: [&str; 3] = [
    "sessionRequireClientSASLAuth=true\n",
    "enforce.auth.enabled=true\nenforce.auth.schemes=sasl,x509\n\
     authProvider.x=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n",
    "requireClientAuthScheme=sasl\n",
];

fn has_warning(config: &Config, parts: &[&str]) -> bool {
    let is_it = |told: &String| parts.iter().all(|part| told.contains(part));
    config.auth.sasl.acceptor.is_none() && warnings(config).iter().any(is_it)
}

#[test]
fn a_provider_without_a_jaas_file_starts_with_a_warning_at_its_line() {
    let config = Machine::alone(PROVIDER).config();
    let told = warnings(&config);
    assert_eq!(
        told,
        [
            "/conf/zoo.cfg:3: authProvider.sasl: SASL logins will fail because no JAAS file is \
          configured, and the server accepts clients without a login, as Apache ZooKeeper does \
          (start with -Djava.security.auth.login.config=<file> and write a section Server into \
          the file)"
        ]
    );
    assert_eq!(config.auth.enforced_schemes, None);
}

/// A typo in this path must not admit all clients.
#[test]
fn a_jaas_file_that_does_not_exist_is_refused_with_the_flag_that_names_it() {
    let machine = Machine::alone(PROVIDER).flag("java.security.auth.login.config=/no/jaas.conf");
    let told = refusal(machine);
    let begins = "the command line: -Djava.security.auth.login.config: the JAAS file \
                  /no/jaas.conf cannot be read: ";
    assert!(told.starts_with(begins), "{told}");
    assert!(told.contains("accepted without a login"), "{told}");
}

#[test]
fn required_sasl_without_a_jaas_file_refuses_all_clients() {
    for required in REQUIRED {
        let lines = format!("{PROVIDER}{required}");
        let missing = Machine::alone(&lines).flag("java.security.auth.login.config=/no/jaas.conf");
        let missing = missing.config();
        let parts = ["the JAAS file /no/jaas.conf cannot be read"];
        assert!(
            has_warning(&missing, &parts),
            "{required}: {:?}",
            warnings(&missing)
        );
        let unnamed = Machine::alone(&lines).config();
        for config in [missing, unnamed] {
            let parts = [
                "authProvider.sasl: SASL logins will fail because no JAAS file",
                "the server refuses every session",
            ];
            assert!(
                has_warning(&config, &parts),
                "{required}: {:?}",
                warnings(&config)
            );
            let schemes = config.auth.enforced_schemes.expect("a requirement");
            assert_eq!(
                schemes.first().map(String::as_str),
                Some("sasl"),
                "{required}"
            );
        }
    }
    // The releases ignore this setting, so it requires nothing if clients can log in.
    let lines = format!("{PROVIDER}requireClientAuthScheme=sasl\n");
    let config = Machine::alone(&lines).jaas().config();
    assert_eq!(config.auth.enforced_schemes, None);
}

#[test]
fn a_missing_or_empty_section_is_a_warning_that_names_the_others() {
    for (jaas, names) in [
        ("", "none"),
        ("Client { a.B required; };\nServer { };", "Client, Server"),
        ("Client { }; Server { };", "Client, Server"),
    ] {
        let config = named(jaas).config();
        let text = format!(
            "/conf/zoo.cfg:3: authProvider.sasl: SASL logins will fail because the JAAS file \
             /conf/jaas.conf does not contain the section Server (its sections: {names}), and the \
             server accepts clients"
        );
        assert!(has_warning(&config, &[&text]), "{:?}", warnings(&config));
    }
}

#[test]
fn a_named_section_that_is_missing_is_reported() {
    let jaas = JAAS.replace("Server {", "Zk {");
    let flag = |machine: Machine| machine.flag("zookeeper.sasl.serverconfig=Zk");
    let users = users(flag(named(&jaas)).config());
    assert!(users.password("bob").is_some());
    let config = flag(named(JAAS)).config();
    let text = "the command line: -Dzookeeper.sasl.serverconfig: SASL logins will fail";
    assert!(has_warning(&config, &[text]), "{:?}", warnings(&config));
}

#[test]
fn a_section_without_a_provider_allows_logins_as_in_java() {
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
        "/conf/jaas.conf:2: the section Server uses the unknown login module com.example.Module \
         (use org.apache.zookeeper.server.auth.DigestLoginModule or \
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
    assert!(
        told.iter()
            .any(|told| told.contains("does not contain user_super"))
    );
    assert!(users(without).password("super").is_none());
}

#[test]
fn members_need_both_sections_and_no_fips_mode() {
    let lines = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n";
    let member = |more: &str| Machine::member(&format!("{lines}{more}"));
    let told = refusal(member("fips-mode=false"));
    assert!(
        told.contains("quorum.auth.enableSasl: requires SASL, but no JAAS file"),
        "{told}"
    );
    let told = refusal(member("").jaas());
    assert!(
        told.contains("quorum.auth.learnerRequireSasl: requires DIGEST-MD5"),
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
        assert!(
            told.contains(&format!("does not contain the section {named}")),
            "{told}"
        );
    }
    let jaas = JAAS.replace("username=", "name=");
    let told = refusal(member("fips-mode=false").file(JAAS_FILE, &jaas).flag(&flag));
    assert!(
        told.contains("does not contain a username and a password"),
        "{told}"
    );
}

/// Debug output and errors of a configuration must not contain passwords.
#[test]
fn debug_output_shows_no_password() {
    let shown = format!("{:?}", Machine::switched_on("").config());
    for password in ["\"one\"", "\"two\"", "\"three\""] {
        assert!(!shown.contains(password), "{password}");
    }
}
