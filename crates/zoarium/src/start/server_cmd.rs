//! The command `zoarium server`, which runs a server until it is stopped or fails.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use config::{Config, ConfigError, SystemProperties};
use server::{Server, StartError};
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::embedded::{ThisMachine, log_notices};
use crate::start::log_output::{self, FlushAtEnd};
use crate::start::logging::{self, DEFAULT_LEVELS, LogArgs, Logging};
use crate::start::notify;
use crate::start::ready::{ready_line, welcome};

/// Environment variables that contain the operators' `-D` flags.
const FLAG_VARIABLES: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];

/// Requested limit on file descriptors. With a low limit, the server could accept only a few
/// clients. The system may grant less.
const OPEN_FILES_WANTED: u64 = 1 << 20;

/// Time for the remaining tasks after the server has stopped, such as a query to a KDC or a name
/// server that does not respond. Their results no longer matter.
const LEFT_BEHIND_MAX: Duration = Duration::from_secs(1);

/// Runs a server with the arguments after `zoarium server`: `[-Dkey=value]... [zoo.cfg | port
/// datadir [ticktime] [maxcnxns]]`. The exit codes are the same as in Apache ZooKeeper (ExitCode).
pub(crate) fn run(args: Vec<OsString>, log: LogArgs) -> ExitCode {
    let _flush = FlushAtEnd;
    let logging = match logging::start(log, DEFAULT_LEVELS) {
        Ok(logging) => logging,
        Err(error) => {
            terminal::complain!("zoarium: {error}");
            return ExitCode::from(2);
        }
    };
    let (version, pid) = (metrics::version::PRODUCT, std::process::id());
    tracing::info!(version, pid, "zoarium");
    match configure(args) {
        Ok(config) => {
            if let Err(error) = restart_with_environment(&config) {
                tracing::error!(err = %error, "cannot restart with the environment of the Kerberos library");
                return ExitCode::from(1);
            }
            serve(Arc::new(config), logging)
        }
        Err(error) => {
            log_notices(error.notices());
            if let Some(Err(failed)) = error.audit().map(Server::audit_refused_start) {
                tracing::error!("{failed}");
            }
            refuse(&error)
        }
    }
}

/// Sets the environment variables from which the Kerberos library reads the location of the keys. A
/// process cannot safely set its own variables. Unless they are already set, this function
/// therefore replaces the process with a new one that has the same arguments.
fn restart_with_environment(config: &Config) -> io::Result<()> {
    let wanted = server::kerberos_environment(config);
    let is_set = |(name, value): &(&str, OsString)| std::env::var_os(name).as_ref() == Some(value);
    if wanted.iter().all(is_set) {
        return Ok(());
    }
    let mut args = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(args.next().unwrap_or_default());
    log_output::flush();
    // Returns only after a failure.
    Err(command.args(args).envs(wanted).exec())
}

/// Reports a configuration error. Scripts search stderr for the sentence of the error.
fn refuse(error: &ConfigError) -> ExitCode {
    tracing::error!("invalid configuration: {error}");
    log_output::flush();
    terminal::complain!("{}", error.sentence());
    ExitCode::from(error.exit_code)
}

/// Returns the `-D` flags in the environment.
pub(crate) fn flags() -> SystemProperties {
    let mut flags = SystemProperties::new();
    for name in FLAG_VARIABLES {
        if let Ok(text) = std::env::var(name) {
            flags.add_flags(name, &text);
        }
    }
    flags
}

/// Returns the configuration specified by the arguments of a server.
pub(crate) fn configure(args: Vec<OsString>) -> Result<Config, ConfigError> {
    let mut flags = flags();
    let mut rest = Vec::new();
    for arg in args {
        let text = arg.to_string_lossy().into_owned();
        match text.strip_prefix("-D") {
            Some(definition) => flags.define("the command line", definition),
            None => rest.push(text),
        }
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let surroundings = &mut ThisMachine;
    match rest.as_slice() {
        [] => Config::embedded(flags, surroundings),
        [file] => Config::load(Path::new(file), flags, surroundings),
        arguments => Config::from_arguments(arguments, flags, surroundings),
    }
}

fn serve(config: Arc<Config>, logging: Logging) -> ExitCode {
    log_notices(&config.notices);
    raise_open_files(&config);
    forbid_core_dumps(&config);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(blocking::arm)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(err = %error, "cannot start the runtime");
            return ExitCode::from(1);
        }
    };
    let is_json = logging.is_json;
    let code = runtime.block_on(async {
        // From now on these signals do not end the process, not even while the data is loaded.
        let signals = Signals::listen();
        tokio::spawn(logging.follow(signals.hang_up));
        serve_until_stopped(config, is_json, signals.stop, signals.quit).await
    });
    runtime.shutdown_timeout(LEFT_BEHIND_MAX);
    code
}

