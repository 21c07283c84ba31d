//! The complete configuration of a server, parsed and cross-checked.

pub(crate) mod audit;
pub(crate) mod budgets;
pub(crate) mod ensemble;
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod operations;
pub(crate) mod server;
pub(crate) mod storage;
pub(crate) mod traces;

use std::path::{Path, PathBuf};

use crate::access::auth::Auth;
use crate::access::jaas_sections::Jaas;
use crate::access::tls::{ClientTls, QuorumTls};
use ensemble::{Ensemble, Identity, QuorumSasl};
use identity::Lists;
use limits::Limits;
use operations::{Admin, AuditSettings, ChangeHistory, FourLetterWords, Metrics, PauseMonitor};
use proto::Secret;
use server::{ClientAddress, ClientListener, Containers, Features, Sessions};
use storage::{Purge, Storage};
use traces::TraceExport;

use crate::error::ConfigError;
use crate::formats::raw::RawConfig;
use crate::formats::system_properties::SystemProperties;
use crate::members::canonical_host;
use crate::registry::core as keys;
use crate::registry::{Key, Section, cluster, security};
use crate::report::finding;
use crate::report::origin::{Notice, NoticeLevel, Origin};
use crate::report::review::{self, GivenSetting};
use crate::report::verdicts;
use crate::settings::WrittenSettings;
use crate::surroundings::Surroundings;

/// Complete configuration of a server.
///
/// [`Config::load`] and similar functions create it once, and it does not change afterwards. The
/// caller must log [`Config::notices`] as soon as logging is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Path of the file, as given. Absent for a configuration without a file.
    pub source: Option<PathBuf>,
    /// Text of the file without its secrets, for the admin command `initial_configuration`.
    pub initial_configuration: Secret,
    /// Directory of the snapshots and of `myid`.
    pub data_dir: PathBuf,
    /// Directory of the transaction logs.
    pub data_log_dir: PathBuf,
    /// Length of a tick in milliseconds, at least 1.
    pub tick_time_ms: u32,
    /// Addresses at which clients connect.
    pub client: ClientListener,
    /// Timeouts and kinds of sessions.
    pub sessions: Sessions,
    /// Limits on the resources of clients.
    pub limits: Limits,
    /// Settings of the transaction log and the snapshots.
    pub storage: Storage,
    /// Settings for the deletion of old snapshots and logs.
    pub purge: Purge,
    /// Settings for the cleanup of containers and TTL nodes.
    pub containers: Containers,
    /// Features that can be switched on and off.
    pub features: Features,
    /// Settings for the authentication of clients.
    pub auth: Auth,
    /// TLS settings of the client ports.
    pub client_tls: ClientTls,
    /// TLS settings between members and of the admin port. Absent for a standalone server whose
    /// admin port does not use TLS.
    pub quorum_tls: Option<QuorumTls>,
    /// Whether the hosts in members' certificates are not checked, and DIGEST-MD5 between members
    /// is refused.
    pub fips_mode: bool,
    /// Enabled four-letter words.
    pub four_letter_words: FourLetterWords,
    /// Settings of the admin server.
    pub admin: Admin,
    /// Settings of the metrics.
    pub metrics: Metrics,
    /// Settings of the audit log. Absent if it is disabled.
    pub audit: Option<AuditSettings>,
    /// Settings of the change history. Absent if it is disabled.
    pub history: Option<ChangeHistory>,
    /// Settings for the export of write traces. Absent without a collector.
    pub traces: Option<TraceExport>,
    /// File for the trace of the member for the formal model.
    pub model_trace: Option<PathBuf>,
    /// Settings of the detector of pauses. Absent if it is disabled.
    pub pause_monitor: Option<PauseMonitor>,
    /// Ensemble of this server. Absent for a standalone server.
    pub ensemble: Option<Ensemble>,
    /// All system properties: flags, and settings of the file that became properties.
    pub properties: SystemProperties,
    /// Known settings that were set.
    pub given: Vec<GivenSetting>,
    /// Notices to log.
    pub notices: Vec<Notice>,
    /// Settings that require missing features, in the order of their lines. A server starts only if
    /// the list is empty. See [`Config::check_supported`].
    pub refusals: Vec<ConfigError>,
}

