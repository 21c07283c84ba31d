//! `help` of one command.

use super::{COMMANDS, Command};
use crate::failure::Failure;
use crate::suggest::nearest;

/// Description and example of each command that has options or is not in zkCli.sh.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "addWatch",
        "Sets a persistent watch.",
        "addWatch -m PERSISTENT /app",
    ),
    (
        "addauth",
        "Adds an identity to the session.",
        "addauth digest user:password",
    ),
    (
        "cd",
        "Changes the path that relative paths begin with.",
        "cd /app",
    ),
    ("close", "Ends the session.", "close"),
    ("config", "Prints the member list.", "config -c"),
    ("connect", "Connects to another server.", "connect zk2:2181"),
    (
        "cp",
        "Copies a znode, or with -r a subtree, also to another ensemble.",
        "cp -r /app zk2:2181/app",
    ),
    ("create", "Creates a znode.", "create -s /app/task- data"),
    (
        "delete",
        "Deletes a znode without children.",
        "delete -v 3 /app",
    ),
    ("deleteall", "Deletes a subtree.", "deleteall /app"),
    ("delquota", "Deletes a quota.", "delquota -n /app"),
    (
        "diff",
        "Compares two subtrees.",
        "diff -a /app zk2:2181/app",
    ),
    (
        "du",
        "Prints znodes and bytes below a path.",
        "du -d 2 /app",
    ),
    (
        "export",
        "Prints a subtree as lines of JSON.",
        "export /app",
    ),
    (
        "find",
        "Prints the paths whose last name matches a pattern.",
        "find -name 'lock-*' /app",
    ),
    ("get", "Prints the data of a znode.", "get -s /app"),
    ("getAcl", "Prints the ACL of a znode.", "getAcl -s /app"),
    (
        "getAllChildrenNumber",
        "Prints the number of znodes below a path.",
        "getAllChildrenNumber /app",
    ),
    (
        "getEphemerals",
        "Prints the ephemeral znodes of this session.",
        "getEphemerals /app",
    ),
    (
        "grep",
        "Prints the lines of data that contain a text.",
        "grep -l password /app",
    ),
    ("help", "Prints all commands, or one of them.", "help get"),
    ("history", "Prints the last commands.", "history"),
    (
        "import",
        "Creates the znodes that `export` has printed.",
        "import /copy < lines",
    ),
    ("listquota", "Prints the quota of a path.", "listquota /app"),
    ("ls", "Prints the names of the children.", "ls -R /app"),
    (
        "printwatches",
        "Switches the output of watch events.",
        "printwatches off",
    ),
    ("pwd", "Prints the path of `cd`.", "pwd"),
    ("quit", "Ends the shell.", "quit"),
    (
        "reconfig",
        "Changes the member list.",
        "reconfig -add 4=zk4:2888:3888;2181",
    ),
    ("redo", "Repeats a command by its number.", "redo 3"),
    (
        "removewatches",
        "Removes watches of this session.",
        "removewatches -a /app",
    ),
    ("set", "Replaces the data of a znode.", "set -v 3 /app data"),
    (
        "setAcl",
        "Replaces the ACL of a znode.",
        "setAcl -R /app world:anyone:r",
    ),
    ("setquota", "Sets a quota.", "setquota -N 1000 /app"),
    ("stat", "Prints the Stat of a znode.", "stat /app"),
    (
        "sync",
        "Waits until this server has all committed changes.",
        "sync /app",
    ),
    (
        "top",
        "Shows members and busy clients until q or Ctrl-C.",
        "top -d 5",
    ),
    ("tree", "Prints a subtree.", "tree -d 2 /app"),
    ("version", "Prints the version of the shell.", "version"),
    (
        "watch",
        "Prints changes below a path as they happen.",
        "watch /app",
    ),
    ("whoami", "Prints the identities of the session.", "whoami"),
];

/// Returns the help of one command.
///
/// # Errors
/// If the command does not exist.
pub(super) fn of(name: &str) -> Result<String, Failure> {
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(Failure::new(unknown(name)));
    };
    let (text, example) = text_of(command);
    Ok(format!(
        "{}\n  {text}\n  Example: {example}",
        command.line()
    ))
}

fn text_of(command: &Command) -> (&'static str, &'static str) {
    let found = TEXTS.iter().find(|(name, ..)| *name == command.name);
    found.map_or(("", ""), |(_, text, example)| (text, example))
}

/// Returns a sentence about an unknown command, with the one that the user may have meant.
pub(super) fn unknown(name: &str) -> String {
    let names = COMMANDS.iter().map(|command| command.name);
    match nearest(name, names) {
        Some(nearest) => format!("{name} is not a command; did you mean `{nearest}`?"),
        None => format!("{name} is not a command; `help` lists all commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_description_and_an_example() {
        assert_eq!(TEXTS.len(), COMMANDS.len());
        for command in COMMANDS {
            let (text, example) = text_of(command);
            assert!(!text.is_empty(), "{}", command.name);
            assert!(example.starts_with(command.name), "{example}");
        }
        assert!(of("get").unwrap().contains("Example: get -s /app"));
        let failure = of("gett").unwrap_err();
        assert!(failure.text.contains("did you mean `get`?"));
    }
}
