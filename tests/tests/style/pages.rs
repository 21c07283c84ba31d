//! Rules for pages: required rows, lengths, links, and text that belongs on other pages.

use std::collections::{BTreeMap, BTreeSet};

use crate::{changelog, changes, committed, text_of};

/// Pages with tables that name all settings, metrics, limits, log messages and differences. For
/// each of them, `rows/PAGE.tsv` lists the rows of 51ec785: the first cell, and after a tab the
/// cell that replaced it. `dropped:` begins the reason for a row that no longer exists.
const ROWS: &[(&str, &str)] = &[
    ("COMPATIBILITY", include_str!("rows/COMPATIBILITY.tsv")),
    ("CONFIG", include_str!("rows/CONFIG.tsv")),
    ("LIMITS", include_str!("rows/LIMITS.tsv")),
    ("METRICS", include_str!("rows/METRICS.tsv")),
    ("TROUBLESHOOTING", include_str!("rows/TROUBLESHOOTING.tsv")),
];

/// Maximum number of words of a page or of a folder.
const WORDS_MAX: &[(&str, usize)] = &[
    ("docs/ARCHITECTURE.md", 2500),
    ("docs/PERFORMANCE.md", 1200),
    ("docs/lab/", 15_000),
];

/// Maximum number of words of all pages outside of [`DIARIES`].
const WORDS_OF_ALL_MAX: usize = 35_000;

/// Folders with content for people who work on Zoarium.
const DIARIES: &[&str] = &["docs/lab/", "docs/decisions/"];

/// Pages for people who work on Zoarium. They may name tests, crates and pages of the lab.
const FOR_MAINTAINERS: &[&str] = &[
    "docs/ARCHITECTURE.md",
    "docs/CONTRIBUTING.md",
    "docs/SUMMARY.md",
    "docs/TESTING.md",
];

/// Pages whose tables are generated.
pub(super) const GENERATED: &[&str] = &["docs/CONFIG.md", "docs/METRICS.md", "docs/PROTOCOL.md"];

/// Lines that begin and end a generated table within a page.
const GENERATED_TABLES: &[[&str; 2]] = &[
    ["<!-- covered: made by", "<!-- end of the covered"],
    ["<!-- findings: made by", "<!-- end of the findings"],
    ["<!-- recipes: made by", "<!-- end of the recipes"],
    [changelog::BEGIN, changelog::END],
    [changes::BEGIN, changes::END],
];

/// The package that a reader installs by its path.
const INSTALLED: &str = "crates/zoarium";

fn pages() -> Option<Vec<(String, String)>> {
    let files = committed()?
        .into_iter()
        .filter(|file| file == "README.md" || file.starts_with("docs/") && file.ends_with(".md"));
    let pages = files.map(|file| {
        let text = text_of(&file).expect("a text");
        (file, text)
    });
    Some(pages.collect())
}

fn is_diary(page: &str) -> bool {
    DIARIES.iter().any(|folder| page.starts_with(folder))
}

fn is_for_readers(page: &str) -> bool {
    !FOR_MAINTAINERS.contains(&page) && !is_diary(page)
}

/// Returns the cells of a row. An escaped bar is not a border.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "\u{0}");
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|')
        .map(|cell| cell.trim().replace('\u{0}', "\\|"))
        .collect()
}

/// Returns the first cells of all rows, or second ones after `-`, and how often each occurs.
fn keys(page: &str) -> BTreeMap<String, usize> {
    let mut keys = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let cells = cells(row);
        let key = match cells.as_slice() {
            [dash, key, ..] if dash == "-" => key,
            [key, ..] => key,
            [] => continue,
        };
        *keys.entry(key.clone()).or_default() += 1;
    }
    keys
}

#[test]
fn rows_of_51ec785_are_kept_or_have_a_reason() {
    for (name, rows) in ROWS {
        let file = format!("docs/{name}.md");
        let mut keys = keys(&text_of(&file).expect("a page"));
        let mut lost = Vec::new();
        for row in rows.lines() {
            let (old, new) = row.split_once('\t').unwrap_or((row, row));
            if let Some(reason) = new.strip_prefix("dropped: ") {
                assert!(!reason.is_empty(), "{file}: {old}");
                continue;
            }
            match keys.get_mut(new) {
                Some(count) if *count > 0 => *count -= 1,
                _ => lost.push(new),
            }
        }
        assert!(lost.is_empty(), "{file} lost {lost:#?}");
    }
}

/// Counts words, which contain a letter or a digit. Generated tables and findings are not counted.
fn words(page: &str, text: &str) -> usize {
    let is_generated = GENERATED.contains(&page);
    let mut is_block = false;
    let mut count = 0;
    for line in text.lines() {
        for [begin, end] in GENERATED_TABLES {
            if line.starts_with(begin) || line.starts_with(end) {
                is_block = line.starts_with(begin);
            }
        }
        if is_block || is_generated && line.starts_with('|') {
            continue;
        }
        let is_word = |word: &&str| word.contains(char::is_alphanumeric);
        count += line.split_whitespace().filter(is_word).count();
    }
    count
}

