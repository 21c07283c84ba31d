//! Files that operators write.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use config::jaas::JaasFile;
use config::membership::Membership;
use config::{Config, RawConfig, Surroundings, SystemProperties};

use crate::seeds::peers::CONFIG;
use crate::{Memory, Target};

/// Keys, values and separators of configuration files.
const WORDS: &[&str] = &[
    "server.1=",
    "server.2=h:2888:3888",
    ":observer",
    "group.1=1:2",
    "weight.1=",
    "clientPort=",
    "secureClientPort=",
    "tickTime=",
    "dataDir=/d",
    "dynamicConfigFile=dynamic",
    "4lw.commands.whitelist=*",
    "jute.maxbuffer=0x10",
    "initLimit=5",
    "syncLimit=5",
    "=",
    ":",
    ";",
    "|",
    "[",
    "]",
    "\\u",
    "\\\n",
    "\r\n",
    "#",
    "!",
    "-1",
    "99999999999999999999",
    "\u{fffd}",
];

pub(super) const ZOO_CFG: Target = Target {
    name: "zoo_cfg",
    run: zoo_cfg,
    seeds: cfg_seeds,
    words: WORDS,
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const MEMBERSHIP: Target = Target {
    name: "membership",
    run: membership,
    seeds: || vec![CONFIG.into(), MEMBERS.into()],
    words: WORDS,
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const FLAGS: Target = Target {
    name: "flags",
    run: flags,
    seeds: || vec![b"-Dzookeeper.x=y -Djute.maxbuffer=0x100 -Xmx4g -Da='b c' \"-Dd=e\"".to_vec()],
    words: &["-D", "=", " ", "'", "\"", "\\", "zookeeper."],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const JAAS: Target = Target {
    name: "jaas",
    run: jaas,
    seeds: || vec![JAAS_FILE.into()],
    words: &[
        "Server {",
        "};",
        "required",
        "\"",
        "\\",
        "\\377",
        "user_",
        "=",
        ";",
        "/*",
        "*/",
        "//",
        "${",
        "}",
        "${{",
        "${user.name}",
        "\n",
        "9",
        "-",
    ],
    repair: None,
    memory: Memory::DECODER,
};

const JAAS_FILE: &str = "\
// who may log in
Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_super=\"one\" /* and */ user_bob=\"\\\"two\\\\\\101${/}\" \"user_a b\"=three;
  other.Module optional debug=true;
};
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=bob; };
";

/// Checks that an input is either parsed into sections with line numbers, or refused with the line
/// of the error.
fn jaas(data: &[u8]) {
    let properties = SystemProperties::new();
    match JaasFile::parse(Path::new("jaas.conf"), data, &properties) {
        Ok(file) => {
            for name in file.names() {
                assert!(file.section(name).is_none_or(|section| section.line > 0));
            }
        }
        Err(error) => assert!(error.line().is_some(), "{error}"),
    }
}

const MEMBERS: &str = "\
server.1=h1:2888:3888
server.2=h2:2888:3888:participant
server.3=h3:2888:3888:observer;h3:2181
";

/// Surroundings that contain a file `myid` and a dynamic configuration, and in which all host names
/// are unknown.
struct Nearby;

impl Surroundings for Nearby {
    fn read(&mut self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        match path.file_name().and_then(|name| name.to_str()) {
            Some("myid") => Ok(b"1\n".to_vec()),
            Some("dynamic") => Ok(MEMBERS.as_bytes().to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn resolve(&mut self, _: &str) -> io::Result<IpAddr> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn zoo_cfg(data: &[u8]) {
    let parsed = RawConfig::parse(Path::new("zoo.cfg"), data)
        .and_then(|raw| Config::parse(raw, SystemProperties::new(), &mut Nearby));
    if let Err(error) = parsed {
        assert!(!error.to_string().is_empty());
    }
}

fn cfg_seeds() -> Vec<Vec<u8>> {
    let standalone = "\
tickTime=2000
dataDir=/var/lib/zookeeper
dataLogDir=/var/lib/zookeeper-log
clientPort=2181
clientPortAddress=127.0.0.1
maxClientCnxns=60
minSessionTimeout=4000
maxSessionTimeout=40000
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
4lw.commands.whitelist=srvr,stat,ruok
# a comment
snapCount=100000
unknown.key=value \\
    on two lines
";
    let ensemble = format!("{standalone}initLimit=10\nsyncLimit=5\n{MEMBERS}");
    let dynamic = format!("{standalone}initLimit=10\nsyncLimit=5\ndynamicConfigFile=dynamic\n");
    // This name resembles a known name, but is very long.
    let endless = format!("authProvder.{}=x\n", "x".repeat(20_000));
    [standalone.to_owned(), ensemble, dynamic, endless]
        .map(String::into_bytes)
        .to_vec()
}

fn membership(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for multi_address_enabled in [false, true] {
        let Ok(membership) = Membership::parse(&text, multi_address_enabled) else {
            continue;
        };
        // All members must be able to read the contents of the config znode. Blanks, control
        // characters and escapes in host names are accepted, as in Java, but have a different
        // meaning when they are read again.
        let written = membership.node_data();
        let has_plain_names =
            |line: &str| !line.contains(|c: char| c <= ' ' || "\\\x7f".contains(c));
        if !written.lines().all(has_plain_names) {
            continue;
        }
        let read = Membership::parse(&written, multi_address_enabled);
        let read = read.unwrap_or_else(|error| panic!("cannot read {written:?}: {error}"));
        assert_eq!(read.node_data(), written);
    }
}

fn flags(data: &[u8]) {
    let mut properties = SystemProperties::new();
    properties.add_flags("a variable", &String::from_utf8_lossy(data));
    assert!(
        properties
            .iter()
            .all(|(name, _)| properties.get(name).is_some())
    );
}
