//! Bounds on the structure of crates: files in a folder, and import circles.

use std::collections::{BTreeMap, BTreeSet};

use super::{committed, rust_files};

/// Maximum number of Rust files and folders in a folder.
const ENTRIES_MAX: usize = 12;

/// Folders with more entries, and their numbers. The list and its numbers become only smaller.
const FULL_FOLDERS: &[(&str, usize)] = &[
    ("crates/client/src", 30),
    ("crates/config/tests/it", 18),
    ("crates/recipes/src", 33),
    ("crates/recipes/tests/it", 24),
    ("crates/storage/tests/it", 15),
    ("crates/tree/tests/it", 15),
    ("jepsen/src", 20),
    ("jepsen/src/check", 19),
    ("jepsen/src/workload", 17),
    ("tests/src", 33),
    ("tests/tests", 30),
    ("tests/tests/admin_server", 18),
    ("tests/tests/ensemble", 19),
    ("tests/tests/ensemble_budgets", 13),
    ("tests/tests/history", 16),
    ("tests/tests/tls", 13),
];

/// Maximum number of files that import each other in a circle. Files with parts of the same `impl`
/// count as one.
const CIRCLE_MAX: usize = 3;

/// Crates with a larger circle, and its number of files. The list and its numbers become only
/// smaller.
const LARGER_CIRCLES: &[(&str, usize)] = &[("simulation", 4), ("simulator", 30)];

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

/// Returns the code of a source file without its tests.
fn code_of(text: &str) -> &str {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    code.unwrap_or_default()
}

/// Returns the paths that a source file imports.
fn imported_paths(code: &str) -> Vec<String> {
    let declarations = code.split("\nuse ").skip(1);
    let reexports = code.split("\npub use ").skip(1);
    let inner = code.split(") use ").skip(1);
    let declarations = declarations.chain(reexports).chain(inner);
    let declarations = declarations.filter_map(|rest| rest.split(';').next());
    let paths = declarations.flat_map(|one| paths_of(&one.replace('\n', " ")));
    paths.collect()
}

/// Returns the modules that each module imports. Tests and declarations of modules do not count.
fn imports(sources: &[(String, String)]) -> Imports {
    let modules: BTreeSet<&str> = sources.iter().map(|(module, _)| module.as_str()).collect();
    let of = |(module, text): &(String, String)| {
        let paths = imported_paths(code_of(text)).into_iter();
        let found = paths.filter_map(|path| imported(module, &path, &modules));
        (module.clone(), found.collect())
    };
    sources.iter().map(of).collect()
}

/// Returns the types whose methods a source file defines. Implementations of traits do not count.
fn implemented(code: &str) -> BTreeSet<&str> {
    let blocks = code.lines().filter_map(|line| line.strip_prefix("impl"));
    let blocks = blocks.filter(|line| !line.contains(" for "));
    let names = blocks.filter_map(|line| {
        let mut depth = 0_usize;
        let after_generics = line.find(|c: char| {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && c == ' '
        });
        line[after_generics?..]
            .trim_start()
            .split(['<', ' '])
            .next()
    });
    names.collect()
}

/// Returns the modules with a part of the `impl` of another module's type, and that module.
fn shared_impls(sources: &[(String, String)]) -> BTreeMap<String, String> {
    let texts: BTreeMap<&str, &str> = sources
        .iter()
        .map(|(module, text)| (module.as_str(), text.as_str()))
        .collect();
    let modules: BTreeSet<&str> = texts.keys().copied().collect();
    let mut shared = BTreeMap::new();
    for (module, text) in sources {
        let code = code_of(text);
        let types = implemented(code);
        for path in imported_paths(code) {
            let name = path.rsplit("::").next().unwrap_or_default();
            let Some(owner) = imported(module, &path, &modules) else {
                continue;
            };
            let defines = |keyword: &str| {
                let definition = format!("{keyword} {name}");
                let mut found = texts[owner.as_str()].match_indices(&definition);
                let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
                found.any(|(at, _)| ends(&texts[owner.as_str()][at + definition.len()..]))
            };
            if types.contains(name) && (defines("struct") || defines("enum")) {
                shared.insert(module.clone(), owner);
            }
        }
    }
    shared
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

/// Returns the largest circle: modules that import each other, directly or through others. Instead
/// of modules that share an `impl` with another module of the circle, it contains that module.
fn largest_circle<'a>(
    imports: &'a Imports,
    shared: &'a BTreeMap<String, String>,
) -> BTreeSet<&'a str> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|module| (module.as_str(), reached(module, imports)))
        .collect();
    let circles = reached.iter().map(|(module, others)| {
        let back = others
            .iter()
            .filter(|other| reached[*other].contains(module));
        let circle: BTreeSet<&str> = back.copied().collect();
        let owners = circle.iter().map(|module| {
            let owner = shared.get(*module).map(String::as_str);
            owner
                .filter(|owner| circle.contains(owner))
                .unwrap_or(*module)
        });
        owners.collect::<BTreeSet<_>>()
    });
    circles.max_by_key(BTreeSet::len).unwrap_or_default()
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