#[test]
fn pages_are_short() {
    let Some(pages) = pages() else { return };
    for (name, max) in WORDS_MAX {
        let of_name = pages.iter().filter(|(page, _)| page.starts_with(name));
        let count: usize = of_name.map(|(page, text)| words(page, text)).sum();
        assert!(count > 0, "{name} has no words");
        assert!(count <= *max, "{name}: {count} words, at most {max}");
    }
    let docs = pages
        .iter()
        .filter(|(page, _)| page.starts_with("docs/") && !is_diary(page));
    let count: usize = docs.map(|(page, text)| words(page, text)).sum();
    assert!(count <= WORDS_OF_ALL_MAX, "all pages: {count} words");
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
    kept.flat_map(char::to_lowercase)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// Returns the targets of the links in a line, without text in backticks.
fn targets(line: &str) -> Vec<&str> {
    let mut rest = line;
    let mut targets = Vec::new();
    while let Some((before, after)) = rest.split_once("](") {
        rest = after;
        let is_code = line[..line.len() - rest.len()].matches('`').count() % 2 == 1;
        if let Some((target, _)) = after.split_once(')')
            && !is_code
            && before.contains('[')
        {
            targets.push(target);
        }
    }
    targets
}

#[test]
fn links_lead_to_files_and_headings() {
    let (Some(pages), Some(files)) = (pages(), committed()) else {
        return;
    };
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(page, text)| {
            let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
            let anchors = headings.map(|(_, line)| anchor(line.trim_start_matches('#')));
            (page.as_str(), anchors.collect())
        })
        .collect();
    let (mut count, mut dead) = (0, Vec::new());
    for (page, text) in &pages {
        for (line, target) in prose(text).flat_map(|(number, line)| {
            let targets = targets(line).into_iter();
            targets.map(move |target| (number + 1, target))
        }) {
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() {
                page.clone()
            } else {
                resolved(page, path)
            };
            let is_heading = |anchors: &BTreeSet<String>| anchors.contains(heading);
            let exists = files.contains(&file)
                || files
                    .iter()
                    .any(|known| known.starts_with(&format!("{file}/")));
            let leads = heading.is_empty() || anchors.get(file.as_str()).is_some_and(is_heading);
            if !exists || !leads {
                dead.push(format!("{page}:{line}: {target}"));
            }
            let to_lab = file.starts_with("docs/lab/");
            assert!(!to_lab || !is_for_readers(page), "{page}:{line}: {target}");
        }
    }
    assert!(count > 100, "only {count} links");
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

/// Returns the path of a link, relative to the root.
fn resolved(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns whether this is an abbreviated or full hash of a commit.
fn is_commit(word: &str) -> bool {
    (7..=40).contains(&word.len())
        && word
            .chars()
            .all(|letter| matches!(letter, '0'..='9' | 'a'..='f'))
        && word.contains(char::is_numeric)
        && word.contains(char::is_alphabetic)
}

#[test]
fn pages_for_readers_name_no_commits_tests_or_crates() {
    let Some(pages) = pages() else { return };
    for (page, text) in pages.iter().filter(|(page, _)| is_for_readers(page)) {
        for (number, line) in prose(text).filter(|(_, line)| !line.starts_with("<!--")) {
            let place = format!("{page}:{}: {line}", number + 1);
            let mut words = line.split(|letter: char| !letter.is_alphanumeric());
            assert!(!words.any(is_commit), "{place}");
            for folder in ["crates/", "tests/"] {
                let paths = line.matches(folder).count();
                let installed = line.matches(INSTALLED).count();
                assert!(paths == 0 || paths == installed, "{place}");
            }
        }
    }
}

/// Returns the names of metrics before a selector in braces.
fn selected(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(at, _)| {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = text[..at].rsplit(|letter| !is_name(letter)).next()?;
        (!name.is_empty()).then_some(name)
    })
}

#[test]
fn alerts_and_dashboards_select_metrics_that_exist() {
    let names = keys(&text_of("docs/METRICS.md").expect("the metrics"));
    let is_of_exporter = |name: &str| {
        name == "up" || name.starts_with("process_") || name.starts_with("zoarium_stage_seconds")
    };
    for (file, least) in [("alerts.yml", 8), ("dashboard.json", 10)] {
        let text = text_of(&format!("conf/monitoring/{file}")).expect("a text");
        let queries = text
            .lines()
            .filter(|line| line.contains("{job=") || line.contains("{job=\\\""));
        let found: Vec<&str> = queries.flat_map(selected).collect();
        assert!(found.len() >= least, "{file}: {found:?}");
        for name in found {
            let base = name.strip_suffix("_count").unwrap_or(name);
            let is_known = [name, base]
                .iter()
                .any(|name| names.contains_key(&format!("`{name}`")));
            assert!(is_known || is_of_exporter(name), "{file}: {name}");
        }
    }
}

#[test]
fn the_rules_for_pages_find_their_subjects() {
    assert_eq!(anchor(" What `a_b` is, \"c-d\""), "what-a_b-is-c-d");
    let line = "See [one](LIMITS.md#b), `[no](x)` and [two](../README.md).";
    assert_eq!(targets(line), ["LIMITS.md#b", "../README.md"]);
    assert_eq!(
        resolved("docs/lab/core.md", "../LIMITS.md"),
        "docs/LIMITS.md"
    );
    assert!(is_commit("b9c7b95") && !is_commit("1000000") && !is_commit("facade"));
    assert_eq!(cells("| `a\\|b` | c |"), ["`a\\|b`", "c"]);
    assert_eq!(words("docs/CONFIG.md", "two words\n| a row |"), 2);
}
