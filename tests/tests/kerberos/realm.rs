//! A realm with the servers of a test and the clients that log in to them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::{
    Flavour, Kdc, Missing, REALM, Server, ServerBuilder, apache_class_path, java_tool,
    kerberos_client, or_skip, python_with_kerberos, run, source_dir,
};

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const MODULE: &str = "com.sun.security.auth.module.Krb5LoginModule";
const LIMIT: Duration = Duration::from_secs(120);

/// The service that clients log in to.
pub(crate) const SERVICE: &str = "zookeeper/localhost";

/// The KDC, and the key tab of the servers.
pub(crate) struct Realm {
    pub(crate) kdc: Kdc,
    pub(crate) of_server: PathBuf,
}

impl Realm {
    /// Starts the KDC. Returns `None` if the test is skipped.
    pub(crate) fn start(what: &str) -> Option<Realm> {
        let kdc = or_skip(what, Kdc::start())?;
        let of_server = kdc.key_tab(SERVICE);
        Some(Realm { kdc, of_server })
    }

    /// Returns a section of a JAAS file.
    pub(crate) fn section(&self, name: &str, key_tab: &Path, principal: &str) -> String {
        let key_tab = key_tab.display();
        format!(
            "{name} {{\n  {MODULE} required useKeyTab=true storeKey=true useTicketCache=false\n  \
             keyTab=\"{key_tab}\" principal=\"{principal}@{REALM}\";\n}};\n"
        )
    }

    pub(crate) fn jaas(&self, name: &str, sections: &str) -> PathBuf {
        let path = self.kdc.path(name);
        std::fs::write(&path, sections).expect("a JAAS file");
        path
    }

    /// Returns a server that accepts clients with a ticket.
    pub(crate) fn builder(&self) -> ServerBuilder {
        self.builder_with(&self.of_servers())
    }

    /// Writes the JAAS file of the servers.
    pub(crate) fn of_servers(&self) -> PathBuf {
        let section = self.section("Server", &self.of_server, SERVICE);
        self.jaas("server.conf", &section)
    }

    pub(crate) fn builder_with(&self, jaas: &Path) -> ServerBuilder {
        Self::builder_in(jaas, &self.kdc.krb5_conf())
    }

    /// Does the same with another krb5.conf.
    pub(crate) fn builder_in(jaas: &Path, krb5_conf: &Path) -> ServerBuilder {
        let shown = |path: &Path| path.display().to_string();
        ServerBuilder::new(Flavour::ZoariumGssapi)
            .setting("authProvider.sasl", PROVIDER)
            .property("java.security.auth.login.config", &shown(jaas))
            .property("java.security.krb5.conf", &shown(krb5_conf))
    }

    pub(crate) fn server(&self) -> Option<Server> {
        or_skip("Kerberos", self.builder().start())
    }

    /// Runs the Zoarium client with the ticket of this cache, and returns its output.
    pub(crate) fn ours(
        &self,
        cache: &Path,
        arguments: &[&str],
    ) -> Result<Result<Vec<String>, String>, Missing> {
        let mut command = Command::new(kerberos_client()?);
        Ok(self.run_with(cache, command.args(arguments)))
    }

    fn run_with(&self, cache: &Path, command: &mut Command) -> Result<Vec<String>, String> {
        command
            .env("KRB5_CONFIG", self.kdc.krb5_conf())
            .env("KRB5CCNAME", format!("FILE:{}", cache.display()));
        let printed = run(command, LIMIT)?;
        Ok(printed.lines().map(str::to_owned).collect())
    }

    /// Runs a Python program with the ticket of this cache, and returns its output.
    pub(crate) fn python(
        &self,
        cache: &Path,
        program: &str,
        arguments: &[&str],
    ) -> Result<Vec<String>, Missing> {
        let mut command = Command::new(python_with_kerberos()?);
        command
            .arg(source_dir("python").join(program))
            .args(arguments);
        let printed = self.run_with(cache, &mut command);
        Ok(printed.unwrap_or_else(|failure| panic!("{failure}")))
    }

    /// Returns the first token of a login.
    pub(crate) fn token(&self, cache: &Path) -> Vec<u8> {
        let printed = self.ours(cache, &["token", SERVICE]).expect("our client");
        let printed = printed.unwrap_or_else(|failure| panic!("{failure}"));
        let digits = printed
            .iter()
            .find_map(|line| line.strip_prefix("token "))
            .expect("a token");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    /// Runs Java's client with this key tab, and returns its output.
    pub(crate) fn java(
        &self,
        server: &Server,
        principal: &str,
        key_tab: &Path,
        path: &str,
    ) -> Result<Vec<String>, Missing> {
        let section = self.section("Client", key_tab, principal);
        let jaas = self.jaas("client.conf", &section);
        let logging = source_dir("java").join("logback.xml");
        let krb5_conf = self.kdc.krb5_conf();
        let mut command = Command::new(java_tool("java")?);
        command
            .arg("-XX:+UseSerialGC")
            .arg(format!("-Dlogback.configurationFile={}", logging.display()))
            .arg(format!(
                "-Djava.security.auth.login.config={}",
                jaas.display()
            ))
            .arg(format!("-Djava.security.krb5.conf={}", krb5_conf.display()))
            .arg(format!("-Dzookeeper.server.principal={SERVICE}"))
            .args(["-cp", &apache_class_path()?])
            .arg(source_dir("java").join("SaslLogin.java"))
            .args([&format!("localhost:{}", server.port()), path]);
        let output = run(&mut command, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
        let told = ["login", "whoami", "create", "read"];
        let lines = output.lines().filter(|line| {
            let first = line.split(' ').next().unwrap_or_default();
            told.contains(&first)
        });
        Ok(lines.map(str::to_owned).collect())
    }
}
