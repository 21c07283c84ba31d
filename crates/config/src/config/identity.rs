//! Identity of this server: the member list, `myid`, and the values that depend on them.
//!
//! Source: Java's QuorumPeerConfig.parseDynamicConfig, setupMyId,
//! setupClientPort, setupPeerType, checkValidity.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use proto::{ConfigVersion, Sid};

use super::ensemble::MultiAddress;
use super::server::{ClientAddress, ClientListener, Features};
use crate::error::{ConfigError, exit_code};
use crate::formats::java;
use crate::formats::properties::MAX_BYTES;
use crate::formats::raw::RawConfig;
use crate::members::{HostPort, MemberRole, canonical_host};
use crate::membership::{Membership, MembershipError, is_member_key};
use crate::registry::cluster as keys;
use crate::registry::core;
use crate::report::finding;
use crate::report::origin::{NoticeLevel, Origin};
use crate::settings::WrittenSettings;
use crate::surroundings::Surroundings;

/// Member list, and the file that contains it.
pub(super) struct Lists {
    pub(super) membership: Membership,
    pub(super) dynamic_file: Option<PathBuf>,
}

impl Lists {
    /// Reads the member list from zoo.cfg, or from the file that zoo.cfg names.
    pub(super) fn read(
        settings: &mut WrittenSettings,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        let multi_address = MultiAddress::read(settings)?.is_enabled;
        let Some(dynamic_file) = settings.path(&keys::DYNAMIC_CONFIG_FILE) else {
            let membership = parse_list(&settings.raw, multi_address)?;
            return Ok(Self {
                membership,
                dynamic_file: None,
            });
        };
        let named_by = settings.find(&keys::DYNAMIC_CONFIG_FILE);
        let bytes = surroundings
            .read(&dynamic_file, MAX_BYTES)
            .map_err(|error| {
                let reason = format!("Error processing {}: {error}", dynamic_file.display());
                let error = match &named_by {
                    Some(found) => found.refused(reason),
                    None => ConfigError::new(reason),
                };
                error.with_id(finding::DYNAMIC_FILE)
            })?;
        let membership = RawConfig::parse(&dynamic_file, &bytes)
            .and_then(|raw| parse_dynamic_file(&raw, multi_address))
            .and_then(|mut list| {
                list.version = version_of_file_name(&dynamic_file);
                check_written_list(&dynamic_file, &list)?;
                Ok(list)
            });
        let membership = membership.map_err(|error| error.or_hint(RESTORE_COMMITTED))?;
        Ok(Self {
            membership,
            dynamic_file: Some(dynamic_file),
        })
    }

    /// Refuses an invalid number of participants or observers. Warns of an unfavourable number of
    /// participants.
    pub(super) fn check(
        &self,
        settings: &mut WrittenSettings,
        features: &Features,
    ) -> Result<(), ConfigError> {
        let participants = self.membership.participants().count();
        let standalone = features.standalone_enabled;
        if let Err(reason) = self.membership.check_counts(standalone) {
            let origin = match &self.dynamic_file {
                Some(path) => Origin::file(path),
                None => Origin::file(settings.raw.path()),
            };
            let error = ConfigError::new(reason.to_string()).with_id(finding::MEMBERS);
            return Err(error.at(Some(&origin)));
        }
        match participants {
            0 => {}
            1 if standalone => settings.notice(
                NoticeLevel::Error,
                finding::VOTERS,
                "Invalid configuration, only one server specified (ignoring)",
            ),
            1 | 2 => settings.notice(
                NoticeLevel::Warn,
                finding::VOTERS,
                "No server failure will be tolerated. You need at least 3 servers.",
            ),
            even if even % 2 == 0 => settings.notice(
                NoticeLevel::Warn,
                finding::VOTERS,
                "Non-optimal configuration, consider an odd number of servers.",
            ),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the version in the name of a dynamic file: the hexadecimal number after the last dot, or
/// 0 if there is none.
pub fn version_of_file_name(path: &Path) -> ConfigVersion {
    let name = path.to_string_lossy();
    let version = name
        .rsplit_once('.')
        .and_then(|(_, version)| ConfigVersion::parse(version));
    version.unwrap_or_default()
}

/// Reads `myid` from the first line of its file in the data directory. Returns `None` if the file
/// is missing, is a directory, or contains -1.
pub(super) fn read_my_id(
    settings: &WrittenSettings,
    data_dir: &Path,
    surroundings: &mut dyn Surroundings,
) -> Result<Option<Sid>, ConfigError> {
    let path = data_dir.join("myid");
    let origin = Origin::file(&path);
    let bytes = match surroundings.read(&path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if is_no_file(error.kind()) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(no_directory(settings, data_dir));
        }
        Err(error) => {
            let error = ConfigError::new(error.to_string()).with_id(finding::MY_ID);
            return Err(error.at(Some(&origin)));
        }
    };
    let end = bytes
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'\r'))
        .unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(bytes.split_at(end).0);
    match java::parse_decimal(&line) {
        // Java uses this value for an unknown id.
        Some(-1) => Ok(None),
        Some(sid) => Ok(Some(Sid(sid))),
        None => {
            let shown = if bytes.is_empty() { "null" } else { &line };
            let reason = format!("serverid {shown} is not a number");
            let hint = "the first line must contain only this server's id, the N of server.N";
            let error = ConfigError::new(reason).with_id(finding::MY_ID);
            Err(error.at(Some(&origin)).hint(hint))
        }
    }
}

