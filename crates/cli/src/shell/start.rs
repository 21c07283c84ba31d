//! Words that precede the command.
//!
//! Source: ZooKeeperMain.MyCommandOptions.parseOptions, connectToZK.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::tls::{ClientStores, Connector, Store};
use client::{Login, Options};

use crate::failure::Failure;
use crate::parse::path::Chroot;

/// Client settings that the caller provides. Apache ZooKeeper obtains them from JVM flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Names and values of properties, such as `zookeeper.client.secure`. The file named by
    /// `-client-configuration` takes precedence.
    pub properties: Vec<(String, String)>,
    /// Login on each connection.
    pub login: Option<SaslClient>,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for human readers.
    #[default]
    Text,
    /// JSON, one object per line.
    Json,
    /// YAML, one document per object.
    Yaml,
}

impl Format {
    /// Returns whether the output is for programs.
    pub fn is_structured(self) -> bool {
        self != Self::Text
    }
}

/// SASL login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslClient {
    /// Login with name and password.
    Password(Login),
    /// Login with a Kerberos ticket, for the service of this user on the server's host.
    Kerberos(String),
}

/// Parsed arguments of `zoarium cli`.
#[derive(Debug, Clone)]
pub(crate) struct CliArguments {
    /// `host:port[,...][/chroot]` from the arguments.
    pub(crate) server: String,
    timeout: String,
    pub(crate) read_only: bool,
    pub(crate) waits_for_connection: bool,
    configuration: Option<PathBuf>,
    pub(crate) settings: ClientSettings,
    /// Form of the output.
    pub(crate) format: Format,
    /// Connector for all connections, instead of the connector of the configuration.
    pub(crate) connector: Option<Connector>,
    /// Whether the user requests only the help.
    pub(crate) wants_help: bool,
    /// Command and its words. Empty for a shell.
    pub(crate) command: Vec<String>,
}

impl Default for CliArguments {
    fn default() -> Self {
        Self {
            server: "localhost:2181".to_owned(),
            timeout: "30000".to_owned(),
            read_only: false,
            waits_for_connection: false,
            configuration: None,
            settings: ClientSettings::default(),
            format: Format::Text,
            connector: None,
            wants_help: false,
            command: Vec::new(),
        }
    }
}

impl CliArguments {
    /// Parses the words. Like Java, skips unknown words that begin with a hyphen.
    ///
    /// # Errors
    /// If an option lacks its value, or the output format is unknown.
    pub(crate) fn parse(words: Vec<String>) -> Result<Self, Failure> {
        let mut start = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let text = format!("Error: no argument found for option {word}");
                words.next().ok_or_else(|| Failure::new(text))
            };
            match word.as_str() {
                "-server" | "--server" | "-s" => start.server = value()?,
                "-timeout" | "--timeout" => start.timeout = value()?,
                "--help" => start.wants_help = true,
                "-client-configuration" => start.configuration = Some(value()?.into()),
                "--output" => start.format = format_of(&value()?)?,
                "-r" => start.read_only = true,
                "-waitforconnection" => start.waits_for_connection = true,
                option if option.starts_with('-') => {}
                _ => {
                    start.command.push(word);
                    start.command.extend(words);
                    start.take_output()?;
                    return Ok(start);
                }
            }
        }
        Ok(start)
    }

    /// Applies `--output FORM` and `--help` among the words of the command, and removes them,
    /// because Java's commands lack these options.
    fn take_output(&mut self) -> Result<(), Failure> {
        let ends = self.command.iter().position(|word| word == "--");
        let rest = self.command.split_off(ends.unwrap_or(self.command.len()));
        let mut words = std::mem::take(&mut self.command).into_iter();
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some(("--output", form)) => self.format = format_of(form)?,
                _ if word == "--help" => self.wants_help = true,
                _ if word == "--output" => {
                    let form = words.next();
                    let missing = || Failure::missing_argument("output");
                    self.format = format_of(&form.ok_or_else(missing)?)?;
                }
                _ => self.command.push(word),
            }
        }
        self.command.extend(rest);
        Ok(())
    }

    /// Returns the arguments for a command of the program.
    pub(crate) fn direct(server: String, format: Format, connector: Option<Connector>) -> Self {
        Self {
            server,
            format,
            connector,
            ..Self::default()
        }
    }

    /// Returns the options for a connection to `server`, which may differ from the initial server.
    ///
    /// # Errors
    /// If the timeout, the server or the configuration is invalid.
    pub(crate) fn options(&self, server: &str) -> Result<(Options, Chroot), Failure> {
        let timeout_ms: u64 = self
            .timeout
            .parse()
            .map_err(|_| Failure::no_number("timeout", &self.timeout))?;
        let (servers, chroot) = Chroot::split(server)?;
        let mut options =
            Options::new(servers).with_session_timeout(Duration::from_millis(timeout_ms));
        if self.read_only {
            options = options.with_read_only();
        }
        match &self.connector {
            Some(connector) => options = options.with_connector(connector.clone()),
            None => {
                let configuration = self.configuration()?;
                if configuration.is_secure() {
                    options = options.with_connector(configuration.connector()?);
                }
            }
        }
        let login = self.settings.login.as_ref().map(|login| match login {
            SaslClient::Password(login) => login.clone(),
            SaslClient::Kerberos(user) => {
                let first = servers.split(',').next().unwrap_or_default();
                let host = first.rsplit_once(':').map_or(first, |(host, _)| host);
                Login::kerberos(format!("{user}/{host}"))
            }
        });
        if let Some(login) = login {
            options = options.with_login(login);
        }
        Ok((options, chroot))
    }

    /// Returns a TLS connector for admin ports, whether or not the session uses TLS. It uses the
    /// stores of the configuration or, without stores, the certificates that the platform trusts.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub(crate) fn admin_connector(&self) -> Result<Connector, Failure> {
        match &self.connector {
            Some(connector) => Ok(connector.clone()),
            None => self.configuration()?.connector(),
        }
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

