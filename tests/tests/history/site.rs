//! Servers that keep a history, and the tools that query them.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use client::{Client, Options};
use serde_json::Value;
use tests::{Flavour, HttpAnswer, HttpRequest, Port, Server, ServerBuilder, wait_for};
use tests::{or_skip, zoarium_binary};

/// The digest of `super:secret`.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Credentials of the super user.
pub(crate) const SUPER: &str = "digest super:secret";

/// Time limit for each step on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A server that keeps a history.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) admin: Port,
}

impl Site {
    /// Starts the server with these additional settings.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Option<Self> {
        Self::start_after(settings, None)
    }

    /// Does the same after a shell has run these commands in the server's process.
    pub(crate) fn start_after(settings: &[(&str, &str)], commands: Option<&str>) -> Option<Self> {
        if Flavour::under_test() != Flavour::Zoarium {
            return None;
        }
        let admin = Port::take();
        let builder = ServerBuilder::new(Flavour::Zoarium)
            .setting("admin.enableServer", "true")
            .setting("admin.serverAddress", "127.0.0.1")
            .setting("admin.serverPort", &admin.number().to_string())
            .setting("history.enabled", "true")
            .setting("history.minFreeMegabytes", "0")
            .property(
                "zookeeper.DigestAuthenticationProvider.superDigest",
                SUPER_DIGEST,
            );
        let builder = settings
            .iter()
            .fold(builder, |builder, (key, value)| builder.setting(key, value));
        let builder = match commands {
            Some(commands) => builder.after(commands),
            None => builder,
        };
        let server = or_skip("a server with a history", builder.start())?;
        Some(Self { server, admin })
    }

    pub(crate) async fn client(&self) -> Client {
        let options = Options::new(&self.server.address());
        Client::connect(options).await.expect("a session")
    }

    pub(crate) async fn super_client(&self) -> Client {
        let client = self.client().await;
        let added = client.add_auth("digest", "super:secret").await;
        added.expect("a super user");
        client
    }

    /// Returns the `host:port` of the admin server.
    pub(crate) fn admin_address(&self) -> String {
        format!("127.0.0.1:{}", self.admin.number())
    }

    /// Returns the answer to a GET of a command, with these credentials if there are any.
    pub(crate) fn get(&self, target: &str, who: Option<&str>) -> HttpAnswer {
        let header = who.map(|who| ("Authorization", who));
        let request = HttpRequest {
            method: "GET",
            target: &format!("/commands/{target}"),
            headers: header.as_slice(),
            body: None,
        };
        request.send(self.admin.number()).expect("an answer")
    }

    /// Returns the JSON object of an answer that must succeed.
    pub(crate) fn json(&self, target: &str, who: Option<&str>) -> Value {
        let answer = self.get(target, who);
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Returns an answer that must succeed, with the results of all pages. On a slow machine, any
    /// page can end early, because the time for a page is limited.
    pub(crate) fn all_pages(&self, target: &str, who: Option<&str>) -> Value {
        let mut found = self.json(target, who);
        while let Some(next) = found["next"].as_str() {
            let page = self.json(&format!("{target}&after={next}"), who);
            let results = page["results"].as_array().expect("results");
            let all = found["results"].as_array_mut().expect("results");
            all.extend_from_slice(results);
            if let (Some(before), Some(more)) = (found["hidden"].as_u64(), page["hidden"].as_u64())
            {
                found["hidden"] = (before + more).into();
            }
            found["next"] = page["next"].clone();
        }
        found
    }

    /// Waits until everything up to this zxid is recorded.
    pub(crate) fn wait_until_recorded(&self, zxid: i64) {
        wait_for("record of the last change", LIMIT, || {
            let answer = self.get("history/changes?path=/&limit=1", Some(SUPER));
            let found: Value = serde_json::from_slice(&answer.body).ok()?;
            let head = found["extent"]["head"].as_str()?.strip_prefix("0x")?;
            (i64::from_str_radix(head, 16).ok()? >= zxid).then_some(())
        });
    }

    /// Runs `zoarium` with these arguments and `--server`.
    pub(crate) fn tool(&self, words: &[&str]) -> Output {
        let address = self.admin_address();
        zoarium(&[words, &["--server", &address]].concat())
    }
}

/// Runs `zoarium` to its end.
pub(crate) fn zoarium(words: &[&str]) -> Output {
    let mut command = Command::new(zoarium_binary());
    command.args(words).stdin(Stdio::null());
    command.output().expect("zoarium runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Parses lines of JSON.
pub(crate) fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    let text = stdout(output);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}