/// Returns the error for a `dataDir` that is a file. Java's members report a missing `myid` in this
/// case.
fn no_directory(settings: &WrittenSettings, data_dir: &Path) -> ConfigError {
    let reason = format!("{} is not a directory", data_dir.display());
    let error = match settings.find(&core::DATA_DIR) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    error
        .with_id(finding::DATA_DIRECTORY)
        .hint("move the file away, or name another directory")
        .exit_code(exit_code::UNABLE_TO_ACCESS_DATADIR)
}

/// Sets the address for clients to the address in this server's entry in the member list, if any.
/// An address in zoo.cfg must agree with it.
pub(super) fn settle_client_address(
    settings: &WrittenSettings,
    surroundings: &mut dyn Surroundings,
    membership: &Membership,
    my_id: Option<Sid>,
    client: &mut ClientListener,
) -> Result<(), ConfigError> {
    let Some(my_id) = my_id else { return Ok(()) };
    let Some(listed) = membership
        .members
        .get(&my_id)
        .and_then(|m| m.client.as_ref())
    else {
        return Ok(());
    };
    let resolved = resolve(surroundings, &listed.host).ok();
    if let Some(from_file) = &client.plain {
        let agrees = from_file.port == listed.port
            && (from_file.ip.is_unspecified() || resolved == Some(from_file.ip));
        if !agrees {
            let is_address_written = settings.find(&core::CLIENT_PORT_ADDRESS).is_some();
            let own_name = if is_address_written {
                name_of(&from_file.host)
            } else {
                from_file.host.clone()
            };
            let reason = format!(
                "client address for this server (id = {my_id}) in static config file is {} is \
                 different from client address found in dynamic file: {}",
                java_address(&own_name, Some(from_file.ip), from_file.port),
                java_address(&name_of(&listed.host), resolved, listed.port),
            );
            let error = match settings.find(&core::CLIENT_PORT) {
                Some(found) => found.refused(reason),
                None => ConfigError::new(reason),
            };
            let error = error.with_id(finding::MEMBERS);
            return Err(error.hint("remove clientPort and clientPortAddress from this file"));
        }
    }
    let ip = resolved.ok_or_else(|| unresolved(listed))?;
    client.plain = Some(ClientAddress {
        host: listed.host.clone(),
        ip,
        port: listed.port,
    });
    Ok(())
}

/// Returns the role of this server in the member list, even if `peerType` differs.
pub(super) fn settle_role(
    settings: &mut WrittenSettings,
    membership: &Membership,
    my_id: Option<Sid>,
) -> Result<MemberRole, ConfigError> {
    let written = settings.role(&keys::PEER_TYPE)?;
    let member = my_id.and_then(|my_id| membership.members.get(&my_id));
    let listed = member.map(|member| member.role).unwrap_or_default();
    if listed != written {
        let text = format!(
            "Peer type from servers list ({}) doesn't match peerType ({}). Defaulting to servers \
             list.",
            listed.java_name(),
            written.java_name(),
        );
        settings.notice(NoticeLevel::Warn, finding::MEMBERS, text);
    }
    Ok(listed)
}