fn format_of(name: &str) -> Result<Format, Failure> {
    match name {
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        "text" | "table" => Ok(Format::Text),
        _ => Err(Failure::new(format!(
            "--output must be text, json or yaml, not \"{name}\""
        ))),
    }
}

/// Properties of a client from a file, which takes precedence, and from the caller. Source:
/// ZKClientConfig, ClientX509Util.
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
        let place = if self.file.as_os_str().is_empty() {
            "CLIENT_JVMFLAGS and JVMFLAGS".to_owned()
        } else {
            self.file.display().to_string()
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

    /// Returns whether sessions must use TLS.
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
        Store::of_client(which, |name| self.find(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> CliArguments {
        CliArguments::parse(line.split(' ').map(str::to_owned).collect()).unwrap()
    }

    #[test]
    fn the_command_begins_at_the_first_word_without_a_hyphen() {
        let start = parse("-server a:1/x -timeout 5000 -r -x -waitforconnection ls -s /");
        assert_eq!(start.server, "a:1/x");
        assert_eq!(start.command, ["ls", "-s", "/"]);
        assert!(start.read_only && start.waits_for_connection);
        let (options, chroot) = start.options(&start.server).unwrap();
        assert!(format!("{options:?}").contains("session_timeout: 5s"));
        assert_eq!(chroot.with_chroot("/"), "/x");
    }

    #[test]
    fn a_configuration_without_secure_applies_only_to_admin_ports() {
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
        let named = of("zookeeper.ssl.keyStore.location=key\nzookeeper.ssl.keyStore.type=PKCS12\n");
        let named = named.store("keyStore").unwrap();
        assert_eq!(named.format, Some(client::tls::StoreFormat::Pkcs12));
        let store = of(stores).store("trustStore").unwrap();
        assert_eq!(store.location, Some(PathBuf::from("a.pem")));
    }

    #[test]
    fn errors_in_arguments_are_reported() {
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
        assert!(CliArguments::parse(vec!["-server".to_owned()]).is_err());
        assert_eq!(parse("--output json ls /").format, Format::Json);
        assert_eq!(parse("--output text ls /").format, Format::Text);
        let start = parse("--server a:1 get --output json /x -- --output");
        assert_eq!((start.server.as_str(), start.format), ("a:1", Format::Json));
        assert_eq!(start.command, ["get", "/x", "--", "--output"]);
        assert!(parse("--help").wants_help && parse("get --help").wants_help);
        assert!(CliArguments::parse(vec!["get".to_owned(), "--output".to_owned()]).is_err());
        let words = ["--output", "xml"].map(str::to_owned).to_vec();
        let failure = CliArguments::parse(words).unwrap_err();
        assert_eq!(
            failure.text,
            "--output must be text, json or yaml, not \"xml\""
        );
    }
}
