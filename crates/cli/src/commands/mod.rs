//! Table of all commands, and a module for each group of commands.
//!
//! Source: org.apache.zookeeper.cli, ZooKeeperMain.

mod acl;
pub(crate) mod ensemble;
mod help;
mod own;
mod quota;
pub(crate) mod read;
pub(crate) mod subtree;
pub(crate) mod top;
pub(crate) mod watches;
pub(crate) mod write;

use crate::exit;
use crate::failure::Failure;
use crate::parse::options::{Arguments, CommandOption, flag, value};
use crate::shell::Shell;

/// Description of a command.
pub(crate) struct Command {
    kind: CommandKind,
    pub(crate) name: &'static str,
    /// Usage line without the name.
    usage: &'static str,
    options: &'static [CommandOption],
    /// Whether zkCli.sh lacks the command.
    is_own: bool,
    description: &'static str,
    example: &'static str,
}

macro_rules! commands {
    ($( $kind:ident, $name:literal, $usage:literal, [$($option:expr),*], $is_own:literal,
        $description:literal, $example:literal; )+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum CommandKind { $( $kind, )+ }

        /// All commands, in the order of the usage.
        pub(crate) const COMMANDS: &[Command] = &[ $( Command {
            kind: CommandKind::$kind,
            name: $name,
            usage: $usage,
            options: &[$($option),*],
            is_own: $is_own,
            description: $description,
            example: $example,
        }, )+ ];
    };
}

