//! A separate Kerberos realm for a test: MIT's KDC on a loopback port, with its files in a
//! temporary directory.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::command::{find_tool, run};
use crate::port::Port;
use crate::process::Process;
use crate::secrets::learn;
use crate::skip::Missing;
use crate::wait::wait_for;

/// Name of the realm.
pub const REALM: &str = "ZOARIUM.TEST";

/// Time limit for one of its tools.
const TOOL_LIMIT: Duration = Duration::from_secs(60);
/// Time limit until it answers.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running KDC. Dropping it ends the process and removes the files.
#[derive(Debug)]
pub struct Kdc {
    dir: TempDir,
    tools: Tools,
    // Dropped before the directory, and before another test takes the port.
    _process: Process,
    _port: Port,
}

#[derive(Debug, Clone)]
struct Tools {
    kdb5_util: PathBuf,
    kadmin: PathBuf,
    krb5kdc: PathBuf,
    kinit: PathBuf,
}

impl Kdc {
    /// Creates a realm and serves it.
    ///
    /// # Errors
    /// [`Missing`] if MIT's KDC or its tools are not installed (Debian's `krb5-kdc`,
    /// `krb5-admin-server` and `krb5-user`).
    pub fn start() -> Result<Kdc, Missing> {
        let tools = Tools::find()?;
        let port = Port::take();
        let dir = tempfile::Builder::new()
            .prefix("zoarium-kdc-")
            .tempdir()
            .expect("a directory");
        write_files(dir.path(), port.number());
        let in_realm = |program: &Path| in_realm(program, dir.path());
        // -W: the key of the realm is worthless, so it does not have to wait for randomness.
        ran(in_realm(&tools.kdb5_util).args(["create", "-s", "-W", "-P", "realm-of-a-test"]));
        let mut serve = in_realm(&tools.krb5kdc);
        let process = Process::spawn(serve.arg("-n"), &dir.path().join("kdc.out"))
            .unwrap_or_else(|error| panic!("krb5kdc does not start: {error}"));
        wait_for("answer of the KDC", START_LIMIT, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).ok()
        });
        Ok(Kdc {
            dir,
            tools,
            _process: process,
            _port: port,
        })
    }

    /// Adds a principal to the realm, by a name without the realm, and returns its key tab.
    pub fn key_tab(&self, principal: &str) -> PathBuf {
        let file = self.path(&format!("{}.keytab", principal.replace('/', "_")));
        self.add(principal);
        self.export(principal, &file);
        file
    }

    /// Returns one key tab for several principals.
    pub fn key_tab_of(&self, name: &str, principals: &[&str]) -> PathBuf {
        let file = self.path(name);
        for principal in principals {
            self.add(principal);
            self.export(principal, &file);
        }
        file
    }

    fn add(&self, principal: &str) {
        let query = format!("addprinc -randkey {principal}");
        ran(self.in_realm(&self.tools.kadmin).args(["-q", &query]));
    }

    fn export(&self, principal: &str, file: &Path) {
        let query = format!("ktadd -norandkey -k {} {principal}", file.display());
        ran(self.in_realm(&self.tools.kadmin).args(["-q", &query]));
        let key_tab = fs::read(file).unwrap_or_else(|_| panic!("no key tab for {principal}"));
        for key in keys(&key_tab) {
            learn("a Kerberos key", key);
        }
    }

    /// Changes the key of a principal, so that no key tab contains it.
    pub fn change_key(&self, principal: &str) {
        let query = format!("cpw -randkey {principal}");
        ran(self.in_realm(&self.tools.kadmin).args(["-q", &query]));
    }

    /// Requests a ticket with a key tab. The ticket lives for `lifetime`, such as `10m`. Returns
    /// the path of its cache.
    pub fn ticket(&self, principal: &str, key_tab: &Path, lifetime: &str) -> PathBuf {
        let cache = self.path(&format!("{}-{lifetime}.cache", principal.replace('/', "_")));
        let mut command = self.in_realm(&self.tools.kinit);
        command
            .args(["-l", lifetime, "-k", "-t"])
            .arg(key_tab)
            .arg("-c")
            .arg(&cache)
            .arg(principal);
        ran(&mut command);
        cache
    }

    /// Returns the path of a file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the configuration for members of the realm.
    pub fn krb5_conf(&self) -> PathBuf {
        self.path("krb5.conf")
    }

    fn in_realm(&self, program: &Path) -> Command {
        in_realm(program, self.dir.path())
    }
}