/// Warns if a superuser's certificate is configured, but no port uses TLS.
fn warn_of_super_user_without_tls(
    settings: &mut WrittenSettings,
    client: &ClientListener,
    admin: &Admin,
) {
    let has_tls = client.secure.is_some() || client.port_unification || admin.speaks_tls();
    if let Some(found) = settings
        .find(&security::X509_SUPER_USER)
        .filter(|_| !has_tls)
    {
        let text = "no port accepts TLS, so clients cannot use this certificate";
        settings.notices.push(found.warning(text));
    }
}

impl Config {
    /// Reads the file `path`, the files that it names, and `myid`.
    ///
    /// `flags` contains the `-D` flags of the command line and of the JVM variables.
    ///
    /// # Errors
    /// If the configuration is invalid. Returns the first fault in the order of Apache ZooKeeper's
    /// checks. If one file contains several invalid values, returns the first of them.
    pub fn load(
        path: &Path,
        flags: SystemProperties,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        Self::parse(
            crate::report::examine::read(path, surroundings)?,
            flags,
            surroundings,
        )
    }

    /// Works like [`Self::load`], with a file that was already read.
    ///
    /// # Errors
    /// If the configuration is invalid, like [`Self::load`].
    pub fn parse(
        raw: RawConfig,
        flags: SystemProperties,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        let path = raw.path().to_owned();
        let mut settings = WrittenSettings::new(raw, flags);
        let reading = format!("Reading configuration from: {}", path.display());
        settings.notice(NoticeLevel::Info, finding::NOTED, reading);
        let mut config = Self::build(settings, surroundings)?;
        config.source = Some(path);
        Ok(config)
    }

    /// Parses the legacy form without a file: `port datadir [ticktime] [maxcnxns]`.
    ///
    /// # Errors
    /// If the number of arguments is wrong (with Java's usage line), or if a value is invalid.
    pub fn from_arguments(
        arguments: &[&str],
        flags: SystemProperties,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        let (port, data_dir, tick_time, max_cnxns) = match *arguments {
            [port, data_dir] => (port, data_dir, None, None),
            [port, data_dir, tick_time] => (port, data_dir, Some(tick_time), None),
            [port, data_dir, tick_time, max] => (port, data_dir, Some(tick_time), Some(max)),
            _ => return Err(ConfigError::new(USAGE)),
        };
        // In Java's legacy form, the number of connections is unlimited by default.
        let mut written = vec![
            (keys::CLIENT_PORT.name, port.to_owned()),
            (keys::DATA_DIR.name, data_dir.to_owned()),
            (
                keys::MAX_CLIENT_CNXNS.name,
                max_cnxns.unwrap_or("0").to_owned(),
            ),
        ];
        written.extend(tick_time.map(|time| (keys::TICK_TIME.name, time.to_owned())));
        let origin = Origin::Flags("the command line".to_owned());
        let raw = RawConfig::without_file(written, &origin);
        Self::build(WrittenSettings::new(raw, flags), surroundings)
    }

    /// Returns the configuration of a server without settings: port [`EMBEDDED_PORT`], data in
    /// [`EMBEDDED_DATA_DIR`].
    ///
    /// # Errors
    /// If a flag has an invalid value.
    pub fn embedded(
        flags: SystemProperties,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        let written = [
            (keys::CLIENT_PORT.name, EMBEDDED_PORT.to_string()),
            (keys::DATA_DIR.name, EMBEDDED_DATA_DIR.to_owned()),
        ];
        let origin = Origin::Flags("the built-in configuration".to_owned());
        let raw = RawConfig::without_file(written, &origin);
        Self::build(WrittenSettings::new(raw, flags), surroundings)
    }

    /// Returns the configuration of a server inside another program. `settings` has the form of
    /// zoo.cfg, and the last value of a repeated setting takes effect. There is no file, so
    /// reconfigurations are not saved.
    ///
    /// # Errors
    /// If the configuration is invalid, like [`Self::load`].
    pub fn from_settings(
        settings: &[(String, String)],
        flags: SystemProperties,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        let written = settings.iter();
        let written = written.map(|(key, value)| (key.as_str(), value.trim().to_owned()));
        let raw = RawConfig::without_file(written, &Origin::file("the settings".as_ref()));
        Self::build(WrittenSettings::new(raw, flags), surroundings)
    }

