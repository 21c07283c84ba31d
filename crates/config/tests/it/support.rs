//! Simulated machine for tests: files and host names.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use zoarium_config::registry::{DefaultValue, Key, Scope, ValueKind};
use zoarium_config::{Config, ConfigError, NoticeLevel, Surroundings, SystemProperties};

/// Path of the configuration of a [`Machine`].
pub(crate) const ZOO_CFG: &str = "/conf/zoo.cfg";

#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    files: BTreeMap<PathBuf, Vec<u8>>,
    hosts: BTreeMap<String, IpAddr>,
    flags: SystemProperties,
    has_gssapi: bool,
}

impl Machine {
    pub(crate) fn with(zoo_cfg: &str) -> Self {
        Self::default().file(ZOO_CFG, zoo_cfg)
    }

    /// Creates a machine with a complete standalone configuration and these lines.
    pub(crate) fn alone(lines: &str) -> Self {
        Self::with(&format!("dataDir=/data\nclientPort=2181\n{lines}"))
    }

    /// Creates a machine for server 1 of an ensemble of three, with these lines.
    pub(crate) fn member(lines: &str) -> Self {
        Self::with(&format!("{MEMBER}{lines}")).file("/data/myid", "1\n")
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    /// Adds a JAAS file with all sections.
    pub(crate) fn jaas(self) -> Self {
        let flag = format!("java.security.auth.login.config={JAAS_FILE}");
        self.file(JAAS_FILE, JAAS).flag(&flag)
    }

    /// Creates a member with [`ALL_SWITCHED_ON`] and these lines.
    pub(crate) fn switched_on(lines: &str) -> Self {
        Self::member(&format!("{ALL_SWITCHED_ON}{lines}")).jaas()
    }

    pub(crate) fn host(mut self, name: &str, address: &str) -> Self {
        self.hosts.insert(name.to_owned(), address.parse().unwrap());
        self
    }

    pub(crate) fn flag(mut self, definition: &str) -> Self {
        self.flags.define("the command line", definition);
        self
    }

    pub(crate) fn variable(mut self, name: &str, flags: &str) -> Self {
        self.flags.add_flags(name, flags);
        self
    }

    /// Reads the configuration as a build with the feature `gssapi` does.
    pub(crate) fn gssapi(mut self) -> Self {
        self.has_gssapi = true;
        self
    }

    pub(crate) fn load(mut self) -> Result<Config, ConfigError> {
        let flags = std::mem::take(&mut self.flags);
        Config::load(Path::new(ZOO_CFG), flags, &mut self)
    }

    pub(crate) fn config(self) -> Config {
        self.load().unwrap()
    }

    pub(crate) fn refusal(self) -> ConfigError {
        self.load().unwrap_err()
    }

    pub(crate) fn embedded(mut self) -> Config {
        let flags = std::mem::take(&mut self.flags);
        Config::embedded(flags, &mut self).unwrap()
    }

    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Result<Config, ConfigError> {
        let flags = std::mem::take(&mut self.flags);
        Config::from_arguments(arguments, flags, &mut self)
    }
}

impl Surroundings for Machine {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        let secret = || (path == Path::new(SECRET_FILE)).then(|| vec![b's'; 32]);
        self.files
            .get(path)
            .cloned()
            .or_else(secret)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "Name or service not known");
        self.hosts.get(host).copied().ok_or_else(unknown)
    }

    fn has_gssapi(&self) -> bool {
        self.has_gssapi
    }
}

/// Returns all notices of level warning and above, in their printed form.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let loud = config
        .notices
        .iter()
        .filter(|notice| notice.level >= NoticeLevel::Warn);
    loud.map(ToString::to_string).collect()
}

pub(crate) fn has_notice(config: &Config, level: NoticeLevel, text: &str) -> bool {
    config
        .notices
        .iter()
        .any(|notice| notice.level == level && notice.text == text)
}

pub(crate) const MEMBER: &str = "\
dataDir=/data
clientPort=2181
tickTime=2000
initLimit=10
syncLimit=5
server.1=zoo1:2888:3888
server.2=zoo2:2888:3888
server.3=zoo3:2888:3888
";

/// File with a session secret, which every machine has.
pub(crate) const SECRET_FILE: &str = "/conf/secrets";

/// JAAS file, if [`ALL_SWITCHED_ON`] needs one.
pub(crate) const JAAS_FILE: &str = "/conf/jaas.conf";

pub(crate) const JAAS: &str = "\
Server { org.apache.zookeeper.server.auth.DigestLoginModule required
  user_super=\"one\" user_bob=\"two\"; };
QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zk=\"three\"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required
  username=\"zk\" password=\"three\"; };
";

/// Settings that make other settings effective.
pub(crate) const ALL_SWITCHED_ON: &str = "\
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider
jvm.pause.monitor=true
connection_throttle_weight_enabled=true
connection_throttle_tokens=7
audit.enable=true
history.enabled=true
zoarium.traces.endpoint=http://localhost
admin.portUnification=true
";

fn is_switched_on(name: &str) -> bool {
    let mut lines = ALL_SWITCHED_ON.lines();
    lines.any(|line| line.split('=').next() == Some(name))
}

/// Returns a value that differs from the default.
pub(crate) fn another_value(key: &Key) -> Option<&'static str> {
    Some(match (key.kind, key.default) {
        (ValueKind::Flag, DefaultValue::Value("true") | DefaultValue::Derived(_)) => "false",
        (ValueKind::Flag, _) if is_switched_on(key.name) => "false",
        (ValueKind::Flag, _) => "true",
        (ValueKind::Word { special, .. }, _) => special,
        (ValueKind::Choice(words), _) => words[1],
        (ValueKind::Class, _) if key.family().is_some() => {
            "org.apache.zookeeper.server.auth.KeyAuthenticationProvider"
        }
        (ValueKind::Class | ValueKind::Member, _) => return None,
        (ValueKind::Host, _) => "10.9.8.7",
        (ValueKind::Ratio, _) => "0.7",
        (ValueKind::Int | ValueKind::Long | ValueKind::Port, _) => "2999",
        _ if key.name.ends_with("digestAlg") => "MD5",
        _ if key.name.ends_with("maxfilesize") => "5MB",
        _ if key.name.ends_with("endpoint") => "http://collector:4000",
        _ if key.name.ends_with("sessionSecretFile") => SECRET_FILE,
        _ => "another",
    })
}

/// Returns a member with [`ALL_SWITCHED_ON`] and one more setting.
pub(crate) fn machine_with(key: &Key, value: &str) -> Machine {
    let name = key.name.replace('*', "more");
    match key.scope {
        Scope::Property => Machine::switched_on("").flag(&format!("{name}={value}")),
        _ => Machine::switched_on(&format!("{name}={value}")),
    }
}
