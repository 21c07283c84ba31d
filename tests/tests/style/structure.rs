//! Bounds on the structure of crates: files in a folder, and import circles.

use std::collections::{BTreeMap, BTreeSet};

use super::{committed, rust_files};

/// Crates within the bounds. Each further crate that comes within them is added.
const BOUNDED: &[&str] = &[
    "admin",
    "admission",
    "bench",
    "blocking",
    "cli",
    "datadir",
    "election",
    "executor",
    "frontend",
    "host",
    "jute",
    "jute-derive",
    "lab",
    "log-limiter",
    "preflight",
    "quorum",
    "recovery",
    "server",
    "terminal",
    "testkit",
    "zoarium",
];

/// Maximum number of Rust files and folders in a folder.
const ENTRIES_MAX: usize = 12;

/// Maximum number of files that import each other in a circle.
const CIRCLE_MAX: usize = 3;

/// Imports of the modules of a crate, by module. The root is the empty text.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the module of a source file, for example `mesh::link`.
fn module_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => String::new(),
        path => path.replace('/', "::"),
    }
}

/// Returns the paths that a `use` declaration names, without its braces.
fn paths_of(declaration: &str) -> Vec<String> {
    let Some((prefix, inside)) = declaration.split_once('{') else {
        let path = declaration.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
    let mut depth = 0_usize;
    let parts = inside.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    let paths = parts.flat_map(paths_of);
    paths
        .map(|path| format!("{}{path}", prefix.trim_start()))
        .collect()
}

/// Returns the module that a path names or is inside of.
fn imported(importer: &str, path: &str, modules: &BTreeSet<&str>) -> Option<String> {
    let mut base: Vec<&str> = importer
        .split("::")
        .filter(|name| !name.is_empty())
        .collect();
    let mut names: Vec<&str> = path.split("::").map(str::trim).collect();
    match names[0] {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while names.first() == Some(&"super") {
                names.remove(0);
                base.pop();
            }
            names.insert(0, "super");
        }
        first => {
            let child = [&base[..], &[first]].concat().join("::");
            if !modules.contains(child.as_str()) {
                return None;
            }
            names.insert(0, "self");
        }
    }
    base.extend(&names[1..]);
    while !base.is_empty() {
        let module = base.join("::");
        if modules.contains(module.as_str()) {
            return (module != importer).then_some(module);
        }
        base.pop();
    }
    // The root only declares the modules.
    None
}

/// Returns the modules that each module imports. Tests and declarations of modules do not count.
fn imports(sources: &[(String, String)]) -> Imports {
    let modules: BTreeSet<&str> = sources.iter().map(|(module, _)| module.as_str()).collect();
    let of = |(module, text): &(String, String)| {
        let code = text.split("#[cfg(test)]\nmod tests {").next();
        let declarations = code.unwrap_or_default().split("\nuse ").skip(1);
        let reexports = code.unwrap_or_default().split("\npub use ").skip(1);
        let inner = code.unwrap_or_default().split(") use ").skip(1);
        let declarations = declarations.chain(reexports).chain(inner);
        let declarations = declarations.filter_map(|rest| rest.split(';').next());
        let paths = declarations.flat_map(|one| paths_of(&one.replace('\n', " ")));
        let found = paths.filter_map(|path| imported(module, &path, &modules));
        (module.clone(), found.collect())
    };
    sources.iter().map(of).collect()
}

/// Returns the modules that `from` imports, directly or through others.
fn reached<'a>(from: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&str> = imports[from].iter().map(String::as_str).collect();
    while let Some(module) = next.pop() {
        if seen.insert(module) {
            next.extend(imports[module].iter().map(String::as_str));
        }
    }
    seen
}

/// Returns the largest circle: modules that import each other, directly or through others.
fn largest_circle(imports: &Imports) -> Vec<&str> {
    let circles = imports.keys().map(|module| {
        let reached_from = reached(module, imports).into_iter();
        let back = reached_from.filter(|other| reached(other, imports).contains(module.as_str()));
        back.collect::<Vec<_>>()
    });
    circles.max_by_key(Vec::len).unwrap_or_default()
}

/// Returns the source files of a crate without tests, with their modules.
fn sources_of(name: &str, files: &[String]) -> Vec<(String, String)> {
    let prefix = format!("crates/{name}/src/");
    let sources = rust_files(files).filter_map(|(file, text)| {
        let path = file.strip_prefix(&prefix)?;
        let is_test = path.ends_with("tests.rs") || path.contains("tests/");
        (!is_test).then(|| (module_of(path), text))
    });
    sources.collect()
}

#[test]
fn crates_within_the_bounds_stay_within_them() {
    let Some(files) = committed() else { return };
    let mut faults = Vec::new();
    for name in BOUNDED {
        let sources = sources_of(name, &files);
        assert!(!sources.is_empty(), "{name} has no sources");
        let imports = imports(&sources);
        let circle = largest_circle(&imports);
        if circle.len() > CIRCLE_MAX {
            faults.push(format!("{name}: these files import each other: {circle:?}"));
        }
        let prefix = format!("crates/{name}/src/");
        let inside = files.iter().filter_map(|file| file.strip_prefix(&prefix));
        let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in inside {
            let names: Vec<&str> = file.split('/').collect();
            let mut folder = 0;
            for entry in names {
                entries.entry(&file[..folder]).or_default().insert(entry);
                folder = (folder + entry.len() + 1).min(file.len());
            }
        }
        let full = entries
            .iter()
            .filter(|(_, inside)| inside.len() > ENTRIES_MAX);
        faults.extend(
            full.map(|(folder, inside)| format!("{prefix}{folder} has {} entries", inside.len())),
        );
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn circles_are_found_through_all_forms_of_imports() {
    let source = |module: &str, text: &str| (module.to_owned(), format!("//! A file.\n\n{text}"));
    let sources = [
        source("", "mod a;\nmod b;\npub use a::One;\n"),
        source("a", "use std::io;\n\nuse crate::b::{inner::Two, Other};\n"),
        source("b", "pub use self::inner::Two;\n"),
        source(
            "b::inner",
            "pub(crate) use super::super::a::{One, Three as Four};\n",
        ),
        source(
            "c",
            "use super::a::One;\n#[cfg(test)]\nmod tests {\n    use crate::d;\n}\n",
        ),
        source("d", "use crate::c::Five;\n"),
    ];
    let imports = imports(&sources);
    assert_eq!(imports["b::inner"], BTreeSet::from(["a".to_owned()]));
    assert_eq!(imports["c"], BTreeSet::from(["a".to_owned()]));
    assert_eq!(largest_circle(&imports), ["a", "b", "b::inner"]);
}
