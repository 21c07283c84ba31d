//! Search for all faults, and effective values.

use std::path::Path;

use zoarium_config::finding::{self, Severity};
use zoarium_config::{
    Effective, Examination, Origin, SystemProperties, ValueSource, effective, examine,
};

use crate::support::{Machine, ZOO_CFG};

fn examined(mut machine: Machine, flags: &[&str]) -> Examination {
    examine(Path::new(ZOO_CFG), properties(flags), &mut machine)
}

fn properties(flags: &[&str]) -> SystemProperties {
    let mut properties = SystemProperties::new();
    for flag in flags {
        properties.define("the command line", flag);
    }
    properties
}

/// Returns the names and lines of findings that are worse than notes.
fn told(found: &Examination) -> Vec<(&'static str, u32)> {
    let findings = found.findings.iter();
    let loud = findings.filter(|finding| finding.severity != Severity::Note);
    loud.map(|finding| (finding.id, finding.line())).collect()
}

#[test]
fn a_valid_configuration_has_only_notes() {
    let found = examined(Machine::member(""), &[]);
    assert!(found.is_accepted() && !found.lacks_members);
    assert_eq!(told(&found), []);
    assert!(found.config.unwrap().ensemble.is_some());
}

#[test]
fn every_wrong_value_is_found_and_not_only_the_first() {
    let text = "tickTime=2s\ninitLimit=x\nmaxClientCnxns=60 # all\nsnapCont=5\nssl.crl=true\n\
                secureClientPort=99999\nstandaloneEnabled=yes\n";
    let found = examined(Machine::alone(text), &["zookeeper.cnxTimeout=soon"]);
    assert!(!found.is_accepted());
    assert_eq!(
        told(&found),
        [
            (finding::VALUE, 3),
            (finding::VALUE, 4),
            (finding::VALUE, 5),
            (finding::NOT_THERE, 7),
            (finding::VALUE, 8),
            (finding::VALUE, 9),
            (finding::UNKNOWN, 6),
        ]
    );
    // Only members use this flag, so a standalone server does not read it.
    let found = examined(Machine::member(text), &["zookeeper.cnxTimeout=soon"]);
    let flag = found
        .findings
        .iter()
        .find(|finding| finding.key.as_deref() == Some("-Dzookeeper.cnxTimeout"));
    assert_eq!(flag.map(|flag| flag.severity), Some(Severity::Blocker));
    assert!(found.config.is_some());
}

#[test]
fn other_settings_are_checked_despite_invalid_members() {
    let text = "dataDir=/data\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1\n\
                server.3=c:1:2\nautopurge.purgeInterval=daily\n";
    let found = examined(Machine::with(text), &[]);
    assert!(found.lacks_members);
    assert_eq!(told(&found), [(finding::MEMBERS, 6), (finding::VALUE, 8)]);
    assert_eq!(found.config.unwrap().data_dir, Path::new("/data"));
    let missing = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\ninitLimit=5\nsyncLimit=2\n";
    let found = examined(Machine::alone(missing), &[]);
    assert_eq!(told(&found), [(finding::MY_ID_MISSING, 0)]);
    assert!(found.lacks_members && found.config.is_some());
}

#[test]
fn an_unreadable_file_is_one_finding() {
    let found = examined(Machine::default(), &[]);
    assert_eq!(told(&found), [(finding::FILE, 0)]);
    assert!(found.config.is_none());
    let found = examined(Machine::with("dataDir=C:\\users\n"), &[]);
    assert_eq!(told(&found), [(finding::FILE, 1)]);
    let found = examined(Machine::with("clientPort=x\nssl.ocsp=true\n"), &[]);
    assert_eq!(
        told(&found),
        [
            (finding::VALUE, 0),
            (finding::VALUE, 1),
            (finding::NOT_THERE, 2)
        ]
    );
    assert!(found.config.is_none());
}

fn rows(mut machine: Machine, flags: &[&str]) -> Vec<Effective> {
    effective(Path::new(ZOO_CFG), properties(flags), &mut machine).unwrap()
}

