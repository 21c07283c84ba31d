//! Command lines of the tested servers: Zoarium, and Apache ZooKeeper in its versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apache::{apache_3_8_class_path, apache_class_path, java_tool};
use crate::command::find_tool;
use crate::layout::source_dir;
use crate::skip::Missing;
use crate::zoarium::{zoarium_binary, zoarium_gssapi_binary};

/// Implementation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// The `zoarium` executable of this workspace.
    Zoarium,
    /// The same executable, built with Kerberos.
    ZoariumGssapi,
    /// Apache ZooKeeper 3.9.5 from Maven Central.
    Apache,
    /// Apache ZooKeeper 3.8 from Maven Central, for ensembles of mixed versions.
    Apache38,
}

impl Flavour {
    /// Returns the server for tests of foreign clients: Zoarium, or Apache ZooKeeper if
    /// `ZOARIUM_TEST_SERVER=apache`, which checks a scenario itself.
    pub fn under_test() -> Flavour {
        match std::env::var("ZOARIUM_TEST_SERVER").as_deref() {
            Ok("apache") => Flavour::Apache,
            Ok("zoarium") | Err(_) => Flavour::Zoarium,
            Ok(other) => panic!("ZOARIUM_TEST_SERVER is zoarium or apache, not {other}"),
        }
    }
}

/// Command line up to the configuration file.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Launcher {
    /// Returns the launcher of a server with these `-D` properties. `shell` contains commands that
    /// affect its process.
    pub(crate) fn new(
        flavour: Flavour,
        properties: &[(String, String)],
        shell: Option<&str>,
    ) -> Result<Launcher, Missing> {
        let launcher = Launcher::of_flavour(flavour, properties)?;
        let Some(commands) = shell else {
            return Ok(launcher);
        };
        let script = format!("{commands}\nexec \"$0\" \"$@\"");
        Ok(launcher.behind(find_tool("sh")?, ["-c".to_owned(), script]))
    }

    /// Returns the launcher of another program.
    #[cfg(test)]
    pub(crate) fn of_program(
        program: PathBuf,
        arguments: impl IntoIterator<Item = String>,
    ) -> Launcher {
        Launcher {
            program,
            arguments: arguments.into_iter().collect(),
        }
    }

    /// Returns a launcher that starts this one through another program with these leading
    /// arguments.
    pub(crate) fn behind(
        self,
        program: PathBuf,
        arguments: impl IntoIterator<Item = String>,
    ) -> Launcher {
        let inner = self.program.display().to_string();
        let arguments = arguments.into_iter().chain([inner]).chain(self.arguments);
        Launcher {
            program,
            arguments: arguments.collect(),
        }
    }

    /// Returns the command that serves with this zoo.cfg.
    pub(crate) fn command(&self, config_file: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(config_file);
        command
    }

    fn of_flavour(flavour: Flavour, properties: &[(String, String)]) -> Result<Launcher, Missing> {
        let properties = properties
            .iter()
            .map(|(key, value)| format!("-D{key}={value}"));
        let class_path = match flavour {
            Flavour::Zoarium | Flavour::ZoariumGssapi => {
                let arguments = std::iter::once("server".to_owned()).chain(properties);
                return Ok(Launcher {
                    program: match flavour {
                        Flavour::ZoariumGssapi => zoarium_gssapi_binary()?,
                        _ => zoarium_binary(),
                    },
                    arguments: arguments.collect(),
                });
            }
            Flavour::Apache => apache_class_path()?,
            Flavour::Apache38 => apache_3_8_class_path()?,
        };
        let logging = source_dir("java").join("logback.xml");
        // A small JVM that starts quickly, because these tests do not measure anything.
        let mut arguments: Vec<String> = [
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("-Dlogback.configurationFile={}", logging.display()));
        arguments.extend(properties);
        arguments.extend(["-cp".to_owned(), class_path]);
        arguments.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned());
        Ok(Launcher {
            program: java_tool("java")?,
            arguments,
        })
    }
}
