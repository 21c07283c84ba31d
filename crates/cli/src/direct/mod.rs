//! Commands of the program itself, such as `zoarium get /path`, with clean output, plain errors and
//! exit codes.
//!
//! They use the same sessions, walks and messages as the shell. The output differs from zkCli.sh:
//! results go to standard output, and all other text to standard error.

mod members;
mod relocate;
mod status;
mod watch;
mod znode;

use std::io::IsTerminal;

use client::port::{ADMIN_PORT, CLIENT_PORT, PortKind, probe};
use client::tls::Connector;

use crate::commands;
use crate::exit;
use crate::failure::Failure;
use crate::parse::path;
use crate::shell::Shell;
use crate::shell::person;
use crate::shell::start::{CliArguments, ClientSettings, Format};

/// Servers of a command, with the connection settings.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// Connect string: `host:port[,...][/chroot]`.
    pub servers: String,
    /// Form of the output.
    pub format: Format,
    /// Connector for all connections, instead of the connector of `settings`.
    pub connector: Option<Connector>,
    /// TLS and login settings from flags.
    pub settings: ClientSettings,
    /// Scheme and data of an identity for the session, such as `digest` and `user:password`.
    pub identity: Option<(String, String)>,
}

/// Data of a znode from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Null.
    Null,
    /// The given bytes.
    Bytes(Vec<u8>),
    /// All of standard input.
    Stdin,
}

/// Form of data in text output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DataForm {
    /// The raw bytes.
    #[default]
    Raw,
    /// Base64.
    Base64,
    /// A table of hexadecimal numbers.
    Hex,
}

/// Command of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Direct {
    /// Prints the data of a znode.
    Get {
        /// Path of the znode.
        path: String,
        /// Form of the data.
        form: DataForm,
    },
    /// Prints the names of the children.
    List {
        /// Path of the parent.
        path: String,
        /// Whether columns with details are printed.
        is_long: bool,
        /// Whether the paths of the whole subtree are printed.
        is_recursive: bool,
    },
    /// Prints the Stat of a znode.
    Stat {
        /// Path of the znode.
        path: String,
    },
    /// Replaces the data of a znode.
    Set {
        /// Path of the znode.
        path: String,
        /// New data.
        data: Data,
        /// Version that the znode must have, or -1 for any.
        version: i32,
    },
    /// Creates a znode and prints its path.
    Create {
        /// Path of the znode.
        path: String,
        /// Data of the znode.
        data: Data,
        /// ACL of the znode. By default, everyone has all permissions.
        acl: Option<String>,
        /// Whether the server appends a number to the path.
        is_sequential: bool,
        /// Whether the server deletes the znode after its last child has been deleted.
        is_container: bool,
        /// Time after which the server deletes the unchanged znode, in ms.
        ttl_ms: Option<i64>,
        /// Whether missing parents are created.
        with_parents: bool,
    },
    /// Deletes a znode.
    Remove {
        /// Path of the znode.
        path: String,
        /// Version that the znode must have, or -1 for any.
        version: i32,
        /// Whether all znodes below are deleted, too.
        is_recursive: bool,
        /// Whether the command succeeds if the znode is missing.
        is_forced: bool,
    },
    /// Moves a subtree in one transaction.
    Move {
        /// Path of the subtree.
        from: String,
        /// New path.
        to: String,
    },
    /// Prints or replaces an ACL.
    Acl {
        /// Path of the znode.
        path: String,
        /// New ACL (`scheme:id:perms[,...]`), or `None` to print the ACL.
        acl: Option<String>,
        /// ACL version that the znode must have, or -1 for any.
        version: i32,
        /// Whether all znodes below receive the ACL, too.
        is_recursive: bool,
    },
    /// Prints the member list.
    Members,
    /// Prints a table of members.
    Status {
        /// Whether all members of the ensemble are queried, instead of only the named servers.
        is_all: bool,
        /// Admin ports that the user named. They report client ports that are missing in the member
        /// list.
        admins: Vec<String>,
    },
    /// Prints changes below a path as they happen.
    Watch {
        /// Root of the subtree.
        path: String,
        /// Number of changes after which the watch ends.
        limit: Option<u64>,
    },
    /// Starts the interactive shell.
    Interactive,
    /// Runs a command of the shell with its words.
    Shell(Vec<String>),
}

/// Checks the path of a znode.
///
/// # Errors
/// If the path is invalid. The error contains the reason.
pub fn check_path(text: &str) -> Result<String, String> {
    match path::validate(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(failure) => Err(failure.text),
    }
}

