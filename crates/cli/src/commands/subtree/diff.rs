//! Command `diff`, which shows the differences between two subtrees of one ensemble or of two
//! ensembles.

use std::collections::BTreeSet;
use std::sync::Arc;

use proto::Acl;
use serde_json::json;

use super::place::{ReadResult, Subtree, Znode};
use super::read_ahead::ReadAhead;
use super::search::{plain, report_progress};
use crate::commands::Command;
use crate::exit;
use crate::failure::Failure;
use crate::output::text::number;
use crate::parse::options::Arguments;
use crate::shell::Shell;

/// Exit code if it is unknown whether there is a difference, as in diff(1).
pub(crate) const TROUBLE: u8 = 2;

/// Counts of the comparison so far.
#[derive(Debug, Default)]
struct DiffCounts {
    znodes: usize,
    differences: usize,
    ephemerals: usize,
    unreadable: usize,
}

/// Compares two subtrees. The exit code is 0 if they are equal, 1 if not, and 2 if the result is
/// unknown because a znode could not be read or an ensemble does not answer.
pub(crate) async fn diff(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let trouble = |failure: Failure| failure.with_code(TROUBLE);
    let tally = compare(shell, command, given).await.map_err(trouble)?;
    let DiffCounts {
        znodes,
        differences,
        ephemerals,
        unreadable,
    } = tally;
    let mut text = format!(
        "{} compared, {}",
        number(znodes, "znode"),
        number(differences, "difference")
    );
    if ephemerals > 0 {
        text.push_str(&format!(
            ", {} not compared",
            number(ephemerals, "ephemeral")
        ));
    }
    if unreadable > 0 {
        text.push_str(&format!(", {unreadable} not readable"));
        return Err(trouble(Failure::new(text).with_exit(exit::DENIED)));
    }
    if differences > 0 {
        return Err(Failure::new(text));
    }
    shell.print_error(&text);
    Ok(())
}