    /// Refuses a configuration that requires a missing feature. An operator must not rely on
    /// protection, auditing or monitoring that does not exist.
    ///
    /// # Errors
    /// If there are refusals. Returns the first refusal, and names the other refused settings.
    pub fn check_supported(&self) -> Result<(), ConfigError> {
        let Some((first, others)) = self.refusals.split_first() else {
            return Ok(());
        };
        let mut refusal = first.clone();
        if !others.is_empty() {
            let places: Vec<String> = others.iter().map(ConfigError::place).collect();
            let too = format!("also refused: {}", places.join(", "));
            refusal.hint = Some(match refusal.hint {
                Some(hint) => format!("{hint}; {too}"),
                None => too,
            });
        }
        Err(refusal)
    }

    /// Returns the written settings of a section.
    pub fn given_in(&self, section: Section) -> impl Iterator<Item = &GivenSetting> {
        let is_in =
            move |given: &&GivenSetting| section.keys().iter().any(|key| **key == *given.key);
        self.given.iter().filter(is_in)
    }

    /// Builds the configuration. An error includes the earlier notices and the refusals, because
    /// they may show its cause, such as a misspelt name.
    fn build(
        mut settings: WrittenSettings,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        let given = review::review(&mut settings);
        let refusals = verdicts::judge(&mut settings, surroundings.has_gssapi());
        let built = Self::read(&mut settings, surroundings, given);
        let audit = AuditSettings::read(&mut settings).ok().flatten();
        let mut notices = without_repetition(settings.notices);
        match built {
            Ok(config) => Ok(Self {
                notices,
                refusals,
                ..config
            }),
            Err(error) => {
                notices.extend(refusals.into_iter().map(ConfigError::into_notice));
                Err(error.after(notices, audit))
            }
        }
    }

    fn read(
        settings: &mut WrittenSettings,
        surroundings: &mut dyn Surroundings,
        given: Vec<GivenSetting>,
    ) -> Result<Self, ConfigError> {
        check_before_use(settings)?;
        let purge = Purge::read(settings)?;
        let (data_dir, data_log_dir) = read_directories(settings)?;
        let mut client = ClientListener::read(settings)?;
        client.plain = read_address(settings, surroundings, &PLAIN)?;
        client.secure = read_address(settings, surroundings, &SECURE)?;
        // Java requires the provider only for secureClientPort. Without the provider, Java's
        // `clientPort` closes the connections of TLS clients even if it accepts TLS.
        if client.secure.is_some() || client.port_unification {
            crate::access::auth::require_tls_provider(settings)?;
        }
        if settings
            .number(&cluster::OBSERVER_MASTER_PORT)?
            .unwrap_or_default()
            <= 0
        {
            settings.notice(
                NoticeLevel::Info,
                finding::NOTED,
                "observerMasterPort is not set",
            );
        }
        let tick_time_ms = read_tick_time(settings)?;
        let sessions = Sessions::read(settings, surroundings, tick_time_ms)?;
        let metrics = Metrics::read(settings)?;
        let features = Features::read(settings)?;
        let history = ChangeHistory::read(settings, &data_dir)?;
        let traces = TraceExport::read(settings)?;

        let jaas = Jaas::read(settings, surroundings)?;
        let lists = Lists::read(settings, surroundings)?;
        lists.check(settings, &features)?;
        let my_id = identity::read_my_id(settings, &data_dir, surroundings)?;
        let membership = &lists.membership;
        identity::settle_client_address(settings, surroundings, membership, my_id, &mut client)?;
        let role = identity::settle_role(settings, membership, my_id)?;
        let is_quorum = !features.standalone_enabled || membership.participants().count() > 1;
        let listed_id = if is_quorum {
            Some(identity::check_quorum(
                settings, &data_dir, membership, my_id,
            )?)
        } else {
            None
        };
        let last_seen =
            identity::read_next(settings, surroundings, &lists, features.reconfig_enabled)?;
        let ensemble = if let Some(my_id) = listed_id {
            warn_of_large_id(settings, my_id.0, &features);
            let Lists {
                membership,
                dynamic_file,
            } = lists;
            let who = Identity {
                my_id,
                role,
                membership,
                last_seen,
                dynamic_file,
            };
            Some(Ensemble::read(settings, who, &jaas)?)
        } else {
            // Java logs a warning here, but this configuration usually means a standalone server.
            settings.notice(NoticeLevel::Info, finding::NOTED, STANDALONE);
            None
        };

        let auth = Auth::read(settings, &jaas)?;
        crate::access::sasl::check_one_key_tab(&auth.sasl, ensemble.as_ref().map(|it| &it.sasl))?;
        let admin = Admin::read(settings)?;
        warn_of_super_user_without_tls(settings, &client, &admin);
        let has_quorum_tls = ensemble.is_some() || admin.speaks_tls();
        let quorum_tls = has_quorum_tls.then(|| QuorumTls::read(settings));
        Ok(Self {
            source: None,
            initial_configuration: settings.raw.shown_text(),
            data_dir,
            data_log_dir,
            tick_time_ms,
            client,
            sessions,
            limits: Limits::read(settings)?,
            storage: Storage::read(settings, ensemble.is_some())?,
            purge,
            containers: Containers::read(settings)?,
            features,
            auth,
            client_tls: ClientTls::read(settings)?,
            quorum_tls: quorum_tls.transpose()?,
            fips_mode: settings.flag(&security::FIPS_MODE)?,
            four_letter_words: FourLetterWords::read(settings)?,
            admin,
            metrics,
            audit: AuditSettings::read(settings)?,
            history,
            traces,
            model_trace: settings.path(&crate::registry::operations::MODEL_TRACE),
            pause_monitor: PauseMonitor::read(settings)?,
            ensemble,
            properties: settings.properties.clone(),
            given,
            notices: Vec::new(),
            refusals: Vec::new(),
        })
    }
}

