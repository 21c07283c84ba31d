//! Commands that concern the shell itself.
//!
//! Source: ZooKeeperMain.processZKCmd.

use proto::ErrorCode;
use serde_json::json;

use super::{CommandKind, execute};
use crate::failure::Failure;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;

/// Ends the session. As in Java, first starts a session if none has been started yet.
pub(super) async fn close(shell: &mut Shell) {
    if shell.client("").await.is_ok() || shell.connection().is_some() {
        shell.close().await;
    }
}

pub(super) fn print_watches(shell: &mut Shell, given: &Arguments) -> Result<(), Failure> {
    match given.word(0) {
        Some(word) => shell.prints_watches = word == "on",
        None => {
            let state = if shell.prints_watches { "on" } else { "off" };
            shell.print(&format!("printwatches is {state}"));
        }
    }
    Ok(())
}

pub(super) async fn redo(shell: &mut Shell, given: &Arguments) -> Result<(), Failure> {
    let Some(word) = given.word(0) else {
        return Ok(());
    };
    let number: i64 = word.parse().map_err(|_| Failure {
        ends_script: true,
        ..Failure::new(format!(
            "redo needs the number of a command, not \"{word}\""
        ))
    })?;
    let words = usize::try_from(number)
        .ok()
        .and_then(|number| shell.redo(number));
    let out_of_range = || Failure::new("Command index out of range");
    let words = words.ok_or_else(out_of_range)?;
    match words.split_first() {
        Some((name, _)) if name == "redo" => Err(Failure::new("No redoing redos")),
        Some((name, words)) => execute(shell, name, words).await,
        None => Ok(()),
    }
}

/// Changes the current path for relative paths, by default to the root.
pub(super) async fn cd(shell: &mut Shell, given: &Arguments) -> Result<(), Failure> {
    let path = given.word(0).unwrap_or("/");
    let path = match &shell.dir {
        Some(_) => path.to_owned(),
        // The first relative path starts at the root.
        None => absolute("/", path),
    };
    path::validate(&path)?;
    let (client, outside) = shell.client_for(&path).await?;
    let found = client.exists(&outside).await;
    let found = found.map_err(|error| Failure::of(&error, &path))?;
    if found.is_none() {
        return Err(Failure::of_code(ErrorCode::NoNode.code(), &path));
    }
    shell.dir = Some(path);
    Ok(())
}

/// Prints the current path for relative paths.
pub(super) fn pwd(shell: &mut Shell) -> Result<(), Failure> {
    let path = shell.dir.clone().unwrap_or_else(|| "/".to_owned());
    shell.show(|| json!({ "path": path }), || path.clone());
    Ok(())
}

/// Makes the relative paths of a command absolute.
pub(super) fn resolve(given: &mut Arguments, kind: CommandKind, dir: &str) {
    let places: &[usize] = match kind {
        CommandKind::AddAuth
        | CommandKind::Close
        | CommandKind::Config
        | CommandKind::Connect
        | CommandKind::Help
        | CommandKind::History
        | CommandKind::PrintWatches
        | CommandKind::Pwd
        | CommandKind::Quit
        | CommandKind::Reconfig
        | CommandKind::Redo
        | CommandKind::Top
        | CommandKind::Version
        | CommandKind::WhoAmI => return,
        CommandKind::Cp | CommandKind::Diff => &[0, 1],
        CommandKind::Grep => &[1],
        _ => &[0],
    };
    // These commands use the current path if the user does not name a path.
    let shows_present = matches!(
        kind,
        CommandKind::Ls
            | CommandKind::Stat
            | CommandKind::Get
            | CommandKind::Tree
            | CommandKind::Du
            | CommandKind::Find
            | CommandKind::GetAcl
    );
    if shows_present && given.words.is_empty() {
        given.words.push(dir.to_owned());
    }
    for place in places {
        if let Some(word) = given.words.get_mut(*place)
            // HOST:PORT/PATH belongs to another ensemble.
            && !(places.len() > 1 && word.contains(':') && word.contains('/'))
        {
            *word = absolute(dir, word);
        }
    }
}

/// Resolves a word against a path. `..`, `.` and names without a leading slash are relative.
fn absolute(dir: &str, word: &str) -> String {
    if word.starts_with('/') {
        return word.to_owned();
    }
    let mut names: Vec<&str> = dir.split('/').filter(|name| !name.is_empty()).collect();
    for name in word.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::options::flag;

    #[test]
    fn relative_paths_begin_with_the_path_of_cd() {
        for (dir, word, wanted) in [
            ("/", "a", "/a"),
            ("/a", "b/c", "/a/b/c"),
            ("/a/b", "..", "/a"),
            ("/a", "../../..", "/"),
            ("/a", "/b", "/b"),
            ("/a", ".", "/a"),
        ] {
            assert_eq!(absolute(dir, word), wanted);
        }
    }

    #[test]
    fn each_command_has_its_own_paths() {
        let resolved = |kind: CommandKind, line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let mut given = Arguments::parse(&words, &[flag("r")]).unwrap();
            resolve(&mut given, kind, "/app");
            given.words.join(" ")
        };
        assert_eq!(resolved(CommandKind::Ls, ""), "/app");
        assert_eq!(resolved(CommandKind::Create, "x data"), "/app/x data");
        assert_eq!(resolved(CommandKind::Cp, "-r x h:1/y"), "/app/x h:1/y");
        assert_eq!(resolved(CommandKind::Grep, "text x"), "text /app/x");
        assert_eq!(resolved(CommandKind::AddAuth, "digest a:b"), "digest a:b");
    }
}
