//! Start of a server. Unsupported settings are refused, settings without effect are reported once,
//! and the exit codes are those that scripts expect.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::expect_no_secret;

/// A zoo.cfg of a standalone server, with its directories.
struct Site {
    dir: TempDir,
    flags: String,
}

/// Result of a start.
struct Outcome {
    /// Exit code. `None` if the server started and was then killed.
    code: Option<i32>,
    stderr: String,
}

impl Site {
    fn new(lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n{lines}\n",
            dir.path().join("data").display()
        );
        fs::write(dir.path().join("zoo.cfg"), text).unwrap();
        let flags = String::new();
        Self { dir, flags }
    }

    /// Creates a zoo.cfg with only these lines. `DIR` stands for a temporary directory.
    fn with_file(text: &str) -> Self {
        let site = Self::new("");
        let dir = site.dir.path().display().to_string();
        fs::write(site.zoo_cfg(), text.replace("DIR", &dir)).unwrap();
        site
    }

    /// Adds JVM flags to the environment.
    fn flags(mut self, flags: &str) -> Self {
        flags.clone_into(&mut self.flags);
        self
    }

    fn zoo_cfg(&self) -> PathBuf {
        self.dir.path().join("zoo.cfg")
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn start(&self) -> Outcome {
        self.start_with(&[])
    }

    /// Starts the server with these options.
    fn start_with(&self, options: &[&str]) -> Outcome {
        let mut process = Command::new(env!("CARGO_BIN_EXE_zoarium"))
            .arg("server")
            .args(options)
            .arg(self.zoo_cfg())
            .env("JVMFLAGS", &self.flags)
            .env_remove("SERVER_JVMFLAGS")
            .env_remove("RUST_LOG")
            .env_remove("ZOARIUM_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Either the line that reports that the server serves, or the end of the output.
        let mut ready = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut ready).unwrap();
        if !ready.is_empty() {
            process.kill().unwrap();
        }
        let mut stderr = String::new();
        let mut pipe = process.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        let code = process.wait().unwrap().code();
        expect_no_secret(&ready);
        expect_no_secret(&stderr);
        Outcome {
            code: code.filter(|_| ready.is_empty()),
            stderr,
        }
    }
}

impl Outcome {
    /// Checks for a refusal before the log starts.
    fn expect_log_refusal(&self, text: &str) {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        let is_one = self.stderr.lines().count() == 1 && self.stderr.contains(text);
        assert!(is_one, "no `{text}` in: {}", self.stderr);
    }