/// Performs the checks that Java performs while it reads the lines, and directly afterwards.
fn check_before_use(settings: &mut WrittenSettings) -> Result<(), ConfigError> {
    settings.check_file()?;
    if let Some(found) = settings.find(&cluster::ELECTION_ALG)
        && settings.number(&cluster::ELECTION_ALG)? != Some(ONLY_ELECTION_ALG)
    {
        let reason = "Invalid electionAlg value. Only 3 is supported.";
        return Err(found.refused(reason).hint("remove electionAlg"));
    }
    if settings.find(&cluster::DYNAMIC_CONFIG_FILE).is_some() {
        let lines = settings.raw.settings();
        let member = lines
            .iter()
            .find(|(key, _)| crate::membership::is_member_key(key));
        if let Some((key, setting)) = member {
            let reason = format!("parameter: {key} must be in a separate dynamic config file");
            return Err(ConfigError::new(reason)
                .at(Some(&setting.origin))
                .key(*key)
                .hint("move the line to the file that dynamicConfigFile names"));
        }
    }
    QuorumSasl::check(settings)
}

fn read_directories(settings: &mut WrittenSettings) -> Result<(PathBuf, PathBuf), ConfigError> {
    for key in [&keys::DATA_DIR, &keys::DATA_LOG_DIR] {
        let Some(found) = settings.find(key) else {
            continue;
        };
        let path = Path::new(&found.text);
        if !found.text.is_empty() && path.is_relative() && !found.text.starts_with("./") {
            let text = format!(
                "{} is relative. Prepend ./ to indicate that you're sure!",
                found.text
            );
            let notice = found.warning(text);
            settings.notices.push(Notice {
                id: finding::RELATIVE_PATH,
                ..notice
            });
        }
    }
    let Some(data_dir) = settings.path(&keys::DATA_DIR) else {
        return Err(ConfigError::new("dataDir is not set")
            .at(Some(&Origin::file(settings.raw.path())))
            .hint("add a line such as dataDir=/var/lib/zookeeper"));
    };
    let data_log_dir = settings
        .path(&keys::DATA_LOG_DIR)
        .unwrap_or_else(|| data_dir.clone());
    Ok((data_dir, data_log_dir))
}

