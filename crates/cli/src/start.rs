//! The words in front of the command.
//!
//! Source: ZooKeeperMain.MyCommandOptions.parseOptions, connectToZK.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::tls::{ClientStores, Connector, Secret, Store};
use client::{Login, Options};

use crate::failure::Failure;
use crate::path::Chroot;

/// Settings of the client from its caller: those that flags of a virtual machine have with Apache ZooKeeper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Names and values of properties, such as `zookeeper.client.secure`. The file of `-client-configuration` has
    /// priority.
    pub properties: Vec<(String, String)>,
    /// The login on each connection.
    pub login: Option<SaslClient>,
}

/// A login by SASL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslClient {
    /// By name and password.
    Password(Login),
    /// By a Kerberos ticket, with the service of this user on the server's host.
    Kerberos(String),
}

/// What `zoarium cli` was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// `host:port[,...][/chroot]`, as given.
    pub(crate) server: String,
    timeout: String,
    pub(crate) read_only: bool,
    pub(crate) waits_for_connection: bool,
    configuration: Option<PathBuf>,
    pub(crate) settings: ClientSettings,
    /// Whether what is read is printed as JSON, an object a line.
    pub(crate) is_json: bool,
    /// The command and its words; empty for a shell.
    pub(crate) command: Vec<String>,
}

impl Start {
    /// Words that begin with a hyphen and are unknown are passed over, as Java does it.
    ///
    /// # Errors
    /// An option without its value.
    pub(crate) fn parse(words: Vec<String>) -> Result<Self, Failure> {
        let mut start = Self {
            server: "localhost:2181".to_owned(),
            timeout: "30000".to_owned(),
            read_only: false,
            waits_for_connection: false,
            configuration: None,
            settings: ClientSettings::default(),
            is_json: false,
            command: Vec::new(),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let text = format!("Error: no argument found for option {word}");
                words.next().ok_or_else(|| Failure::new(text))
            };
            match word.as_str() {
                "-server" => start.server = value()?,
                "-timeout" => start.timeout = value()?,
                "-client-configuration" => start.configuration = Some(value()?.into()),
                "--output" => start.is_json = is_json(&value()?)?,
                "-r" => start.read_only = true,
                "-waitforconnection" => start.waits_for_connection = true,
                option if option.starts_with('-') => {}
                _ => {
                    start.command.push(word);
                    start.command.extend(words);
                    return Ok(start);
                }
            }
        }
        Ok(start)
    }

    /// How to connect to `server`, which may be another than the one of the start.
    ///
    /// # Errors
    /// What is wrong with the timeout, the server or the configuration.
    pub(crate) fn options(&self, server: &str) -> Result<(Options, Chroot), Failure> {
        let timeout_ms: u64 = self
            .timeout
            .parse()
            .map_err(|_| Failure::no_number("timeout", &self.timeout))?;
        let (servers, chroot) = Chroot::split(server)?;
        let mut options =
            Options::new(servers).with_session_timeout(Duration::from_millis(timeout_ms));
        options.read_only = self.read_only;
        let configuration = self.configuration()?;
        if configuration.is_secure() {
            options.connector = configuration.connector()?;
        }
        options.login = self.settings.login.as_ref().map(|login| match login {
            SaslClient::Password(login) => login.clone(),
            SaslClient::Kerberos(user) => {
                let first = servers.split(',').next().unwrap_or_default();
                let host = first.rsplit_once(':').map_or(first, |(host, _)| host);
                Login::kerberos(format!("{user}/{host}"))
            }
        });
        Ok((options, chroot))
    }

    /// TLS with admin ports, whether or not the session has it: with the stores of the configuration, and without one
    /// with the certificates that the platform trusts.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub(crate) fn admin_connector(&self) -> Result<Connector, Failure> {
        self.configuration()?.connector()
    }

    fn configuration(&self) -> Result<Configuration, Failure> {
        let mut configuration = match &self.configuration {
            Some(file) => Configuration::read(file)?,
            None => Configuration::default(),
        };
        configuration
            .properties
            .clone_from(&self.settings.properties);
        Ok(configuration)
    }
}

fn is_json(format: &str) -> Result<bool, Failure> {
    match format {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err(Failure::new(format!(
            "--output is json or text, not \"{format}\""
        ))),
    }
}

/// A client's properties: its file, which has priority, and those of its caller. Source: ZKClientConfig, ClientX509Util.
#[derive(Debug, Default)]
struct Configuration {
    file: PathBuf,
    text: String,
    properties: Vec<(String, String)>,
}