impl Tools {
    fn find() -> Result<Tools, Missing> {
        Ok(Tools {
            kdb5_util: find("kdb5_util")?,
            kadmin: find("kadmin.local")?,
            krb5kdc: find("krb5kdc")?,
            kinit: find("kinit")?,
        })
    }
}

/// Returns the keys of a key tab: a version of two bytes, and then entries that begin with their
/// length.
///
/// ```text
/// components u16, realm and so many of them as length u16 and text, type u32, time u32, version u8,
/// key: type u16, length u16, so many bytes
/// ```
fn keys(key_tab: &[u8]) -> Vec<&[u8]> {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let mut rest = &key_tab[2..];
    let mut keys = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk::<4>() {
        let (entry, next) = behind.split_at(number(len));
        rest = next;
        let names = 1 + number(&entry[..2]);
        let at = (0..names).fold(2, |at, _| at + 2 + number(&entry[at..at + 2])) + 9;
        let len = number(&entry[at + 2..at + 4]);
        keys.push(&entry[at + 4..][..len]);
    }
    keys
}

/// Finds a daemon, which is not on every user's path.
fn find(name: &str) -> Result<PathBuf, Missing> {
    find_tool(name).or_else(|missing| {
        let places = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
        let files = places.map(|place| Path::new(place).join(name));
        files.into_iter().find(|file| file.is_file()).ok_or(missing)
    })
}

fn in_realm(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("KRB5_CONFIG", dir.join("krb5.conf"))
        .env("KRB5_KDC_PROFILE", dir.join("kdc.conf"));
    command
}

fn ran(command: &mut Command) {
    if let Err(failure) = run(command, TOOL_LIMIT) {
        panic!("{failure}");
    }
}

fn write_files(dir: &Path, port: u16) {
    let shown = dir.display();
    let krb5_conf = format!(
        "[libdefaults]\n\
         default_realm = {REALM}\n\
         dns_lookup_kdc = false\n\
         dns_lookup_realm = false\n\
         dns_canonicalize_hostname = false\n\
         rdns = false\n\
         udp_preference_limit = 1\n\
         default_rcache_name = file2:{shown}/replays\n\
         [realms]\n\
         {REALM} = {{\n  kdc = 127.0.0.1:{port}\n}}\n\
         [domain_realm]\n\
         localhost = {REALM}\n"
    );
    let kdc_conf = format!(
        "[kdcdefaults]\n\
         kdc_listen = \"\"\n\
         kdc_tcp_listen = 127.0.0.1:{port}\n\
         [realms]\n\
         {REALM} = {{\n\
         \x20 database_name = {shown}/principal\n\
         \x20 key_stash_file = {shown}/stash\n\
         \x20 acl_file = {shown}/acl\n\
         \x20 max_life = 10h\n\
         }}\n\
         [logging]\n\
         kdc = FILE:{shown}/kdc.log\n"
    );
    for (name, text) in [("krb5.conf", krb5_conf), ("kdc.conf", kdc_conf)] {
        fs::write(dir.join(name), text).expect("a file of the realm");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_key_tab_are_found() {
        let entry = |key: &[u8]| {
            let mut entry = b"\0\x02\0\x01R\0\x01a\0\x02bc".to_vec();
            entry.extend([0, 0, 0, 1, 1, 2, 3, 4, 1, 0, 18, 0]);
            entry.push(u8::try_from(key.len()).unwrap());
            entry.extend(key);
            // The version again, in four bytes.
            entry.extend([0, 0, 0, 1]);
            let len = u32::try_from(entry.len()).unwrap();
            [&len.to_be_bytes()[..], &entry].concat()
        };
        let key_tab = [b"\x05\x02", &entry(b"first")[..], &entry(b"the second")].concat();
        assert_eq!(keys(&key_tab), [&b"first"[..], b"the second"]);
        assert!(keys(b"\x05\x02").is_empty());
    }
}