struct AddressKeys {
    port: &'static Key,
    host: &'static Key,
}

/// Reads a port and the host to which it is bound.
fn read_address(
    settings: &mut WrittenSettings,
    surroundings: &mut dyn Surroundings,
    AddressKeys { port, host }: &AddressKeys,
) -> Result<Option<ClientAddress>, ConfigError> {
    let found_host = settings.find(host);
    let Some(number) = settings.port(port)? else {
        if let Some(found) = found_host {
            let reason = format!("{} is set but {} is not set", host.name, port.name);
            return Err(found.refused(reason).hint(format!("add {}", port.name)));
        }
        settings.notice(
            NoticeLevel::Info,
            finding::NOTED,
            format!("{} is not set", port.name),
        );
        return Ok(None);
    };
    let written = found_host
        .as_ref()
        .map_or("0.0.0.0", |found| found.text.as_str());
    let bare = written
        .strip_prefix('[')
        .and_then(|inside| inside.strip_suffix(']'));
    let name = canonical_host(bare.unwrap_or(written));
    let ip = identity::resolve(surroundings, &name).map_err(|error| {
        let reason = format!("{written}: {error}");
        match &found_host {
            Some(found) => found.refused(reason),
            None => ConfigError::new(reason),
        }
        .hint("the host must be resolvable when the server starts")
    })?;
    let address = ClientAddress {
        host: name,
        ip,
        port: number,
    };
    settings.notice(
        NoticeLevel::Info,
        finding::NOTED,
        format!("{} is {address}", host.name),
    );
    Ok(Some(address))
}

fn read_tick_time(settings: &mut WrittenSettings) -> Result<u32, ConfigError> {
    let number = settings.number(&keys::TICK_TIME)?.unwrap_or_default();
    let reason = match u32::try_from(number) {
        Ok(1..) => return settings.int(&keys::TICK_TIME),
        Ok(0) => "tickTime is not set".to_owned(),
        // Java accepts the value and computes negative timeouts.
        Err(_) => format!("{number} is not a valid duration"),
    };
    Err(match settings.find(&keys::TICK_TIME) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    }
    .hint("write a line such as tickTime=2000"))
}

/// Warns of a server id above 254 if TTL znodes are enabled. The id is the highest byte of session
/// ids, and 255 in this byte of an owner marks a TTL.
///
/// Source: Java's EphemeralType.validateServerId.
fn warn_of_large_id(settings: &mut WrittenSettings, my_id: i64, features: &Features) {
    if features.extended_types_enabled && my_id > MAX_ID_WITH_EXTENDED_TYPES {
        let text = format!(
            "server id {my_id} is too large: with extendedTypesEnabled the maximum is \
             {MAX_ID_WITH_EXTENDED_TYPES}"
        );
        settings.notice(NoticeLevel::Error, finding::MEMBERS, text);
    }
}

/// Removes repeated notices. A setting that is read in two places must have one notice.
fn without_repetition(notices: Vec<Notice>) -> Vec<Notice> {
    let mut once: Vec<Notice> = Vec::with_capacity(notices.len());
    for notice in notices {
        if !once.contains(&notice) {
            once.push(notice);
        }
    }
    once
}

/// Client port of [`Config::embedded`].
pub const EMBEDDED_PORT: u16 = 2181;
/// Data directory of [`Config::embedded`].
pub const EMBEDDED_DATA_DIR: &str = "./zoarium-data";

const ONLY_ELECTION_ALG: i64 = 3;
const MAX_ID_WITH_EXTENDED_TYPES: i64 = 254;
const USAGE: &str = "Usage: ZooKeeperServerMain configfile | port datadir [ticktime] [maxcnxns]";
const STANDALONE: &str =
    "Either no config or no quorum defined in config, running in standalone mode";
const PLAIN: AddressKeys = AddressKeys {
    port: &keys::CLIENT_PORT,
    host: &keys::CLIENT_PORT_ADDRESS,
};
const SECURE: AddressKeys = AddressKeys {
    port: &keys::SECURE_CLIENT_PORT,
    host: &keys::SECURE_CLIENT_PORT_ADDRESS,
};