commands! {
    AddWatch, "addWatch", "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE", [value("m")], false,
        "Sets a persistent watch.", "addWatch -m PERSISTENT /app";
    AddAuth, "addauth", "scheme auth", [], false,
        "Adds an identity to the session.", "addauth digest user:password";
    Close, "close", "", [], false,
        "Ends the session.", "close";
    Config, "config", "[-c] [-w] [-s]", [flag("c"), flag("w"), flag("s")], false,
        "Prints the member list.", "config -c";
    Connect, "connect", "host:port", [], false,
        "Connects to another server.", "connect zk2:2181";
    Create, "create", "[-s] [-e] [-c] [-t ttl] path [data] [acl]", [flag("s"), flag("e"), flag("c"), value("t"), flag("i")], false,
        "Creates a znode.", "create -s /app/task- data";
    Delete, "delete", "[-v version] path", [value("v")], false,
        "Deletes a znode without children.", "delete -v 3 /app";
    DeleteAll, "deleteall", "path [-b batch size]", [value("b")], false,
        "Deletes a subtree.", "deleteall /app";
    DelQuota, "delquota", "[-n|-b|-N|-B] path", [flag("n"), flag("b"), flag("N"), flag("B")], false,
        "Deletes a quota.", "delquota -n /app";
    Get, "get", "[-s] [-w] [-b] [-x] path", [flag("s"), flag("w"), flag("b"), flag("x")], false,
        "Prints the data of a znode.", "get -s /app";
    GetAcl, "getAcl", "[-s] path", [flag("s")], false,
        "Prints the ACL of a znode.", "getAcl -s /app";
    GetAllChildrenNumber, "getAllChildrenNumber", "path", [], false,
        "Prints the number of znodes below a path.", "getAllChildrenNumber /app";
    GetEphemerals, "getEphemerals", "path", [], false,
        "Prints the ephemeral znodes of this session.", "getEphemerals /app";
    History, "history", "", [], false,
        "Prints the last commands.", "history";
    ListQuota, "listquota", "path", [], false,
        "Prints the quota of a path.", "listquota /app";
    Ls, "ls", "[-s] [-w] [-R] path", [flag("s"), flag("w"), flag("R")], false,
        "Prints the names of the children.", "ls -R /app";
    PrintWatches, "printwatches", "on|off", [], false,
        "Switches the output of watch events on or off.", "printwatches off";
    Quit, "quit", "", [], false,
        "Ends the shell.", "quit";
    Reconfig, "reconfig", "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]", [flag("s"), value("v"), value("file"), value("members"), value("add"), value("remove")], false,
        "Changes the member list.", "reconfig -add 4=zk4:2888:3888;2181";
    Redo, "redo", "cmdno", [], false,
        "Repeats a command by its number.", "redo 3";
    RemoveWatches, "removewatches", "path [-c|-d|-a] [-l]", [flag("c"), flag("d"), flag("a"), flag("p"), flag("r"), flag("l")], false,
        "Removes watches of this session.", "removewatches -a /app";
    Set, "set", "path data [-s] [-v version] [-b]", [flag("s"), value("v"), flag("b"), flag("i")], false,
        "Replaces the data of a znode.", "set -v 3 /app data";
    SetAcl, "setAcl", "[-s] [-v version] [-R] path acl", [flag("s"), value("v"), flag("R")], false,
        "Replaces the ACL of a znode.", "setAcl -R /app world:anyone:r";
    SetQuota, "setquota", "-n|-b|-N|-B val path", [value("n"), value("b"), value("N"), value("B")], false,
        "Sets a quota.", "setquota -N 1000 /app";
    Stat, "stat", "[-w] path", [flag("w")], false,
        "Prints the Stat of a znode.", "stat /app";
    Sync, "sync", "path", [], false,
        "Waits until this server has all committed changes.", "sync /app";
    Version, "version", "", [], false,
        "Prints the version of the shell.", "version";
    WhoAmI, "whoami", "", [], false,
        "Prints the identities of the session.", "whoami";
    Cd, "cd", "[path]", [], true,
        "Changes the path that relative paths begin with.", "cd /app";
    Cp, "cp", "[-r] [-f] [-auth scheme:auth] [host:port]path [host:port]path", [flag("r"), flag("f"), value("auth")], true,
        "Copies a znode, or with -r a subtree, also to another ensemble.", "cp -r /app zk2:2181/app";
    Diff, "diff", "[-a] [-e] [-auth scheme:auth] [host:port]path [host:port]path", [flag("a"), flag("e"), value("auth")], true,
        "Compares two subtrees.", "diff -a /app zk2:2181/app";
    Du, "du", "[-d depth] path", [value("d")], true,
        "Prints the number of znodes and bytes below a path.", "du -d 2 /app";
    Export, "export", "path", [], true,
        "Prints a subtree as lines of JSON.", "export /app";
    Find, "find", "[-name glob] path", [value("name")], true,
        "Prints the paths whose last component matches a pattern.", "find -name 'lock-*' /app";
    Grep, "grep", "[-l] text path", [flag("l")], true,
        "Prints the lines of data that contain a text.", "grep -l password /app";
    Help, "help", "[command]", [], true,
        "Prints all commands, or the help of a command.", "help get";
    Import, "import", "[-f] path < lines", [flag("f")], true,
        "Creates the znodes that `export` has printed.", "import /copy < lines";
    Pwd, "pwd", "", [], true,
        "Prints the path that `cd` has set.", "pwd";
    Top, "top", "[-d seconds] [-n count] [-by address|identity] [-a adminhost:port,...] [-tls] [-auth scheme:auth]", [value("d"), value("n"), value("by"), value("a"), flag("tls"), value("auth")], true,
        "Shows members and busy clients until q or Ctrl-C.", "top -d 5";
    Tree, "tree", "[-d depth] path", [value("d")], true,
        "Prints a subtree.", "tree -d 2 /app";
    Watch, "watch", "path", [], true,
        "Prints changes below a path as they happen.", "watch /app";
}

/// Returns whether a line may contain a secret: credentials of `addauth`, or of the option `-auth`.
pub(crate) fn has_secret(line: &str) -> bool {
    let mut words = line
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '\'']));
    words.any(|word| {
        word.eq_ignore_ascii_case("addauth")
            || word.starts_with("-auth")
            || word.starts_with("--auth")
    })
}

/// Returns the arguments of a command, as the usage shows them.
pub(crate) fn arguments(name: &str) -> Option<&'static str> {
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    (!command.usage.is_empty()).then_some(command.usage)
}

