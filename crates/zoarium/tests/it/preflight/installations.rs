//! The prepared installations, and the expected verdict on each, which was written down beforehand.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use super::further::FURTHER;
use super::site::Site;
use crate::support::secrets::{BOB, STORE};

/// A prepared installation with its expected findings. Notes are listed only if they are the point
/// of the case.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) prepare: fn(&Site),
    pub(super) verdict: &'static str,
    /// `id file:line`
    pub(super) blockers: &'static [&'static str],
    pub(super) warnings: &'static [&'static str],
    pub(super) notes: &'static [&'static str],
}

pub(super) const GO: Case = Case {
    name: "",
    prepare: |_| {},
    verdict: "go",
    blockers: &[],
    warnings: &[],
    notes: &[],
};
pub(super) const WARNED: Case = Case {
    verdict: "go with warnings",
    ..GO
};
pub(super) const NO_GO: Case = Case {
    verdict: "no-go",
    ..GO
};

/// Returns a directory of the recordings. Without them the whole test is skipped.
pub(super) fn recorded(name: &str) -> PathBuf {
    testkit::recordings::find(&format!("vectors/storage/{name}"))
        .expect("it was there a moment ago")
}

/// Prepares data of a server, without TTL znodes.
pub(super) fn with_data(site: &Site) {
    site.copy(&recorded("rolled/data"), "data");
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a server that stands alone",
        prepare: |site| {
            with_data(site);
            site.alone("tickTime=2000\nautopurge.purgeInterval=24\n");
        },
        notes: &["data-summary data"],
        ..GO
    },
    Case {
        name: "a member of three, with the flags of a JVM",
        prepare: |site| {
            with_data(site);
            site.member("");
            let flags = "export JVMFLAGS=\"-Xmx2g -Djute.maxbuffer=4194304\"\n";
            site.write("conf/java.env", flags);
        },
        notes: &[
            "data-summary data",
            "env-file conf/java.env:1",
            "config-jvm-flags conf/java.env:1",
        ],
        ..GO
    },
    Case {
        name: "TLS with its stores, and SASL with its JAAS file",
        prepare: |site| {
            with_data(site);
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
            site.write("conf/keys.pem", &format!("{certificate}{key}"));
            site.write("conf/trust.pem", &certificate);
            let class = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
            site.alone(&format!(
                "secureClientPort=2182\nsecureClientPortAddress=NET.1\nssl.keyStore.location=HOME/conf/keys.pem\n\
                 ssl.trustStore.location=HOME/conf/trust.pem\nauthProvider.sasl={class}\n"
            ));
            let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
            let jaas = format!("Server {{\n  {module} required\n  user_bob=\"{BOB}\";\n}};\n");
            site.write("conf/jaas.conf", &jaas);
            let flag = "SERVER_JVMFLAGS=-Djava.security.auth.login.config=HOME/conf/jaas.conf\n";
            site.write("conf/java.env", flag);
        },
        notes: &["data-summary data", "env-file conf/java.env:1"],
        ..GO
    },
    Case {
        name: "TTL znodes, and the setting for them as a flag",
        prepare: |site| {
            site.copy(&recorded("log-and-snapshot/data"), "data");
            site.alone("");
            let flags = "SERVER_JVMFLAGS=-Dzookeeper.extendedTypesEnabled=true\n";
            site.write("conf/zookeeper-env.sh", flags);
        },
        notes: &["data-summary data", "env-file conf/zookeeper-env.sh:1"],
        ..GO
    },
    Case {
        name: "TTL znodes, and no setting for them",
        prepare: |site| {
            site.copy(&recorded("log-and-snapshot/data"), "data");
            site.alone("");
        },
        blockers: &["ttl-unrecognised data"],
        ..NO_GO
    },
    Case {
        name: "misspelt names, and a command among the flags",
        prepare: |site| {
            with_data(site);
            site.alone("tikcTime=2000\nmaxClientConnxns=5\n");
            site.write("conf/java.env", "# flags\nJVMFLAGS=$(cat /etc/flags)\n");
        },
        warnings: &[
            "config-unknown conf/zoo.cfg:5",
            "config-unknown conf/zoo.cfg:6",
            "env-line conf/java.env:2",
        ],
        ..WARNED
    },
    Case {
        name: "several wrong values",
        prepare: |site| {
            with_data(site);
            site.alone("tickTime=2s\nmaxClientCnxns=60 # per host\nadmin.serverPort=99999\n");
        },
        blockers: &[
            "config-value conf/zoo.cfg:5",
            "config-value conf/zoo.cfg:6",
            "config-value conf/zoo.cfg:7",
        ],
        ..NO_GO
    },
    Case {
        name: "features that are not there",
        prepare: |site| {
            with_data(site);
            site.alone("ssl.crl=true\nssl.keyStore.type=BCFKS\n");
        },
        blockers: &[
            "config-not-there conf/zoo.cfg:5",
            "config-not-there conf/zoo.cfg:6",
        ],
        ..NO_GO
    },
    Case {
        name: "TLS without its key store",
        prepare: |site| {
            with_data(site);
            site.alone(&format!(
                "secureClientPort=2182\nsecureClientPortAddress=NET.1\n\
                 ssl.keyStore.location=HOME/conf/keys.p12\nssl.keyStore.password={STORE}\n"
            ));
        },
        blockers: &["tls-stores"],
        ..NO_GO
    },
    Case {
        name: "TLS with a certificate that has ended",
        prepare: |site| {
            with_data(site);
            let key = rcgen::KeyPair::generate().unwrap();
            let mut wanted = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            wanted.not_after = rcgen::date_time_ymd(2020, 1, 1);
            let made = wanted.self_signed(&key).unwrap();
            site.write(
                "conf/keys.pem",
                &format!("{}{}", made.pem(), key.serialize_pem()),
            );
            site.write("conf/trust.pem", &made.pem());
            site.alone(
                "secureClientPort=2182\nsecureClientPortAddress=NET.1\nssl.keyStore.location=HOME/conf/keys.pem\n\
                 ssl.trustStore.location=HOME/conf/trust.pem\n",
            );
        },
        warnings: &["tls-certificate conf/zoo.cfg:7"],
        ..WARNED
    },
    Case {
        name: "SASL without a JAAS file",
        prepare: |site| {
            with_data(site);
            let class = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
            site.alone(&format!("authProvider.1={class}\n"));
        },
        warnings: &["config-jaas conf/zoo.cfg:5"],
        ..WARNED
    },
    Case {
        name: "a JAAS file for Kerberos",
        prepare: |site| {
            with_data(site);
            let class = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
            site.alone(&format!("authProvider.1={class}\n"));
            let module = "com.sun.security.auth.module.Krb5LoginModule";
            site.write(
                "conf/jaas.conf",
                &format!("Server {{\n  {module} required;\n}};\n"),
            );
            let flag = "JVMFLAGS=-Djava.security.auth.login.config=HOME/conf/jaas.conf\n";
            site.write("conf/java.env", flag);
        },
        blockers: &["config-jaas conf/jaas.conf:2"],
        ..NO_GO
    },
    Case {
        name: "a member without myid",
        prepare: |site| {
            site.member("");
            fs::remove_file(site.path("data/myid")).unwrap();
            with_data(site);
        },
        blockers: &["myid-missing data/myid"],
        ..NO_GO
    },
    Case {
        name: "a myid that nobody has listed",
        prepare: |site| {
            with_data(site);
            site.member("");
            site.write("data/myid", "7\n");
        },
        blockers: &["myid-not-listed data/myid"],
        ..NO_GO
    },
    Case {
        name: "an address of another machine, an unknown host, two voters",
        prepare: |site| {
            with_data(site);
            let lines = "initLimit=10\nsyncLimit=5\nserver.1=192.0.2.1:2888:3888\n\
                         server.2=no.such.host.invalid:2888:3888\n";
            site.alone(lines);
            site.write("data/myid", "1");
        },
        blockers: &["member-address conf/zoo.cfg:7"],
        warnings: &["member-unresolved conf/zoo.cfg:8", "member-voters"],
        ..NO_GO
    },
    Case {
        name: "two members with one address",
        prepare: |site| {
            with_data(site);
            site.member("server.4=NET.3:2888:3888\nserver.5=NET.5:2888:3888\n");
        },
        warnings: &["member-twice conf/zoo.cfg:10"],
        ..WARNED
    },
    Case {
        name: "a dynamic file that is gone",
        prepare: |site| {
            with_data(site);
            site.alone("initLimit=10\nsyncLimit=5\ndynamicConfigFile=HOME/conf/zoo.cfg.dynamic\n");
        },
        blockers: &["config-dynamic-file conf/zoo.cfg:7"],
        ..NO_GO
    },
    Case {
        name: "a damaged log, and nobody to get the data from",
        prepare: |site| {
            site.copy(&recorded("log-damaged/single"), "data");
            site.flip("data/version-2/log.1", 200);
            site.alone("");
        },
        blockers: &["log-damaged data/version-2/log.1"],
        ..NO_GO
    },
    Case {
        name: "a damaged log of a member",
        prepare: |site| {
            site.copy(&recorded("log-damaged/single"), "data");
            site.flip("data/version-2/log.1", 200);
            site.member("");
        },
        warnings: &["log-damaged data/version-2/log.1"],
        ..WARNED
    },
    Case {
        name: "a log that a crash has cut short",
        prepare: |site| {
            site.copy(&recorded("log-damaged/single"), "data");
            let log = site.path("data/version-2/log.1");
            let bytes = fs::read(&log).unwrap();
            fs::write(&log, &bytes[..411]).unwrap();
            site.alone("");
        },
        notes: &["log-torn data/version-2/log.1", "data-summary data"],
        ..GO
    },
    Case {
        name: "the only snapshot is damaged",
        prepare: |site| {
            site.copy(&recorded("snap-gz/data"), "data");
            for file in fs::read_dir(site.path("data/version-2")).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                if name.starts_with("snapshot.") {
                    site.flip(&format!("data/version-2/{name}"), 0);
                }
            }
            site.alone("extendedTypesEnabled=true\n");
        },
        blockers: &["snapshot-damaged"],
        ..NO_GO
    },
    Case {
        name: "logs without a snapshot",
        prepare: |site| {
            site.copy(&recorded("log-only/data"), "data");
            site.alone("extendedTypesEnabled=true\n");
        },
        blockers: &["snapshot-missing data/version-2"],
        ..NO_GO
    },
    Case {
        name: "the two directories mixed up",
        prepare: |site| {
            site.copy(&recorded("dirs-split/data"), "logs");
            site.copy(&recorded("dirs-split/datalog"), "data");
            site.alone("dataLogDir=HOME/logs\n");
        },
        blockers: &["data-misplaced"],
        ..NO_GO
    },
    Case {
        name: "the data of another program",
        prepare: |site| {
            site.write("data/PG_VERSION", "16\n");
            site.write("data/base/1/112", "x");
            site.alone("");
        },
        warnings: &["data-foreign data", "data-new data"],
        ..WARNED
    },
    Case {
        name: "no data",
        prepare: |site| {
            fs::create_dir(site.path("data")).unwrap();
            site.alone("");
        },
        warnings: &["data-new data"],
        ..WARNED
    },
    Case {
        name: "no data yet, and the configuration beside it",
        prepare: |site| {
            site.alone("dataDir=HOME/conf\n");
            site.write("conf/java.env", "JVMFLAGS=-Xmx1g\n");
            site.write("conf/myid", "1\n");
        },
        warnings: &["data-new conf"],
        ..WARNED
    },
    Case {
        name: "no data, and a setting that says there is",
        prepare: |site| {
            fs::create_dir(site.path("data")).unwrap();
            site.alone("db.autocreate=false\n");
        },
        blockers: &["data-new data"],
        ..NO_GO
    },
    Case {
        name: "epochs that contradict each other",
        prepare: |site| {
            with_data(site);
            site.member("");
            site.write("data/version-2/currentEpoch", "5");
            site.write("data/version-2/acceptedEpoch", "4");
        },
        blockers: &["epoch-files data/version-2/acceptedEpoch"],
        ..NO_GO
    },
    Case {
        name: "one port for two",
        prepare: |site| {
            with_data(site);
            site.alone("admin.serverPort=2181\n");
        },
        blockers: &["port-twice conf/zoo.cfg:5"],
        ..NO_GO
    },
];