/// Returns the faults of numbers: each is at most `most`, or at most its number in `exceptions`. An
/// exception that is not necessary is a fault, too.
fn faults_of(
    numbers: &BTreeMap<String, usize>,
    most: usize,
    exceptions: &[(&str, usize)],
) -> Vec<String> {
    let allowed: BTreeMap<&str, usize> = exceptions.iter().copied().collect();
    let over = numbers.iter().filter_map(|(name, number)| {
        let most = allowed.get(name.as_str()).copied().unwrap_or(most);
        (*number > most).then(|| format!("{name}: {number}, at most {most} are allowed"))
    });
    let needless = exceptions.iter().filter_map(|(name, allowed)| {
        let number = numbers.get(*name).copied().unwrap_or_default();
        (number <= most)
            .then(|| format!("{name}: {number} instead of {allowed}, remove its exception"))
    });
    over.chain(needless).collect()
}

#[test]
fn a_folder_has_few_entries() {
    let Some(files) = committed() else { return };
    let mut entries: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let mut rest = file.as_str();
        while let Some((folder, entry)) = rest.rsplit_once('/') {
            entries.entry(folder.to_owned()).or_default().insert(entry);
            rest = folder;
        }
    }
    // A new crate is a folder in `crates`.
    entries.remove("crates");
    assert!(entries.len() > 100, "only {} folders", entries.len());
    let numbers = entries
        .into_iter()
        .map(|(folder, inside)| (folder, inside.len()));
    let faults = faults_of(&numbers.collect(), ENTRIES_MAX, FULL_FOLDERS);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn few_files_import_each_other_in_a_circle() {
    let Some(files) = committed() else { return };
    let crates = files.iter().filter_map(|file| {
        let name = file.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then_some(name)
    });
    let mut numbers = BTreeMap::new();
    let mut circles = Vec::new();
    for name in crates {
        let sources = sources_of(name, &files);
        let (imports, shared) = (imports(&sources), shared_impls(&sources));
        let circle = largest_circle(&imports, &shared);
        numbers.insert(name.to_owned(), circle.len());
        circles.extend((circle.len() > CIRCLE_MAX).then(|| format!("{name}: {circle:?}")));
    }
    assert!(numbers.len() > 20, "only {} crates", numbers.len());
    let faults = faults_of(&numbers, CIRCLE_MAX, LARGER_CIRCLES);
    assert!(faults.is_empty(), "{faults:#?}\n{}", circles.join("\n"));
}

#[test]
fn exceptions_are_only_for_what_exceeds_a_bound() {
    let numbers = [("a", 12), ("b", 13), ("c", 15), ("d", 11)];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), number));
    let faults = faults_of(&numbers.into(), 12, &[("c", 14), ("d", 13), ("e", 13)]);
    let names: Vec<&str> = faults.iter().map(|fault| &fault[..1]).collect();
    assert_eq!(names, ["b", "c", "d", "e"]);
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
    let shared = BTreeMap::new();
    let circle = largest_circle(&imports, &shared);
    assert!(circle.into_iter().eq(["a", "b", "b::inner"]));
}

#[test]
fn files_of_one_impl_count_once() {
    let source = |module: &str, text: &str| (module.to_owned(), format!("//! A file.\n\n{text}"));
    let sources = [
        source("", "mod hub;\n"),
        source(
            "hub",
            "use crate::{a::A, b::B, c::C};\n\npub struct Hub<H> {}\n",
        ),
        source("a", "use crate::hub::Hub;\n\nimpl<H: Into<A>> Hub<H> {}\n"),
        source("b", "use crate::hub::Hub;\n\nimpl Hub<u8> {}\n"),
        source("c", "use crate::hub::Hub;\n\nimpl From<C> for Hub<u8> {}\n"),
    ];
    let (imports, shared) = (imports(&sources), shared_impls(&sources));
    assert!(shared.keys().eq(["a", "b"]), "{shared:?}");
    assert!(
        largest_circle(&imports, &shared)
            .into_iter()
            .eq(["c", "hub"])
    );
}