/// Returns whether zkCli.sh lacks the command.
pub(crate) fn is_own(name: &str) -> bool {
    COMMANDS
        .iter()
        .any(|command| command.name == name && command.is_own)
}

/// Executes a command.
///
/// # Errors
/// If the command fails. The error contains the message for standard error and the exit code.
pub(crate) async fn execute(
    shell: &mut Shell,
    name: &str,
    words: &[String],
) -> Result<(), Failure> {
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let text = if terminal::stdout().is_terminal() {
            help::unknown(name)
        } else {
            // Programs receive zkCli.sh's message.
            format!(
                "{}Command not found: Command not found {name}",
                usage(false)
            )
        };
        return Err(Failure::new(text).with_code(127));
    };
    if shell.start.format.is_structured() && command.kind.prints_text() {
        return Err(Failure::new(format!(
            "{name} prints only text, so it does not support --output json or yaml"
        )));
    }
    let mut given =
        Arguments::parse(words, command.options).map_err(|failure| match command.kind {
            // The exit code 1 of `diff` means that there are differences.
            CommandKind::Diff => failure.with_code(subtree::diff::TROUBLE),
            _ => failure,
        })?;
    if let Some(dir) = &shell.dir {
        own::resolve(&mut given, command.kind, dir);
    }
    run(shell, command, &given).await
}

async fn run(shell: &mut Shell, command: &Command, given: &Arguments) -> Result<(), Failure> {
    match command.kind {
        CommandKind::AddWatch => watches::add_watch(shell, command, given).await,
        CommandKind::AddAuth => acl::add_auth(shell, command, given).await,
        CommandKind::Close => {
            own::close(shell).await;
            Ok(())
        }
        CommandKind::Config => ensemble::config(shell, given).await,
        CommandKind::Connect => shell.reconnect(given.word(0)).await,
        CommandKind::Create => write::create(shell, command, given).await,
        CommandKind::Delete => write::delete(shell, command, given).await,
        CommandKind::DeleteAll => write::delete_all(shell, command, given).await,
        CommandKind::DelQuota => quota::delete(shell, command, given).await,
        CommandKind::Get => read::get(shell, command, given).await,
        CommandKind::GetAcl => acl::get_acl(shell, command, given).await,
        CommandKind::GetAllChildrenNumber => read::all_children_number(shell, command, given).await,
        CommandKind::GetEphemerals => read::ephemerals(shell, given).await,
        CommandKind::ListQuota => quota::list(shell, command, given).await,
        CommandKind::Ls => read::ls(shell, command, given).await,
        CommandKind::PrintWatches => own::print_watches(shell, given),
        CommandKind::Quit => {
            shell.is_over = true;
            own::close(shell).await;
            Ok(())
        }
        CommandKind::Reconfig => ensemble::reconfig(shell, command, given).await,
        CommandKind::Redo => Box::pin(own::redo(shell, given)).await,
        CommandKind::RemoveWatches => watches::remove_watches(shell, command, given).await,
        CommandKind::Set => write::set(shell, command, given).await,
        CommandKind::SetAcl => acl::set_acl(shell, command, given).await,
        CommandKind::SetQuota => quota::set(shell, command, given).await,
        CommandKind::Stat => read::stat(shell, command, given).await,
        CommandKind::Sync => read::sync(shell, command, given).await,
        CommandKind::WhoAmI => acl::who_am_i(shell).await,
        CommandKind::Cd => own::cd(shell, given).await,
        CommandKind::Pwd => own::pwd(shell),
        CommandKind::Cp => subtree::copy::cp(shell, command, given).await,
        CommandKind::Diff => subtree::diff::diff(shell, command, given).await,
        CommandKind::Du => subtree::search::du(shell, command, given).await,
        CommandKind::Export => subtree::search::export(shell, command, given).await,
        CommandKind::Find => subtree::search::find(shell, command, given).await,
        CommandKind::Grep => subtree::search::grep(shell, command, given).await,
        CommandKind::Import => subtree::import::import(shell, command, given).await,
        CommandKind::Top => top::top(shell, command, given).await,
        CommandKind::Tree => subtree::search::tree(shell, command, given).await,
        CommandKind::Watch => watches::follow(shell, command, given).await,
        CommandKind::Help | CommandKind::History | CommandKind::Version => {
            let text = match command.kind {
                CommandKind::Help => match given.word(0) {
                    Some(name) => help::of(name)?,
                    None => usage(true),
                },
                CommandKind::History => shell.history().join("\n"),
                _ => format!("ZooKeeper CLI version: {}", crate::version()),
            };
            shell.print(text.trim_end());
            Ok(())
        }
    }
}