/// Returns all prepared installations.
pub(super) fn all_cases() -> impl Iterator<Item = &'static Case> {
    // With Kerberos support in the executable, this installation is valid.
    let is_fault = |case: &&Case| !cfg!(feature = "gssapi") || !case.name.ends_with("Kerberos");
    CASES.iter().chain(FURTHER).filter(is_fault)
}

#[test]
fn prepared_installations_are_judged_as_written_down() {
    if testkit::recordings::find("vectors/storage").is_none() {
        return;
    }
    assert!(CASES.len() >= 20);
    let mut wrong = Vec::new();
    for case in all_cases() {
        let site = Site::new();
        (case.prepare)(&site);
        let said = site.preflight(&[]);
        let code = match case.verdict {
            "no-go" => 3,
            _ => 0,
        };
        // If the name of the file does not matter, the case does not contain it.
        let is_told = |severity: &str, expected: &[&str]| {
            let told = said.told(severity);
            let fits = |(told, expected): (&String, &&str)| {
                told == expected
                    || told.starts_with(&format!("{expected} ")) && !expected.contains(' ')
            };
            told.len() == expected.len() && told.iter().zip(expected).all(fits)
        };
        let notes_are_there = case
            .notes
            .iter()
            .all(|note| said.told("note").iter().any(|told| told == note));
        let is_right = said.verdict == case.verdict
            && said.code == Some(code)
            && is_told("blocker", case.blockers)
            && is_told("warning", case.warnings)
            && notes_are_there;
        if !is_right {
            wrong.push(format!("{}: {:#}", case.name, said.json));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_port_in_use_names_its_process() {
    let Some(data) = testkit::recordings::find("vectors/storage/rolled/data") else {
        return;
    };
    let site = Site::new();
    site.copy(&data, "data");
    site.alone("");
    let _taken = TcpListener::bind(site.filled("NET.1:2181")).unwrap();
    let said = site.preflight(&[]);
    assert_eq!(said.told("blocker"), ["port-taken conf/zoo.cfg:2"]);
    let problem = said.json["findings"][0]["problem"].as_str().unwrap();
    let by = format!("process {}", std::process::id());
    assert!(problem.contains(&by), "{problem}");
    assert_eq!(said.code, Some(3));
}

#[test]
fn warnings_count_with_the_strict_option() {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site.alone("");
    assert_eq!(site.preflight(&[]).code, Some(0));
    assert_eq!(site.preflight(&["--strict"]).code, Some(1));
}

#[test]
fn few_open_files_are_reported() {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site.alone("");
    let zoarium = env!("CARGO_BIN_EXE_zoarium");
    let config = site.config();
    let script = format!(
        "ulimit -n 256; exec {zoarium} preflight {}",
        config.display()
    );
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("warning  limit-files: the limit is 256 open files"),
        "{text}"
    );
}