impl Configuration {
    fn read(file: &Path) -> Result<Self, Failure> {
        let mut configuration = Self {
            file: file.to_owned(),
            ..Self::default()
        };
        configuration.text =
            fs::read_to_string(file).map_err(|error| configuration.wrong(error.to_string()))?;
        Ok(configuration)
    }

    fn wrong(&self, reason: String) -> Failure {
        let place = match self.file.as_os_str().is_empty() {
            true => "CLIENT_JVMFLAGS and JVMFLAGS".to_owned(),
            false => self.file.display().to_string(),
        };
        Failure::new(format!("Error while processing {place}: {reason}")).with_code(2)
    }

    fn find(&self, key: &str) -> Option<String> {
        let pairs = self
            .text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with(['#', '!']));
        let mut values = pairs
            .filter_map(|line| line.split_once(['=', ':']))
            .filter(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().to_owned());
        values.next_back().or_else(|| {
            let mut properties = self.properties.iter();
            let (_, value) = properties.rfind(|(name, _)| name == key)?;
            Some(value.clone())
        })
    }

    /// Whether sessions are to have TLS.
    fn is_secure(&self) -> bool {
        let secure = self.find("zookeeper.client.secure");
        secure.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn connector(&self) -> Result<Connector, Failure> {
        let checks = self.find("zookeeper.ssl.hostnameVerification");
        let stores = ClientStores {
            key: self.store("keyStore"),
            trust: self.store("trustStore"),
            resumes_sessions: true,
            checks_hosts: checks.is_none_or(|value| !value.eq_ignore_ascii_case("false")),
        };
        Connector::of_client(&stores).map_err(|error| self.wrong(error.to_string()))
    }

    fn store(&self, which: &str) -> Option<Store> {
        let key = |what: &str| self.find(&format!("zookeeper.ssl.{which}.{what}"));
        key("location").map(|location| Store {
            location: Some(location.into()),
            password: key("password").map(Secret::new),
            password_path: key("passwordPath").map(PathBuf::from),
            format: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Start {
        Start::parse(line.split(' ').map(str::to_owned).collect()).unwrap()
    }

    #[test]
    fn the_command_begins_where_no_hyphen_does() {
        let start = parse("-server a:1/x -timeout 5000 -r -x -waitforconnection ls -s /");
        assert_eq!(start.server, "a:1/x");
        assert_eq!(start.command, ["ls", "-s", "/"]);
        assert!(start.read_only && start.waits_for_connection);
        let (options, chroot) = start.options(&start.server).unwrap();
        assert_eq!(options.session_timeout, Duration::from_secs(5));
        assert_eq!(chroot.outside("/"), "/x");
    }

    #[test]
    fn a_configuration_without_secure_is_for_admin_ports_alone() {
        let of = |text: &str| Configuration {
            text: text.to_owned(),
            ..Configuration::default()
        };
        let stores = "zookeeper.ssl.trustStore.location=a.pem\n";
        assert!(!of(stores).is_secure());
        let secure = format!("#x=y\n{stores}zookeeper.client.secure = True\n");
        assert!(of(&secure).is_secure());
        let mut flags = of("zookeeper.client.secure=false\n");
        flags.properties = vec![
            ("zookeeper.client.secure".to_owned(), "true".to_owned()),
            (
                "zookeeper.ssl.trustStore.location".to_owned(),
                "b.pem".to_owned(),
            ),
        ];
        assert!(!flags.is_secure(), "the file has priority");
        assert!(flags.store("trustStore").is_some());
        flags.text.clear();
        assert!(flags.is_secure());
        let store = of(stores).store("trustStore").unwrap();
        assert_eq!(store.location, Some(PathBuf::from("a.pem")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let start = parse("-timeout soon ls /");
        let failure = start.options("a:1").unwrap_err();
        assert_eq!(failure.text, "-timeout needs a number, not \"soon\"");
        let start = parse("-client-configuration nosuch.cfg ls /");
        let failure = start.options("a:1").unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(
            failure
                .text
                .starts_with("Error while processing nosuch.cfg: ")
        );
        assert!(Start::parse(vec!["-server".to_owned()]).is_err());
        assert!(parse("--output json ls /").is_json && !parse("--output text ls /").is_json);
        let words = ["--output", "xml"].map(str::to_owned).to_vec();
        let failure = Start::parse(words).unwrap_err();
        assert_eq!(failure.text, "--output is json or text, not \"xml\"");
    }
}
