//! State of a shell between commands: session, history and exit code.
//!
//! Source: ZooKeeperMain.

pub(crate) mod person;
pub(crate) mod quit;
pub(crate) mod start;

use std::collections::BTreeMap;
use std::io::{self, Write};

use client::Client;
use serde_json::Value;

use self::start::{CliArguments, Format};
use crate::commands;
use crate::connection::{Connection, block};
use crate::exit;
use crate::failure::{Failure, keeper_error};
use crate::output::json;
use crate::output::yaml::yaml;
use crate::parse::path::Chroot;
use crate::parse::words;

/// Number of earlier commands that `history` shows.
const HISTORY_SHOWN: usize = 10;

/// Returns whether the reader of an output has ended, which is not an error.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// State of the session.
#[derive(Debug)]
enum SessionState {
    /// No command has needed a session yet.
    NotYet,
    Open(Box<Connection>),
    /// The command `close` has closed the session.
    Closed,
    /// A server refused credentials. All further commands fail with this reason.
    AuthFailed,
}

/// Shell, or a single command.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) start: CliArguments,
    /// `host:port[,...][/chroot]` of the current session.
    server: String,
    link: SessionState,
    /// Credentials for the next connection.
    auths: Vec<(String, String)>,
    pub(crate) prints_watches: bool,
    pub(crate) is_over: bool,
    /// Whether the session owns ephemerals that this shell has created.
    pub(crate) has_ephemerals: bool,
    history: BTreeMap<usize, String>,
    commands: usize,
    exit_code: u8,
    /// Whether the shell is interactive. In this case, an invalid number does not end the shell.
    pub(crate) talks_to_a_person: bool,
    /// Current path for relative paths, after `cd`.
    pub(crate) dir: Option<String>,
    /// Whether this is `zoarium shell`, whose prompt and errors differ from zkCli.sh.
    pub(crate) is_friendly: bool,
    /// First error of a write to standard output.
    output_error: Option<io::Error>,
}

impl Shell {
    pub(crate) fn new(start: CliArguments) -> Self {
        Self {
            server: start.server.clone(),
            // Structured output is for programs.
            prints_watches: !start.format.is_structured(),
            start,
            link: SessionState::NotYet,
            auths: Vec::new(),
            is_over: false,
            has_ephemerals: false,
            history: BTreeMap::new(),
            commands: 0,
            exit_code: 0,
            talks_to_a_person: false,
            dir: None,
            is_friendly: false,
            output_error: None,
        }
    }