    fn expect_refusal(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        if code == 2 {
            let sentence = "\nInvalid config, exiting abnormally\n";
            assert!(self.stderr.ends_with(sentence), "{}", self.stderr);
        }
        assert!(
            self.stderr.contains(text),
            "no `{text}` in: {}",
            self.stderr
        );
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

/// Settings on which an operator may rely, but which are not supported. Each line is refused.
const REFUSED: &[&str] = &[
    "authProvider.2=org.apache.zookeeper.server.auth.KeyAuthenticationProvider",
    "authProvider.own=com.example.OwnAuthenticationProvider",
    "kerberos.removeHostFromPrincipal=true",
    "kerberos.removeRealmFromPrincipal=true",
    "kerberos.canonicalizeHostNames=true",
    "security.auth_to_local=RULE:[1:$1]",
    "ssl.authProvider=corp",
    "ssl.keyStore.type=BCFKS",
    "ssl.crl=true",
    "ssl.ocsp=true",
    "ssl.context.supplier.class=com.example.Supplier",
    "ssl.quorum.crl=true",
    "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST",
    "admin.needClientAuth=true",
    "DigestAuthenticationProvider.digestAlg=MD5",
];

#[test]
fn a_server_does_not_start_with_missing_features() {
    for line in REFUSED {
        // The admin settings require something only if the admin server is not switched off.
        let site = Site::with_file(&format!("dataDir=DIR/data\nclientPort=0\n{line}\n"));
        let (key, _) = line.split_once('=').unwrap();
        let refused = site.start();
        let place = format!("{}:3: {key}: ", site.zoo_cfg().display());
        refused.expect_refusal(2, &place);
        assert!(refused.stderr.contains(" ("), "{}", refused.stderr);
        assert!(is_empty(&site.data_dir()), "{line}");
    }
}

/// Settings without an effect, which do no harm. Each line causes a warning.
const WITHOUT_EFFECT: &[&str] = &[
    "multiAddress.reachabilityCheckEnabled=false",
    "multiAddress.reachabilityCheckTimeoutMs=500",
    "syncEnabled=false",
    "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
    "client.secure=true",
];

#[test]
fn a_server_warns_once_about_each_setting_without_effect() {
    let site = Site::new(&WITHOUT_EFFECT.join("\n"));
    let started = site.start();
    assert_eq!(started.code, None, "{}", started.stderr);
    for line in WITHOUT_EFFECT {
        let (key, _) = line.split_once('=').unwrap();
        let said = format!(": {key}: no effect: ");
        let count = started.stderr.matches(&said).count();
        assert_eq!(count, 1, "{key}: {}", started.stderr);
    }
}

/// `/metrics` would answer in plain text.
#[test]
fn tls_settings_of_the_exporter_of_later_releases_are_refused() {
    let class = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    for line in [
        "metricsProvider.httpsPort=7443",
        "metricsProvider.ssl.need.client.auth=true",
    ] {
        let refused = Site::new(&format!("metricsProvider.httpPort=0\n{class}\n{line}")).start();
        refused.expect_refusal(2, "supports only plain HTTP");
    }
}

#[test]
fn a_super_user_by_certificate_without_a_port_for_certificates_is_a_warning() {
    let property = "-Dzookeeper.X509AuthenticationProvider.superUser=CN=ops";
    let started = Site::new("").flags(property).start();
    assert_eq!(started.code, None, "{}", started.stderr);
    let warning = "X509AuthenticationProvider.superUser: no port accepts TLS";
    assert!(started.stderr.contains(warning), "{}", started.stderr);
}

/// An operator who configures the provider and the JAAS file expects that clients log in. Without
/// the refusal, an anonymous create would succeed.
#[test]
fn a_sasl_provider_without_its_jaas_file_refuses_everybody() {
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let jaas = "-Djava.security.auth.login.config=/does-not-exist/jaas.conf";
    let site = Site::new(provider).flags(jaas);
    let refused = site.start();
    let place = "JVMFLAGS: -Djava.security.auth.login.config: ";
    refused.expect_refusal(
        2,
        &format!("{place}the JAAS file /does-not-exist/jaas.conf"),
    );
    assert!(is_empty(&site.data_dir()));
}

#[test]
fn a_jaas_file_alone_is_refused_too() {
    let jaas = "-Djava.security.auth.login.config=/does-not-exist/jaas.conf";
    let refused = Site::new("").flags(jaas).start();
    let place = "JVMFLAGS: -Djava.security.auth.login.config: the JAAS file";
    refused.expect_refusal(2, place);
}

#[test]
fn a_misspelt_data_dir_gets_a_suggestion() {
    let site = Site::with_file("datadir=DIR/data\nclientPort=0\n");
    let refused = site.start();
    let place = format!("{}:1: datadir: ", site.zoo_cfg().display());
    refused.expect_refusal(2, &format!("{place}unknown setting; did you mean dataDir?"));
    refused.expect_refusal(2, "dataDir is not set");
}

#[test]
fn a_file_in_the_place_of_a_directory_ends_with_code_3() {
    let member = "initLimit=5\nsyncLimit=2\nstandaloneEnabled=false\nserver.1=127.0.0.1:1:2\n";
    for (lines, key) in [
        ("dataDir=DIR/zoo.cfg\nclientPort=0\n", "dataDir"),
        ("dataDir=DIR/zoo.cfg/below\nclientPort=0\n", "dataDir"),
        (
            &*format!("dataDir=DIR/zoo.cfg\nclientPort=0\n{member}"),
            "dataDir",
        ),
        (
            "dataDir=DIR/data\ndataLogDir=DIR/zoo.cfg\nclientPort=0\n",
            "zoo.cfg",
        ),
    ] {
        let refused = Site::with_file(lines).start();
        refused.expect_refusal(3, key);
        assert!(!refused.stderr.contains("myid"), "{}", refused.stderr);
    }
}

#[test]
fn a_log_in_json_is_one_object_a_line() {
    let site = Site::new("4lw.commands.whitelist=*");
    let outcome = site.start_with(&["--log-format", "json", "-Dzookeeper.\u{1b}\"odd=1"]);
    assert_eq!(outcome.code, None, "{}", outcome.stderr);
    let mut levels = std::collections::BTreeSet::new();
    for line in outcome.stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(line["timestamp"].is_string() && line["fields"]["message"].is_string());
        levels.insert(line["level"].as_str().unwrap().to_owned());
    }
    assert!(levels.contains("INFO"), "{levels:?}");
}

#[test]
fn the_levels_of_the_log_are_read_from_a_file() {
    let site = Site::new("");
    let file = site.dir.path().join("levels");
    let options = ["--log-levels", file.to_str().unwrap()];
    for (text, refusal) in [
        (None, "No such file"),
        (Some("\n"), "does not contain log levels"),
        (Some("server=loud"), "levels: error parsing level"),
        (Some(&*"x".repeat(5000)), "more than 4096 bytes"),
    ] {
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        site.start_with(&options).expect_log_refusal(refusal);
    }
    fs::write(&file, "off\n").unwrap();
    let outcome = site.start_with(&options);
    assert_eq!((outcome.code, &*outcome.stderr), (None, ""));
}
