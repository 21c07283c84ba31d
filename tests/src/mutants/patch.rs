//! A patch of one mutant, and the text of a file with the switches of all patches.

use std::collections::BTreeMap;

/// A deliberate bug in the shipped code.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// Its name, which is the name of its patch.
    pub name: String,
    /// Commands that fail with this bug, each in a line `Caught-by:` of the patch.
    pub caught_by: Vec<String>,
    pub(super) hunks: Vec<Hunk>,
}

/// A place of a patch.
#[derive(Debug, Clone)]
pub(super) struct Hunk {
    pub(super) file: String,
    /// Number of lines before the hunk in the file for which the patch was written.
    before: usize,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Kept(String),
    Removed(String),
    Added(String),
}

impl Line {
    /// Returns the line of the shipped file, if it is one.
    fn shipped(&self) -> Option<&str> {
        match self {
            Self::Kept(line) | Self::Removed(line) => Some(line),
            Self::Added(_) => None,
        }
    }
}

impl Mutant {
    /// Reads a patch.
    ///
    /// # Errors
    /// If it does not have the form of `crates/simulator/mutants/README.md`.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let (header, diff) = text
            .split_once("\ndiff --git ")
            .ok_or("there is no line that begins with `diff --git`")?;
        let caught_by = header
            .lines()
            .filter_map(|line| line.strip_prefix("Caught-by: "));
        let mutant = Self {
            name: name.to_owned(),
            caught_by: caught_by.map(str::to_owned).collect(),
            hunks: hunks(diff)?,
        };
        let mut lines = mutant.hunks.iter().flat_map(|hunk| &hunk.lines);
        let switch = format!("crate::mutant::is(\"{name}\")");
        let is_switch = |line: &Line| matches!(line, Line::Added(text) if text.contains(&switch));
        if lines.any(is_switch) {
            Ok(mutant)
        } else {
            Err(format!("no added line contains {switch}"))
        }
    }
}

fn hunks(diff: &str) -> Result<Vec<Hunk>, String> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut file = "";
    // Lines of the current hunk that are still to come, of the shipped file and of the new one.
    let (mut old_left, mut new_left) = (0, 0);
    for line in diff.lines() {
        if old_left + new_left == 0 {
            if let Some(path) = line.strip_prefix("+++ b/") {
                file = path;
            } else if let Some(numbers) = line.strip_prefix("@@ -") {
                let ranges = ranges(numbers).ok_or_else(|| format!("cannot read {line:?}"))?;
                let begins_at;
                ((begins_at, old_left), new_left) = ranges;
                hunks.push(Hunk {
                    file: file.to_owned(),
                    before: begins_at - usize::from(old_left > 0),
                    lines: Vec::new(),
                });
            }
            continue;
        }
        // Editors may remove the blank of an empty line.
        let kind = line.get(..1).unwrap_or(" ");
        let text = line.get(1..).unwrap_or_default().to_owned();
        let (line, is_old, is_new) = match kind {
            " " => (Line::Kept(text), 1, 1),
            "-" => (Line::Removed(text), 1, 0),
            "+" => (Line::Added(text), 0, 1),
            _ => return Err(format!("cannot read {line:?}")),
        };
        let (Some(old), Some(new)) = (
            usize::checked_sub(old_left, is_old),
            usize::checked_sub(new_left, is_new),
        ) else {
            return Err(format!("a hunk of {file} has more lines than it states"));
        };
        (old_left, new_left) = (old, new);
        hunks.last_mut().expect("a hunk has begun").lines.push(line);
    }
    if old_left + new_left > 0 {
        return Err(format!("a hunk of {file} has fewer lines than it states"));
    }
    Ok(hunks)
}

/// Reads `12,5 +12,7 @@ ...`: the first line and the number of lines of the shipped file, and the
/// number of lines of the new file.
fn ranges(numbers: &str) -> Option<((usize, usize), usize)> {
    let (numbers, _) = numbers.split_once(" @@")?;
    let (old, new) = numbers.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (first, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    let (old, new) = (range(old)?, range(new)?);
    (old.0 > 0).then_some((old, new.1))
}

impl Hunk {
    /// Returns the number of lines before the hunk in this shipped file: at the stated place, or at
    /// the only other place with the same lines.
    fn place(&self, shipped: &[&str]) -> Result<usize, String> {
        let lines: Vec<&str> = self.lines.iter().filter_map(Line::shipped).collect();
        let is_at = |at: usize| {
            let there = shipped.get(at..at + lines.len());
            there.is_some_and(|there| there == lines)
        };
        if is_at(self.before) {
            return Ok(self.before);
        }
        let places: Vec<usize> = (0..shipped.len()).filter(|at| is_at(*at)).collect();
        match places[..] {
            [at] => Ok(at),
            [] => Err(format!("{} does not contain these lines", self.file)),
            _ => Err(format!("{} contains these lines repeatedly", self.file)),
        }
        .map_err(|why| format!("{why}:\n{}", lines.join("\n")))
    }
}

/// The changes of all patches at one line of a shipped file.
#[derive(Debug, Default)]
struct Change<'a> {
    /// Lines before this one.
    before: Vec<&'a str>,
    /// The mutant that replaces this line, and the new lines.
    replaced: Option<(&'a str, Vec<&'a str>)>,
}