/// Signals that stop the server, with their names.
type Stop = [(&'static str, Signal); 2];

/// Signals that the process handles.
struct Signals {
    stop: io::Result<Stop>,
    quit: io::Result<Signal>,
    hang_up: io::Result<Signal>,
}

impl Signals {
    /// Installs the handlers, so none of these signals ends the process.
    fn listen() -> Self {
        let stop = || {
            let terminate = signal(SignalKind::terminate())?;
            let interrupt = signal(SignalKind::interrupt())?;
            Ok([("SIGTERM", terminate), ("SIGINT", interrupt)])
        };
        Self {
            stop: stop(),
            quit: signal(SignalKind::quit()),
            hang_up: signal(SignalKind::hangup()),
        }
    }
}

async fn serve_until_stopped(
    config: Arc<Config>,
    is_json: bool,
    stop: io::Result<Stop>,
    quit: io::Result<Signal>,
) -> ExitCode {
    let mut told = pin!(wait_for_stop_signal(stop));
    // Loading the data never yields. It runs on a separate thread, so it does not delay the
    // handling of signals.
    let (runtime, loading) = (Handle::current(), config.clone());
    let mut starting = blocking::run(move || runtime.block_on(Server::start(loading)));
    let started = tokio::select! {
        biased;
        started = &mut starting => started,
        name = &mut told => {
            tracing::info!(signal = name, "stopped before serving clients");
            return ExitCode::SUCCESS;
        }
    };
    let server = match started {
        Ok(Ok(server)) => server,
        Ok(Err(StartError::Unsupported(error))) => return refuse(&error),
        Ok(Err(error)) => {
            log_output::flush();
            // Both go to standard error: a sentence for people, or a log line for programs.
            if is_json {
                tracing::error!("{error}");
            } else {
                terminal::complain!("zoarium: {error}");
            }
            if let Some(address) = error.address() {
                report_port_holder(address);
                if config.source.is_none() {
                    terminal::complain!(
                        "zoarium: `zoarium quickstart` starts servers on free ports"
                    );
                }
            }
            return ExitCode::from(error.exit_code());
        }
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    log_output::flush();
    if terminal::stdout().is_terminal() {
        terminal::say!("{}", welcome(server.started(), &config));
    } else {
        terminal::say!("{}", ready_line(server.started(), &config));
    }
    let watchdog = notify::ready().map(tokio::spawn);
    let code = tokio::select! {
        name = told => {
            tracing::info!(signal = name, "stopping");
            0
        }
        code = server.failed() => {
            if code == server::EXIT_ELECTION_PORT {
                for port in election_ports(&config) {
                    report_port_holder((Ipv4Addr::UNSPECIFIED, port).into());
                }
            }
            code
        }
        () = log_state_on_signal(&server, quit) => 0,
    };
    notify::stopping();
    if let Some(watchdog) = watchdog {
        watchdog.abort();
    }
    if code == 0 {
        server.stop().await;
        tracing::info!("stopped");
    } else {
        server.end_audit();
    }
    ExitCode::from(code)
}

/// Reports which process uses a port that this server needs.
fn report_port_holder(address: SocketAddr) {
    if let Some(process) = preflight::port_holder(address) {
        terminal::complain!("zoarium: {process} uses port {}", address.port());
    }
}

/// Returns the ports on which this member listens for elections.
fn election_ports(config: &Config) -> impl Iterator<Item = u16> {
    let ensemble = config.ensemble.iter();
    let own = ensemble.filter_map(|ensemble| ensemble.membership.members.get(&ensemble.my_id));
    own.flat_map(|member| member.addresses.iter().map(|address| address.election_port))
}

/// Logs the state of the server at each SIGQUIT, as a JVM does with its threads. Never ends.
async fn log_state_on_signal(server: &Server, signals: io::Result<Signal>) {
    match signals {
        Ok(mut signals) => {
            while signals.recv().await.is_some() {
                server.log_state().await;
            }
        }
        Err(error) => {
            tracing::warn!(err = %error, "cannot listen for SIGQUIT, so SIGQUIT will stop this server");
        }
    }
    std::future::pending::<()>().await;
}

async fn wait_for_stop_signal(stop: io::Result<Stop>) -> &'static str {
    match stop {
        Ok([(one, mut first), (other, mut second)]) => tokio::select! {
            _ = first.recv() => one,
            _ = second.recv() => other,
        },
        Err(error) => {
            tracing::error!(err = %error, "cannot listen for SIGTERM and SIGINT, so both signals end this server immediately");
            std::future::pending().await
        }
    }
}

/// Disables core dumps, because they would contain data and secrets.
fn forbid_core_dumps(config: &Config) {
    if config.limits.core_dumps {
        return;
    }
    let core = rlimit::Resource::CORE;
    if let Err(error) = core.get().and_then(|(_, hard)| core.set(0, hard)) {
        tracing::warn!(err = %error, "cannot disable core dumps, which would contain data and secrets");
    }
}

/// Raises the limit on file descriptors as far as the system permits, because each connection needs
/// one.
fn raise_open_files(config: &Config) {
    let per_address = config.limits.max_client_cnxns;
    match rlimit::increase_nofile_limit(OPEN_FILES_WANTED) {
        Ok(limit) if limit < 4096 => {
            tracing::warn!(
                limit,
                per_address,
                "the limit of open files is low, raise `ulimit -n` to serve many clients"
            );
        }
        Ok(limit) => tracing::debug!(limit, "limit of open files"),
        Err(error) => tracing::warn!(err = %error, "cannot raise the limit of open files"),
    }
}