/// Returns the help for a command, or for the shell.
///
/// # Errors
/// If the command does not exist.
pub(crate) fn help(name: Option<&str>) -> Result<String, Failure> {
    match name {
        Some(name) => help::of(name),
        None => Ok(format!("{START_OPTIONS}\n{}", usage(true))),
    }
}

/// Help for the options that precede the command.
const START_OPTIONS: &str = "\
Usage: zoarium cli [OPTION]... [COMMAND [ARGUMENT]...]

Runs a command of zkCli.sh. Without a command, it starts a shell.

Options:
  -server HOST:PORT[,...][/CHROOT]   servers (also --server and -s) [default: localhost:2181]
  -timeout MS                        session timeout [default: 30000]
  -r                                 accepts a read-only server
  -waitforconnection                 connects before it runs the command
  -client-configuration FILE         properties of the client, such as TLS stores
  --output text|json|yaml            form of the output
  --help                             prints this text, or the help of the named command

Commands:";

/// Returns the usage lines of all commands, optionally including Zoarium's own commands. Source:
/// ZooKeeperMain.usage.
fn usage(with_own: bool) -> String {
    let mut text =
        "ZooKeeper -server host:port -client-configuration properties-file cmd args\n".to_owned();
    for command in COMMANDS
        .iter()
        .filter(|command| with_own || !command.is_own)
    {
        text.push_str(&format!("\t{}\n", command.line()));
    }
    text
}

impl CommandKind {
    /// Returns whether the command is refused with JSON or YAML output.
    fn prints_text(self) -> bool {
        matches!(
            self,
            Self::AddWatch
                | Self::Help
                | Self::History
                | Self::ListQuota
                | Self::Version
                | Self::Watch
        )
    }
}

impl Command {
    fn line(&self) -> String {
        format!("{} {}", self.name, self.usage)
    }

    /// Returns the error for incorrect use of the command. Source: MalformedCommandException.
    fn usage_error(&self) -> Failure {
        Failure::new(self.line()).with_exit(exit::USAGE)
    }

    /// Returns the path argument, which is mandatory.
    fn path<'a>(&self, given: &'a Arguments) -> Result<&'a str, Failure> {
        let path = given.word(0).ok_or_else(|| self.usage_error())?;
        crate::parse::path::validate(path)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_credentials_are_kept_out_of_the_history() {
        for line in [
            "addauth digest user:secret",
            "  AddAuth digest user:secret",
            "\"addauth\" digest user:secret",
            "cp -r -auth digest:user:secret /a /b",
            "top -auth=digest:user:secret",
        ] {
            assert!(has_secret(line), "{line}");
        }
        for line in ["ls /", "create /authors data", "get /addauthor"] {
            assert!(!has_secret(line), "{line}");
        }
    }

    #[test]
    fn each_name_is_there_once_and_in_order() {
        for own in [false, true] {
            let names = COMMANDS.iter().filter(|command| command.is_own == own);
            let names: Vec<&str> = names.map(|command| command.name).collect();
            assert!(names.is_sorted(), "{names:?}");
        }
    }

    #[test]
    fn the_usage_text_equals_javas() {
        let usage = usage(false);
        assert!(usage.contains("\n\tclose \n"));
        assert!(usage.ends_with("\n\twhoami \n"));
        assert_eq!(usage.lines().count(), 29);
    }
}