async fn compare(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<DiffCounts, Failure> {
    let [first, second] = given.words.as_slice() else {
        return Err(command.usage_error());
    };
    let [first, second] = Subtree::open_two(shell, [first, second], given).await?;
    let compared = compare_places(shell, given, [&first, &second]).await;
    first.close().await;
    second.close().await;
    compared
}

/// Compares the subtrees level by level. A level contains the children from both subtrees.
async fn compare_places(
    shell: &mut Shell,
    given: &Arguments,
    places: [&Arc<Subtree>; 2],
) -> Result<DiffCounts, Failure> {
    let with_acl = given.has("a");
    let read = |path: &String| {
        let [first, second] = places.map(Arc::clone);
        let path = path.clone();
        async move {
            let both = tokio::try_join!(first.read(&path, with_acl), second.read(&path, with_acl));
            both.map(<[ReadResult; 2]>::from)
        }
    };
    let mut tally = DiffCounts::default();
    let mut read_ahead = ReadAhead::default();
    read_ahead.push(String::new());
    while let Some((path, found)) = read_ahead.next(read).await? {
        let found = found?;
        read_ahead.note_data_len(found.iter().map(ReadResult::bytes).sum());
        tally.znodes += 1;
        report_progress(shell, tally.znodes);
        let names = report(shell, &mut tally, given, places, &path, found)?;
        let below = names.iter().map(|name| format!("{path}/{name}"));
        // Each ensemble has its own quotas and configuration.
        let is_compared =
            |path: &String| !places.iter().any(|place| place.is_of_the_ensemble(path));
        below
            .filter(is_compared)
            .for_each(|path| read_ahead.push(path));
        if shell.has_failed_output() {
            break;
        }
    }
    Ok(tally)
}

/// Reports the differences of one path, and returns the names of the children to compare.
fn report(
    shell: &mut Shell,
    tally: &mut DiffCounts,
    given: &Arguments,
    places: [&Arc<Subtree>; 2],
    path: &str,
    found: [ReadResult; 2],
) -> Result<BTreeSet<String>, Failure> {
    let is_passed_over = |znode: &Znode| znode.is_ephemeral() && !given.has("e");
    for (place, found) in places.iter().zip(&found) {
        if matches!(found, ReadResult::Unreadable) {
            tally.unreadable += 1;
            let place = plain(&place.shown(path));
            shell.print_error(&format!("Insufficient permission : {place}"));
        }
    }
    let (first, second) = match found {
        [ReadResult::Znode(first), ReadResult::Znode(second)] => (first, second),
        [ReadResult::Znode(only), ReadResult::Nothing]
        | [ReadResult::Nothing, ReadResult::Znode(only)]
            if is_passed_over(&only) && !path.is_empty() =>
        {
            tally.ephemerals += 1;
            return Ok(BTreeSet::new());
        }
        // There is nothing to compare, and the reason has been reported.
        [ReadResult::Unreadable, _] | [_, ReadResult::Unreadable] => return Ok(BTreeSet::new()),
        [ReadResult::Nothing, _] if path.is_empty() => return Err(missing(places[0])),
        [_, ReadResult::Nothing] if path.is_empty() => return Err(missing(places[1])),
        [ReadResult::Znode(_), ReadResult::Nothing] => {
            return Ok(only_in(shell, tally, places[0], path));
        }
        [ReadResult::Nothing, ReadResult::Znode(_)] => {
            return Ok(only_in(shell, tally, places[1], path));
        }
        // The znode has been deleted in both trees meanwhile.
        [ReadResult::Nothing, ReadResult::Nothing] => return Ok(BTreeSet::new()),
    };
    if is_passed_over(&first) && is_passed_over(&second) {
        tally.ephemerals += 1;
        return Ok(BTreeSet::new());
    }
    for difference in differences(&first, &second) {
        tally.differences += 1;
        shell.show(
            || json!({ "path": below_roots(path), "difference": difference }),
            || format!("{}: {difference}", plain(below_roots(path))),
        );
    }
    Ok(first.names.into_iter().chain(second.names).collect())
}

fn missing(place: &Subtree) -> Failure {
    let place = plain(&place.shown(""));
    Failure::new(format!("Node does not exist: {place}")).with_exit(exit::NOT_FOUND)
}

/// Reports a path that exists only in one place. Its descendants are not reported.
fn only_in(
    shell: &mut Shell,
    tally: &mut DiffCounts,
    place: &Subtree,
    path: &str,
) -> BTreeSet<String> {
    tally.differences += 1;
    let difference = format!("only in {}", place.shown(""));
    let path = below_roots(path);
    shell.show(
        || json!({ "path": path, "difference": difference }),
        || format!("{}: {}", plain(path), plain(&difference)),
    );
    BTreeSet::new()
}

/// Returns the path below both roots. A slash represents the roots themselves.
fn below_roots(path: &str) -> &str {
    match path {
        "" => "/",
        path => path,
    }
}

fn differences(first: &Znode, second: &Znode) -> Vec<String> {
    let mut found = Vec::new();
    if first.data != second.data {
        let [a, b] = [first, second].map(|znode| match &znode.data {
            None => "null".to_owned(),
            Some(data) => format!("{} bytes", data.len()),
        });
        found.push(format!("data differs ({a}, {b})"));
    }
    // The owners of ephemerals always differ.
    if first.is_ephemeral() != second.is_ephemeral() {
        found.push("only one of the znodes is ephemeral".to_owned());
    }
    if sorted(&first.acl) != sorted(&second.acl) {
        found.push("ACL differs".to_owned());
    }
    found
}

/// Returns the sorted entries, because their order has no meaning.
fn sorted(acl: &[Acl]) -> Vec<(String, String, i32)> {
    let entry = |acl: &Acl| (acl.id.scheme.to_string(), acl.id.id.to_string(), acl.perms);
    let mut entries: Vec<_> = acl.iter().map(entry).collect();
    entries.sort_unstable();
    entries
}
