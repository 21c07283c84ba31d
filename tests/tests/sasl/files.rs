//! JAAS files of a test, and servers that read them.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tests::{Flavour, Server, ServerBuilder, or_skip, secrets};

pub(crate) const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// Users that every server of these tests accepts.
pub(crate) const USERS: &[(&str, &str)] = &[
    ("super", secrets::SASL_SUPER),
    ("bob", secrets::SASL_BOB),
    ("q\"uo,te=\\", secrets::SASL_QUOTED),
    ("m\u{fc}ller", secrets::SASL_LATIN),
    ("\u{4e2d}", secrets::SASL_WIDE),
];

/// A directory with JAAS files.
pub(crate) struct Files {
    dir: TempDir,
}

impl Files {
    pub(crate) fn new() -> Files {
        Files {
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("a JAAS file");
        path
    }

    /// Writes the section of a server with these users.
    pub(crate) fn server(&self, users: &[(&str, &str)]) -> PathBuf {
        let users: Vec<String> = users
            .iter()
            .map(|(user, password)| {
                format!("  \"user_{}\"=\"{}\"\n", quoted(user), quoted(password))
            })
            .collect();
        let text = format!("Server {{\n  {MODULE} required\n{};\n}};\n", users.concat());
        self.write("server.conf", &text)
    }

    /// Writes the section of a Java client.
    pub(crate) fn client(&self, user: &str, password: &str) -> PathBuf {
        let (user, password) = (quoted(user), quoted(password));
        let text = format!(
            "Client {{ {MODULE} required username=\"{user}\" password=\"{password}\"; }};\n"
        );
        self.write("client.conf", &text)
    }
}

const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns a server with a JAAS file and the SASL provider.
pub(crate) fn builder(flavour: Flavour, files: &Files) -> ServerBuilder {
    let jaas = files.server(USERS);
    ServerBuilder::new(flavour)
        .setting("authProvider.sasl", PROVIDER)
        .property(
            "java.security.auth.login.config",
            &jaas.display().to_string(),
        )
        .property("file.encoding", "UTF-8")
}

/// Starts such a server.
pub(crate) fn server(flavour: Flavour, files: &Files) -> Option<Server> {
    or_skip("SASL", builder(flavour, files).start())
}