/// Checks the mandatory settings of an ensemble: `initLimit`, `syncLimit` and `myid`, in this
/// order. The member list must contain the id of this server.
pub(super) fn check_quorum(
    settings: &mut WrittenSettings,
    data_dir: &Path,
    membership: &Membership,
    my_id: Option<Sid>,
) -> Result<Sid, ConfigError> {
    let file = Origin::file(settings.raw.path());
    let hints = [
        (&keys::INIT_LIMIT, "write a line such as initLimit=10"),
        (&keys::SYNC_LIMIT, "write a line such as syncLimit=5"),
    ];
    for (key, hint) in hints {
        let number = settings.number(key)?.unwrap_or_default();
        let reason = match number {
            1.. => continue,
            0 => format!("{} is not set", key.name),
            // Java starts with such a value, but every connection fails.
            _ => format!("{number} is not a valid duration"),
        };
        let error = match settings.find(key) {
            Some(found) => found.refused(reason),
            None => ConfigError::new(reason).at(Some(&file)),
        };
        return Err(error.hint(hint));
    }
    let my_id_file = data_dir.join("myid");
    let Some(my_id) = my_id else {
        let hint = "create the file with one line: this server's id, the N of its line server.N";
        let error = ConfigError::new("myid file is missing").at(Some(&Origin::file(&my_id_file)));
        return Err(error.with_id(finding::MY_ID_MISSING).hint(hint));
    };
    if !membership.members.contains_key(&my_id) {
        let listed: Vec<String> = membership.members.keys().map(Sid::to_string).collect();
        return Err(
            ConfigError::new(format!("My id {my_id} not in the peer list"))
                .with_id(finding::MY_ID_NOT_LISTED)
                .at(Some(&Origin::file(&my_id_file)))
                .hint(format!("the member list contains {}", listed.join(", ")))
                .exit_code(exit_code::UNEXPECTED_ERROR),
        );
    }
    Ok(my_id)
}

/// Resolves a host, which may already be an address.
pub(super) fn resolve(surroundings: &mut dyn Surroundings, host: &str) -> io::Result<IpAddr> {
    match host.parse() {
        Ok(address) => Ok(address),
        Err(_) => surroundings.resolve(host),
    }
}

fn parse_list(raw: &RawConfig, multi_address: bool) -> Result<Membership, ConfigError> {
    let lines = raw.settings();
    let lines = lines
        .iter()
        .filter(|(key, _)| is_member_key(key) || *key == "version");
    let entries = lines.map(|(key, setting)| (*key, setting.value.as_str()));
    Membership::from_entries(entries, multi_address).map_err(|error| refused(raw, error))
}

fn parse_dynamic_file(raw: &RawConfig, multi_address: bool) -> Result<Membership, ConfigError> {
    for (key, setting) in raw.settings() {
        let reason = match key {
            "version" => "dynamic file shouldn't have version inside".to_owned(),
            _ if !is_member_key(key) => format!("Unrecognised parameter: {key}"),
            _ => continue,
        };
        let hint = "a dynamic file may contain only server.N, group.N and weight.N; its name contains its version";
        return Err(ConfigError::new(reason)
            .with_id(finding::DYNAMIC_FILE)
            .at(Some(&setting.origin))
            .key(key)
            .hint(hint));
    }
    parse_list(raw, multi_address)
}

/// Hint for a damaged file of the current list.
const RESTORE_COMMITTED: &str = "if the file is damaged, copy the file of the same name from another \
     member, or write the content of another member's /zookeeper/config into it, without the \
     version line";

/// Hint for a damaged file of a proposed list.
const RESTORE_PROPOSED: &str = "if the file is damaged, copy the file of the same name from another \
     member; if no other member has this file, no reconfiguration is in progress, so you may \
     remove it";

/// Checks a list that a server has written. Such a list always contains a voter, so a list without
/// voters is damaged. A server that accepted it would run standalone with the history of an
/// ensemble.
fn check_written_list(path: &Path, list: &Membership) -> Result<(), ConfigError> {
    if list.version == ConfigVersion::default() || list.participants().next().is_some() {
        return Ok(());
    }
    let error = ConfigError::new(
        "the file does not contain a voter, so it was changed after a server wrote it",
    );
    Err(error
        .with_id(finding::MEMBERS)
        .at(Some(&Origin::file(path))))
}