fn row<'a>(rows: &'a [Effective], name: &str) -> &'a Effective {
    let mut found = rows.iter().filter(|row| row.name == name);
    let row = found
        .next()
        .unwrap_or_else(|| panic!("{name} is not there"));
    assert!(found.next().is_none(), "{name} twice");
    row
}

fn line(line: u32) -> ValueSource {
    ValueSource::Written(Origin::line_of(Path::new(ZOO_CFG), line))
}

#[test]
fn each_value_has_its_source() {
    let text =
        "snapCount=1\ntickTime=4000\njute.maxbuffer.extrasize=abc\nforceSync=maybe\nmy.own=5\n";
    let rows = rows(
        Machine::alone(text),
        &["zookeeper.snapCount=7", "jute.maxbuffer=0x200000"],
    );
    let found = |name: &str| {
        let row = row(&rows, name);
        (row.value.as_deref().unwrap(), row.place.clone())
    };
    assert_eq!(found("clientPort"), ("2181", line(2)));
    assert_eq!(found("tickTime"), ("4000", line(4)));
    assert_eq!(found("minSessionTimeout"), ("8000", ValueSource::Default));
    assert_eq!(found("maxSessionTimeout"), ("80000", ValueSource::Default));
    assert_eq!(found("dataLogDir"), ("/data", ValueSource::Default));
    let flags = Origin::Flags("the command line".to_owned());
    assert_eq!(
        found("jute.maxbuffer"),
        ("2097152", ValueSource::Written(flags))
    );
    // Java uses the smallest valid value.
    let corrected = |line| ValueSource::Corrected(Origin::line_of(Path::new(ZOO_CFG), line));
    assert_eq!(found("snapCount"), ("2", corrected(3)));
    assert_eq!(row(&rows, "snapCount").written.as_deref(), Some("1"));
    assert_eq!(found("forceSync"), ("yes", corrected(6)));
    assert_eq!(found("my.own"), ("5", line(7)));
    assert_eq!(row(&rows, "my.own").section, None);
}

#[test]
fn members_and_families_are_listed_by_their_lines() {
    let dynamic = "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\nserver.3=127.0.0.1:5:6\n";
    let machine = Machine::with(
        "dataDir=/data\ndynamicConfigFile=/conf/members\ninitLimit=5\nsyncLimit=2\n\
         authProvider.sasl=org.apache.zookeeper.server.auth.IPAuthenticationProvider\n",
    );
    let machine = machine
        .file("/conf/members", dynamic)
        .file("/data/myid", "2");
    let rows = rows(machine, &[]);
    let second = row(&rows, "server.2");
    assert_eq!(second.value.as_deref(), Some("127.0.0.1:3:4"));
    assert_eq!(
        second.place,
        ValueSource::Written(Origin::line_of(Path::new("/conf/members"), 2))
    );
    assert_eq!(row(&rows, "authProvider.sasl").place, line(5));
}

#[test]
fn secrets_are_masked_wherever_they_are_written() {
    let text = "ssl.keyStore.password=hunter2\nmy.Password=hunter2\n";
    let flags = [
        "zookeeper.DigestAuthenticationProvider.superDigest=hunter2",
        "zookeeper.ssl.quorum.trustStore.password=hunter2",
    ];
    let rows = rows(Machine::alone(text), &flags);
    assert!(!format!("{rows:?}").contains("hunter2"), "{rows:?}");
    let masked = rows
        .iter()
        .filter(|row| row.value.as_deref() == Some("*****"));
    assert_eq!(masked.count(), 4);
}

#[test]
fn the_examination_respects_kerberos_support() {
    let lines = "kerberos.removeHostFromPrincipal=true\n";
    let with = examined(Machine::alone(lines).gssapi(), &[]);
    let without = examined(Machine::alone(lines), &[]);
    assert_eq!(told(&with), []);
    assert_eq!(told(&without), [(finding::NOT_THERE, 3)]);
}

#[test]
fn an_invalid_value_that_no_server_reads_is_shown_as_written() {
    let rows = rows(Machine::alone("controllerPort=-1\n"), &[]);
    let shown = row(&rows, "controllerPort");
    assert_eq!(shown.value.as_deref(), Some("-1"));
}
