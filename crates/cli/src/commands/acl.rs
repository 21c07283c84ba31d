//! Commands `getAcl`, `setAcl`, `addauth` and `whoami`.
//!
//! Source: GetAclCommand, SetAclCommand, AddAuthCommand, WhoAmICommand, AclParser.

use proto::Acl;
use serde_json::json;

use super::Command;
use super::subtree::descent::Descent;
use crate::failure::Failure;
use crate::output::json;
use crate::output::text::{self, PERMISSIONS};
use crate::parse::options::Arguments;
use crate::shell::Shell;

/// Parses `scheme:id:perms[,...]`. Reports and skips invalid permission letters and malformed
/// entries.
///
/// # Errors
/// If no entry remains. The error describes the faults of the entries.
pub(super) fn parse_acl(shell: &mut Shell, text: &str) -> Result<Vec<Acl>, Failure> {
    let mut acl = Vec::new();
    let mut wrong = Vec::new();
    for entry in text.split(',') {
        let parts = entry
            .split_once(':')
            .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        let Some((scheme, (id, letters))) = parts else {
            wrong.push(format!("{entry} does not have the form scheme:id:perm"));
            continue;
        };
        let mut perms = 0;
        for letter in letters.chars() {
            match PERMISSIONS.iter().find(|(known, _)| *known == letter) {
                Some((_, bit)) => perms |= bit,
                None => shell.print_error(&format!("Unknown perm type: {letter}")),
            }
        }
        acl.push(Acl::new(perms, scheme, id));
    }
    if acl.is_empty() {
        return Err(Failure::new(wrong.join("\n")));
    }
    for text in wrong {
        shell.print_error(&text);
    }
    Ok(acl)
}

pub(super) async fn get_acl(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let answer = client.get_acl(&outside).await;
    let (acl, stat) = answer.map_err(|error| Failure::of(&error, path))?;
    shell.show(
        || json!({ "path": path, "acl": json::acl(&acl), "stat": json::stat(&stat) }),
        || text::acl(&acl),
    );
    if given.has("s") && !shell.start.format.is_structured() {
        shell.print(&text::stat(&stat));
    }
    Ok(())
}

pub(super) async fn set_acl(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let text = given.word(1).ok_or_else(|| command.usage_error())?;
    let version = given.number("v")?.unwrap_or(-1);
    let path = command.path(given)?;
    let acl = parse_acl(shell, text)
        .map_err(|failure| Failure::new(format!("{}\nAcl is not valid : null", failure.text)))?;
    let mut descent = Descent::new(path, given.has("R"));
    while let Some(path) = descent.next(shell).await? {
        let (client, outside) = shell.client_for(&path).await?;
        match client.set_acl(&outside, acl.clone(), version).await {
            Ok(stat) if given.has("s") => shell.print(&text::stat(&stat)),
            Ok(_) => {}
            Err(error) => descent.skip(shell, &error, &path)?,
        }
    }
    descent.finish("changed")
}

pub(super) async fn add_auth(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let scheme = given.word(0).ok_or_else(|| command.usage_error())?;
    shell
        .add_auth(scheme, given.word(1).unwrap_or_default())
        .await;
    Ok(())
}

pub(super) async fn who_am_i(shell: &mut Shell) -> Result<(), Failure> {
    let client = shell.client("").await?;
    let identities = client.who_am_i().await;
    let identities = identities.map_err(|error| Failure::of(&error, ""))?;
    if !shell.start.format.is_structured() {
        shell.print("Auth scheme: User");
    }
    for identity in identities {
        shell.show(
            || json!({ "scheme": &*identity.scheme, "user": &*identity.user }),
            || format!("{}: {}", identity.scheme, identity.user),
        );
    }
    Ok(())
}