/// Returns the text of a file with the switches of all mutants. Every patch is written for the
/// shipped file, so the patches do not depend on each other.
///
/// # Errors
/// If a patch does not fit the file, or if two patches replace the same line. The error names the
/// mutant.
pub(super) fn with_switches(
    shipped: &str,
    file: &str,
    mutants: &[Mutant],
) -> Result<String, String> {
    let lines: Vec<&str> = shipped.lines().collect();
    let mut changes: BTreeMap<usize, Change<'_>> = BTreeMap::new();
    for mutant in mutants {
        for hunk in mutant.hunks.iter().filter(|hunk| hunk.file == file) {
            let failed = |why| format!("{}.patch: {why}", mutant.name);
            let mut at = hunk.place(&lines).map_err(failed)?;
            let mut follows_removed = false;
            for line in &hunk.lines {
                match line {
                    Line::Kept(_) => at += 1,
                    Line::Removed(text) => {
                        let replaced = &mut changes.entry(at).or_default().replaced;
                        if let Some((other, _)) = replaced {
                            let why = format!("{other}.patch replaces the same line:\n{text}");
                            return Err(failed(why));
                        }
                        *replaced = Some((&mutant.name, Vec::new()));
                        at += 1;
                    }
                    // New lines in the place of a removed one stay there, whatever other patches
                    // add after it.
                    Line::Added(text) if follows_removed => {
                        let change = changes.get_mut(&(at - 1));
                        let replaced = change.and_then(|change| change.replaced.as_mut());
                        replaced.expect("the line is removed").1.push(text);
                        continue;
                    }
                    Line::Added(text) => changes.entry(at).or_default().before.push(text),
                }
                follows_removed = matches!(line, Line::Removed(_));
            }
        }
    }
    let mut text = String::with_capacity(2 * shipped.len());
    for at in 0..=lines.len() {
        let change = changes.remove(&at).unwrap_or_default();
        let line = match change.replaced {
            None => lines.get(at).map_or(Vec::new(), |line| vec![*line]),
            Some((_, lines)) => lines,
        };
        for line in change.before.into_iter().chain(line) {
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = "a\nb\nc\nd\ne\n";

    fn mutant(name: &str, hunk: &str) -> Mutant {
        let diff = "\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -";
        Mutant::parse(name, &format!("About it.{diff}{hunk}")).expect("a patch")
    }

    fn replaces_c() -> Mutant {
        let hunk = "2,3 +2,3 @@ fn x\n b\n-c\n+crate::mutant::is(\"One\")\n d\n";
        mutant("One", hunk)
    }

    #[test]
    fn patches_of_neighbouring_lines_do_not_disturb_each_other() {
        let added = "3,2 +3,3 @@\n c\n+crate::mutant::is(\"Other\")\n d\n";
        let before = "2,2 +2,3 @@\n b\n+crate::mutant::is(\"Before\")\n c\n";
        let all = [
            mutant("Before", before),
            mutant("Other", added),
            replaces_c(),
        ];
        let text = with_switches(SHIPPED, "x", &all).expect("they fit");
        let switch = |name| format!("crate::mutant::is(\"{name}\")\n");
        let (before, one, other) = (switch("Before"), switch("One"), switch("Other"));
        assert_eq!(text, format!("a\nb\n{before}{one}{other}d\ne\n"));
        assert_eq!(with_switches(SHIPPED, "y", &all).expect("no hunk"), SHIPPED);
    }

    #[test]
    fn a_patch_follows_its_lines_if_they_move_and_are_unique() {
        let moved = format!("0\n{SHIPPED}");
        let text = with_switches(&moved, "x", &[replaces_c()]).expect("it fits");
        assert_eq!(text, "0\na\nb\ncrate::mutant::is(\"One\")\nd\ne\n");
        let error = with_switches(&format!("{moved}{SHIPPED}"), "x", &[replaces_c()]);
        assert!(error.is_err_and(|why| why.starts_with("One.patch: x contains")));
        let error = with_switches("a\nb\nC\nd\n", "x", &[replaces_c()]);
        assert_eq!(
            error,
            Err("One.patch: x does not contain these lines:\nb\nc\nd".to_owned())
        );
    }

    #[test]
    fn two_patches_cannot_replace_one_line() {
        let other = "3,1 +3,1 @@\n-c\n+crate::mutant::is(\"Other\")\n";
        let error = with_switches(SHIPPED, "x", &[replaces_c(), mutant("Other", other)]);
        assert!(error.is_err_and(|why| why.contains("One.patch replaces the same line")));
    }

    #[test]
    fn a_malformed_patch_is_refused() {
        let one = "x\ndiff --git a/x b/x\n+++ b/x\n@@ -2,3 +2,3 @@\n b\n-c\n";
        for (text, why) in [
            ("only words", "no line that begins"),
            (one, "fewer lines"),
            (
                &one.replace("2,3 +2,3", "2 +2,0"),
                "more lines than it states",
            ),
            (&one.replace("2,3 +2,3", "2,3"), "cannot read"),
            (&one.replace("2,3 +2,3", "2,2 +2,1"), "no added line"),
        ] {
            let error = Mutant::parse("One", text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