/// Parses a proposed list. It affects elections, so damaged lines must not be ignored. Java ignores
/// unknown lines.
fn parse_proposed_file(raw: &RawConfig, multi_address: bool) -> Result<Membership, ConfigError> {
    let settings = raw.settings();
    let mut settings = settings.iter();
    let unknown = settings.find(|(key, _)| !is_member_key(key) && *key != "version");
    if let Some((key, setting)) = unknown {
        return Err(ConfigError::new(format!("Unrecognised parameter: {key}"))
            .with_id(finding::DYNAMIC_FILE)
            .at(Some(&setting.origin))
            .key(*key));
    }
    let list = parse_list(raw, multi_address)?;
    if list.version == ConfigVersion::default() {
        return Err(ConfigError::new("the line with the version is missing")
            .with_id(finding::MEMBERS)
            .at(Some(&Origin::file(raw.path()))));
    }
    check_written_list(raw.path(), &list)?;
    Ok(list)
}

/// Reads `<static file>.dynamic.next`: a list that was proposed before the server ended. The file
/// is read only if zoo.cfg names a dynamic file.
pub(super) fn read_next(
    settings: &mut WrittenSettings,
    surroundings: &mut dyn Surroundings,
    lists: &Lists,
    reconfig_enabled: bool,
) -> Result<Option<Membership>, ConfigError> {
    if lists.dynamic_file.is_none() {
        return Ok(None);
    }
    let multi_address = MultiAddress::read(settings)?.is_enabled;
    let mut path = settings.raw.path().as_os_str().to_owned();
    path.push(".dynamic.next");
    let path = PathBuf::from(path);
    match surroundings.read(&path, MAX_BYTES) {
        Ok(bytes) => RawConfig::parse(&path, &bytes)
            .and_then(|raw| {
                if reconfig_enabled {
                    parse_proposed_file(&raw, multi_address)
                } else {
                    parse_list(&raw, multi_address)
                }
            })
            .map(Some)
            .map_err(|error| error.or_hint(RESTORE_PROPOSED)),
        Err(error) if is_no_file(error.kind()) => Ok(None),
        Err(error) if reconfig_enabled => {
            Err(ConfigError::new(format!("cannot read the file: {error}"))
                .with_id(finding::MEMBERS)
                .at(Some(&Origin::file(&path)))
                .hint(RESTORE_PROPOSED))
        }
        Err(error) => {
            let text = format!(
                "cannot read {}, so the file is ignored: {error}",
                path.display()
            );
            settings.notice(NoticeLevel::Warn, finding::MEMBERS, text);
            Ok(None)
        }
    }
}

fn refused(raw: &RawConfig, error: MembershipError) -> ConfigError {
    let refused = ConfigError::new(error.reason.to_string()).with_id(finding::MEMBERS);
    match error.key {
        Some(key) => {
            let origin = raw.setting(&key).map(|setting| &setting.origin);
            refused.at(origin).key(key)
        }
        None => refused.at(Some(&Origin::file(raw.path()))),
    }
}

fn unresolved(address: &HostPort) -> ConfigError {
    ConfigError::new(format!("Address unresolved: {address}"))
        .with_id(finding::UNRESOLVED)
        .exit_code(exit_code::UNEXPECTED_ERROR)
}

fn is_no_file(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
}

/// Returns the name part of an `InetSocketAddress` as Java prints it. It is empty for an address.
fn name_of(host: &str) -> String {
    if host.parse::<IpAddr>().is_ok() {
        String::new()
    } else {
        host.to_owned()
    }
}

/// Formats an `InetSocketAddress` like Java: name, slash, address, port.
fn java_address(name: &str, ip: Option<IpAddr>, port: u16) -> String {
    match ip {
        Some(IpAddr::V4(ip)) => format!("{name}/{ip}:{port}"),
        Some(ip @ IpAddr::V6(_)) => {
            format!("{name}/[{}]:{port}", canonical_host(&ip.to_string()))
        }
        None => format!("{name}/<unresolved>:{port}"),
    }
}