/// Runs a command and returns its exit code. Error messages contain the name of the command,
/// `name`.
pub fn run_direct(name: &str, target: Target, direct: Direct) -> u8 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain!("zoarium {name}: cannot start a runtime: {error}");
            return exit::FAILED;
        }
    };
    let code = runtime.block_on(run(name, target, direct));
    // A thread that is still reading from the terminal is abandoned.
    runtime.shutdown_background();
    code
}

async fn open(target: Target) -> Shell {
    let mut shell = Shell::new(CliArguments::direct(
        target.servers,
        target.format,
        target.connector,
    ));
    shell.start.settings = target.settings;
    shell.prints_watches = false;
    if let Some((scheme, auth)) = &target.identity {
        shell.add_auth(scheme, auth).await;
    }
    shell
}

/// Runs the shell interactively, or executes the commands from standard input.
async fn run_shell(shell: &mut Shell) -> Result<u8, Failure> {
    shell.is_friendly = true;
    shell.dir = Some("/".to_owned());
    if std::io::stdin().is_terminal() && terminal::stdout().is_terminal() {
        drop(shell.client("").await?);
        shell.prints_watches = true;
        let server = shell.server().to_owned();
        shell.print(&format!(
            "Connected to {server}. `help` lists the commands, Tab completes them, and Ctrl-D ends the shell."
        ));
        person::run(shell).await?;
    } else {
        crate::read_lines(shell).await;
    }
    Ok(shell.exit_code())
}

async fn run(name: &str, target: Target, direct: Direct) -> u8 {
    let mut shell = open(target).await;
    let done = direct.execute(&mut shell).await;
    let code = match done {
        Ok(code) => code,
        Err(failure) => {
            let mut text = failure.plain().to_owned();
            if failure.exit == exit::UNREACHABLE
                && let Some(hint) = wrong_port(&shell).await
            {
                text = hint;
            }
            terminal::complain!("zoarium {name}: {text}");
            failure.exit
        }
    };
    shell.leave().await;
    shell.code_with_output(code)
}

/// Returns an explanation if a server is reachable, but the port is not a client port.
async fn wrong_port(shell: &Shell) -> Option<String> {
    let (options, _) = shell.start.options(shell.server()).ok()?;
    for server in options.servers() {
        let kind = probe(server, options.connector()).await;
        let reason = match kind.ok()? {
            PortKind::Client => continue,
            PortKind::Admin => format!(
                "{server} is an admin port. Name it with --admin; --server takes the client port (by default {CLIENT_PORT})"
            ),
            PortKind::Tls => {
                format!("{server} requires TLS: use --tls, or name the plain client port")
            }
            PortKind::Other => format!(
                "{server} is not a client port (by default {CLIENT_PORT}) or an admin port (by default {ADMIN_PORT})"
            ),
        };
        return Some(reason);
    }
    None
}

impl Direct {
    /// Executes the command and returns the exit code.
    async fn execute(&self, shell: &mut Shell) -> Result<u8, Failure> {
        match self {
            Self::Get { path, form } => znode::get(shell, path, *form).await?,
            Self::List {
                path,
                is_long,
                is_recursive,
            } => znode::list(shell, path, *is_long, *is_recursive).await?,
            Self::Stat { path } => znode::stat(shell, path).await?,
            Self::Set {
                path,
                data,
                version,
            } => znode::set(shell, path, data, *version).await?,
            Self::Create { .. } => znode::create(shell, self).await?,
            Self::Remove {
                path,
                version,
                is_recursive,
                is_forced,
            } => relocate::remove(shell, path, *version, *is_recursive, *is_forced).await?,
            Self::Move { from, to } => relocate::relocate(shell, from, to).await?,
            Self::Acl {
                path,
                acl,
                version,
                is_recursive,
            } => znode::acl(shell, path, acl.as_deref(), *version, *is_recursive).await?,
            Self::Interactive => return run_shell(shell).await,
            Self::Members => members::print(shell).await?,
            Self::Status { is_all, admins } => {
                return status::status(shell, *is_all, admins).await;
            }
            Self::Watch { path, limit } => watch::watch(shell, path, *limit).await?,
            Self::Shell(words) => {
                if let Some((name, words)) = words.split_first() {
                    commands::execute(shell, name, words).await?;
                }
            }
        }
        Ok(exit::DONE)
    }
}
