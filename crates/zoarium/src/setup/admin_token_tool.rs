//! The command `zoarium admin-token`: the credential of administrators, and the address of the
//! console.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use config::{AdminScheme, Config};
use server::admin_token;

use crate::start::server_cmd::configure;
use crate::tool::ToolError;
use crate::tool::output::write_stdout;

/// Writes the credential of administrators to the dataDir and prints it, with the console's address
///
/// The file `admin-token` in the dataDir has mode 0600. Anyone with the credential is a super user of this
/// server. A running server reads a new file, and forgets the credential when the file is removed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium admin-token conf/zoo.cfg")]
pub(crate) struct AdminTokenArgs {
    /// Configuration file; by default, the built-in settings apply
    #[arg(value_name = "ZOO.CFG")]
    config: Option<PathBuf>,
    /// Replaces an existing credential
    #[arg(long)]
    new: bool,
}

/// Writes the credential and prints it.
pub(crate) fn run(args: &AdminTokenArgs) -> ExitCode {
    match ensure(args) {
        Ok(text) => match write_stdout(|out| out.write_all(text.as_bytes())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ToolError::from(error).report("admin-token"),
        },
        Err(error) => error.report("admin-token"),
    }
}

fn ensure(args: &AdminTokenArgs) -> Result<String, ToolError> {
    let file = args
        .config
        .iter()
        .map(|file| OsString::from(file.as_os_str()));
    let config =
        configure(file.collect()).map_err(|error| ToolError::Refused(error.to_string()))?;
    text(&config, args.new).map_err(|error| {
        let file = admin_token::path(&config.data_dir);
        ToolError::Refused(format!("{}: {error}", file.display()))
    })
}

/// Returns the message for an administrator. Writes a credential if none exists or if `anew` is
/// set.
pub(crate) fn text(config: &Config, anew: bool) -> io::Result<String> {
    let secret = admin_token::ensure(&config.data_dir, anew)?;
    let file = admin_token::path(&config.data_dir);
    let password = secret
        .expose()
        .split_once(':')
        .map_or("", |(_, password)| password);
    let mut text = format!(
        "The credential of administrators is in {}.\n",
        file.display()
    );
    if let Some(address) = console_address(config) {
        text.push_str(&format!("console:  {address}\n"));
    }
    let user = admin_token::USER;
    text.push_str(&format!("user:     {user}\npassword: {password}\nheader:   Authorization: digest {user}:{password}\n"));
    if !config.auth.digest_enabled {
        text.push_str("The credential has no effect while DigestAuthenticationProvider.enabled=false disables the scheme digest.\n");
    }
    Ok(text)
}

/// Returns the console's address for a local browser, or `None` if the console is disabled.
pub(crate) fn console_address(config: &Config) -> Option<String> {
    let admin = &config.admin;
    if !admin.is_enabled || !admin.console_enabled {
        return None;
    }
    let scheme = match admin.scheme {
        AdminScheme::Https => "https",
        AdminScheme::Http | AdminScheme::Both => "http",
    };
    let host = match admin.address.as_str() {
        "0.0.0.0" | "::" | "" => "localhost",
        host => host,
    };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    Some(format!("{scheme}://{host}:{}/", admin.port))
}

/// Writes the credential at the first start, and returns user and password. Returns `None` if a
/// credential exists, cannot be written or would have no effect, or if another way to administer
/// the server is configured.
pub(crate) fn first_credential(config: &Config) -> Option<(&'static str, String)> {
    let has_other = config.auth.super_digest.is_some() || !config.auth.super_users.is_empty();
    let is_first = !admin_token::path(&config.data_dir).exists();
    if has_other || !is_first || !config.auth.digest_enabled {
        return None;
    }
    match admin_token::ensure(&config.data_dir, false) {
        Ok(secret) => {
            let (_, password) = secret.expose().split_once(':')?;
            Some((admin_token::USER, password.to_owned()))
        }
        Err(error) => {
            tracing::warn!(err = %error, "cannot write the credential of administrators");
            None
        }
    }
}
