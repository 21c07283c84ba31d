//! The `-D` flags of `CLIENT_JVMFLAGS` and `JVMFLAGS`: TLS and the login of a client.
//!
//! Source: zkCli.sh, ZKClientConfig, ClientX509Util, ZooKeeperSaslClient.

use std::path::Path;

use ::cli::{ClientSettings, SaslClient};
use client::Login;
use client::tls::Store;
use config::jaas::{JaasFile, Module};
use config::{Surroundings, SystemProperties};

use crate::embedded::ThisMachine;

/// Environment variables that contain the flags of a client. Flags in the later variable take
/// precedence.
const FLAG_VARIABLES: [&str; 2] = ["CLIENT_JVMFLAGS", "JVMFLAGS"];

/// Maximum size of a JAAS file that is read, bytes.
const JAAS_BYTES_MAX: usize = 1 << 20;

/// Returns the flags in the environment.
pub(crate) fn properties() -> SystemProperties {
    let mut flags = SystemProperties::new();
    for name in FLAG_VARIABLES {
        if let Ok(text) = std::env::var(name) {
            flags.add_flags(name, &text);
        }
    }
    flags
}

/// Returns the settings for `zoarium cli`. An unusable login is reported on stderr, and the client
/// continues without it, as with Apache ZooKeeper.
pub(crate) fn of_cli() -> ClientSettings {
    let properties = properties();
    let login = login(&properties).unwrap_or_else(|reason| {
        terminal::complain!("zoarium cli: {reason}; the session is not logged in");
        None
    });
    ClientSettings {
        properties: properties
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        login,
    }
}

/// Returns the client's store that the flags name: `keyStore` or `trustStore`.
pub(crate) fn store(properties: &SystemProperties, which: &str) -> Option<Store> {
    Store::of_client(which, |name| properties.get(name).map(str::to_owned))
}

/// Returns the login from the JAAS file if a flag names a file that contains the client's section.
fn login(properties: &SystemProperties) -> Result<Option<SaslClient>, String> {
    let is_off = |name: &str| {
        let value = properties.get(name);
        value.is_some_and(|value| value.eq_ignore_ascii_case("false"))
    };
    let named = properties.get("java.security.auth.login.config");
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Ok(None);
    };
    if is_off("zookeeper.sasl.client") {
        return Ok(None);
    }
    let path = config::jaas::path_of(named);
    let unreadable = |error| format!("the JAAS file {} cannot be read: {error}", path.display());
    let text = ThisMachine
        .read(&path, JAAS_BYTES_MAX)
        .map_err(unreadable)?;
    let file = JaasFile::parse(&path, &text, properties).map_err(|error| error.to_string())?;
    let section = properties.get("zookeeper.sasl.clientconfig");
    let Some(found) = file.section(section.unwrap_or("Client")) else {
        return match section {
            // The file may be a server's JAAS file, which does not contain a section for clients.
            None => Ok(None),
            Some(name) => Err(format!(
                "{} does not contain the section {name}",
                path.display()
            )),
        };
    };
    let modules = found.modules.iter();
    let mut logins = modules.filter_map(|module| login_of(module, properties));
    match logins.next() {
        Some(login) => login.map(Some),
        None => Err(format!(
            "{}: section {} must contain DigestLoginModule or Krb5LoginModule",
            path.display(),
            found.name
        )),
    }
}

fn login_of(module: &Module, properties: &SystemProperties) -> Option<Result<SaslClient, String>> {
    let class = Path::new(&module.class).extension()?.to_str()?;
    let option = |name: &str| module.options.get(name);
    match class {
        "DigestLoginModule" => Some(match (option("username"), option("password")) {
            (Some(user), Some(password)) => {
                let login = Login::digest_md5(user.expose(), password.clone());
                Ok(SaslClient::Password(login))
            }
            _ => Err("DigestLoginModule needs username and password".to_owned()),
        }),
        "Krb5LoginModule" if !server::HAS_GSSAPI => Some(Err(
            "this executable does not support Kerberos: build it with the feature gssapi"
                .to_owned(),
        )),
        "Krb5LoginModule" => {
            let user = properties.get("zookeeper.sasl.client.username");
            let user = user.unwrap_or("zookeeper").to_owned();
            Some(Ok(SaslClient::Kerberos(user)))
        }
        _ => None,
    }
}