    /// Returns `host:port[,...][/chroot]` of the current session.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.code_with_output(self.exit_code)
    }

    /// Returns the exit code after a command that ended with `code`. A lost output is a failure.
    pub(crate) fn code_with_output(&self, code: u8) -> u8 {
        match &self.output_error {
            Some(error) if code == exit::DONE && !is_closed(error) => exit::FAILED,
            _ => code,
        }
    }

    /// Returns whether a write to standard output has failed, for example because its reader closed
    /// it.
    pub(crate) fn has_failed_output(&self) -> bool {
        self.output_error.is_some()
    }

    fn note_output(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && self.output_error.is_none()
        {
            if !is_closed(&error) {
                terminal::complain!("cannot write to standard output: {error}");
            }
            self.output_error = Some(error);
        }
    }

    /// Prints to standard output, after all earlier events.
    pub(crate) fn print(&mut self, text: &str) {
        self.print_events();
        self.write(text);
    }

    /// Prints an object in the output format.
    pub(crate) fn show(&mut self, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        let shown = match self.start.format {
            Format::Json => json::line(&value()),
            Format::Yaml => yaml(&value()).trim_end().to_owned(),
            Format::Text => text(),
        };
        self.print(&shown);
    }

    /// Reports a result, as an object on standard output or as text on standard error.
    pub(crate) fn report(&mut self, value: Value, text: &str) {
        if self.start.format.is_structured() {
            self.show(|| value, String::new);
        } else {
            self.print_error(text);
        }
    }

    /// Writes bytes unchanged to standard output. On a terminal, adds a missing line break at the
    /// end.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) {
        let mut out = terminal::stdout();
        let ends_line = out.is_terminal() && !bytes.ends_with(b"\n");
        let end: &[u8] = if ends_line { b"\n" } else { b"" };
        let written = out.write_all(bytes).and_then(|()| out.write_all(end));
        self.note_output(written.and_then(|()| out.flush()));
    }

    /// Prints to standard error.
    pub(crate) fn print_error(&mut self, text: &str) {
        self.print_events();
        // A failure is ignored, because it means that the reader has closed standard error.
        terminal::complain!("{text}");
    }

    /// Prints the events of watches and of the connection. Returns whether any were printed.
    pub(crate) fn print_events(&mut self) -> bool {
        let SessionState::Open(connection) = &mut self.link else {
            return false;
        };
        let news = connection.take_events();
        news.iter().for_each(|text| self.print_event(text));
        self.prints_watches && !news.is_empty()
    }

    pub(crate) fn print_event(&mut self, text: &str) {
        if self.prints_watches {
            self.write(text);
        }
    }

    /// Prints the prompt again below the printed text.
    pub(crate) fn print_prompt(&mut self) {
        let prompt = self.prompt();
        let mut out = terminal::stdout();
        self.note_output(write!(out, "{prompt}").and_then(|()| out.flush()));
    }

    /// Clears the terminal, and moves the cursor to the top left.
    pub(crate) fn clear_screen(&mut self) {
        self.note_output(terminal::stdout().clear());
    }

    fn write(&mut self, text: &str) {
        let mut out = terminal::stdout();
        self.note_output(writeln!(out, "{text}").and_then(|()| out.flush()));
    }

    /// Returns the session's client. Connects if there is no connection yet. `path` is the path of
    /// the command, for error messages.
    ///
    /// # Errors
    /// If the connection fails, a command has closed the session, or credentials were refused.
    pub(crate) async fn client(&mut self, path: &str) -> Result<Client, Failure> {
        if matches!(self.link, SessionState::NotYet) {
            self.connect(path).await?;
        }
        match &self.link {
            SessionState::Open(connection) => Ok(connection.client.clone()),
            SessionState::AuthFailed => Err(Failure {
                plain: Some("the server refused the credentials".to_owned()),
                ..Failure::new(keeper_error("AuthFailed", path)).with_exit(exit::DENIED)
            }),
            SessionState::NotYet | SessionState::Closed => Err(Failure::not_connected()),
        }
    }

    /// Returns the client for a request about `path`, and the path as the server knows it.
    ///
    /// # Errors
    /// If [`Shell::client`] fails.
    pub(crate) async fn client_for(&mut self, path: &str) -> Result<(Client, String), Failure> {
        let client = self.client(path).await?;
        Ok((client, self.with_chroot(path)))
    }

    /// Returns the connection, if there is one.
    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.link {
            SessionState::Open(connection) => Some(connection),
            _ => None,
        }
    }

    /// Returns a path as the server knows it.
    pub(crate) fn with_chroot(&self, path: &str) -> String {
        match &self.link {
            SessionState::Open(connection) => connection.chroot.with_chroot(path),
            _ => path.to_owned(),
        }
    }

    /// Returns a path of the server as the session knows it.
    pub(crate) fn without_chroot<'a>(&self, path: &'a str) -> &'a str {
        match &self.link {
            SessionState::Open(connection) => connection.chroot.without_chroot(path),
            _ => path,
        }
    }

    async fn connect(&mut self, path: &str) -> Result<(), Failure> {
        let (options, chroot) = self.start.options(&self.server)?;
        let client = Client::connect(options)
            .await
            .map_err(|error| Failure::of(&error, path))?;
        self.link = SessionState::Open(Box::new(Connection::new(client, chroot)));
        self.print_event(&block("SyncConnected", "None", None, -1));
        for (scheme, auth) in std::mem::take(&mut self.auths) {
            self.add_auth(&scheme, &auth).await;
        }
        Ok(())
    }

    /// Connects immediately, for an interactive shell or for `-waitforconnection`.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) async fn connect_now(&mut self) -> Result<(), Failure> {
        self.client("").await.map(drop)
    }

    /// Ends the session and starts another session with `server`, or with the current server.
    ///
    /// # Errors
    /// If the connection fails, or the server is invalid.
    pub(crate) async fn reconnect(&mut self, server: Option<&str>) -> Result<(), Failure> {
        self.close().await;
        if let Some(server) = server {
            server.clone_into(&mut self.server);
        }
        self.link = SessionState::NotYet;
        self.connect_now().await
    }

    /// Ends the session.
    pub(crate) async fn close(&mut self) {
        self.print_events();
        if let SessionState::Open(connection) =
            std::mem::replace(&mut self.link, SessionState::Closed)
        {
            // Without an answer, the session ends at its timeout.
            let _ = connection.client.close().await;
            self.print_event(&block("Closed", "None", None, -1));
        }
        self.has_ephemerals = false;
    }

    /// Ends the session silently, unless it owns ephemerals. As with zkCli.sh, ephemerals then
    /// exist until the session timeout.
    pub(crate) async fn leave(&mut self) {
        if let SessionState::Open(connection) = &self.link
            && !self.has_ephemerals
        {
            let _ = connection.client.close().await;
        }
    }

    /// Adds an identity to the session, or to the next session.
    pub(crate) async fn add_auth(&mut self, scheme: &str, auth: &str) {
        let SessionState::Open(connection) = &self.link else {
            return self.auths.push((scheme.to_owned(), auth.to_owned()));
        };
        let added = connection.client.add_auth(scheme, auth.to_owned()).await;
        if added.is_err() {
            self.print_events();
            self.link = SessionState::AuthFailed;
            self.print_event(&block("AuthFailed", "None", None, -1));
        }
    }

    /// Returns the prompt.
    pub(crate) fn prompt(&self) -> String {
        let state = match &self.link {
            SessionState::Open(connection) => connection.state(),
            SessionState::AuthFailed => "AUTH_FAILED",
            SessionState::NotYet => "CONNECTING",
            SessionState::Closed => "CLOSED",
        };
        match (self.is_friendly, &self.dir) {
            (false, _) => format!("[zk: {}({state}) {}] ", self.server, self.commands),
            (true, dir) => {
                let state = match state {
                    "CONNECTED" => String::new(),
                    other => format!(" ({})", other.to_lowercase()),
                };
                format!("{}{state} {}> ", self.server, dir.as_deref().unwrap_or("/"))
            }
        }
    }

    /// Executes a line from a terminal or a script.
    pub(crate) async fn line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        self.history.insert(self.commands, line.to_owned());
        let words = words::split(line);
        self.run(&words).await;
        self.commands += 1;
    }

    /// Executes a command, and prints its result.
    pub(crate) async fn run(&mut self, words: &[String]) {
        let Some(name) = words.first() else {
            return;
        };
        let before = self.exit_code;
        let done = commands::execute(self, name, &words[1..]).await;
        self.print_events();
        // The exit code of a shell is the code of the last command before the command that ended
        // it.
        self.exit_code = if self.is_over { before } else { 0 };
        if let Err(failure) = done {
            self.exit_code = failure.code;
            match failure.code {
                0 => self.print(&failure.text),
                _ if self.is_friendly => self.print_error(failure.plain()),
                _ => self.print_error(&failure.text),
            }
            self.is_over |= failure.ends_script && !self.talks_to_a_person;
        }
    }

    /// Returns the last commands with their numbers. Source: ZooKeeperMain, case `history`.
    pub(crate) fn history(&self) -> Vec<String> {
        let first = self.commands.saturating_sub(HISTORY_SHOWN);
        let show = |number: usize| {
            let line = self.history.get(&number).map_or("null", String::as_str);
            format!("{number} - {line}")
        };
        (first..=self.commands).map(show).collect()
    }

    /// Returns the words of an earlier command, which replaces the `redo` in the history. Returns
    /// `None` if there is no earlier command with this number.
    pub(crate) fn redo(&mut self, number: usize) -> Option<Vec<String>> {
        let line = self
            .history
            .get(&number)
            .filter(|_| number < self.commands)?
            .clone();
        let words = words::split(&line);
        self.history.insert(self.commands, line);
        Some(words)
    }

    /// Returns the session, for completion.
    pub(crate) fn session(&self) -> Option<(Client, Chroot)> {
        match &self.link {
            SessionState::Open(connection) => {
                Some((connection.client.clone(), connection.chroot.clone()))
            }
            _ => None,
        }
    }
}
