//! Apache ZooKeeper and its Java client, downloaded by Maven.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{fetch, find_tool};
use crate::foreign::prepare;
use crate::layout::source_dir;
use crate::skip::Missing;

/// Returns the class path of Apache ZooKeeper 3.9.5, server and client, and of Curator 5.9.
///
/// # Errors
/// [`Missing`] if there is no JDK or Maven, or Maven could not download the jars.
pub fn apache_class_path() -> Result<String, Missing> {
    class_path("apache", &source_dir("java").join("pom.xml"))
}

/// Returns the class path of Apache ZooKeeper 3.8, for ensembles of mixed versions.
///
/// # Errors
/// Under the conditions of [`apache_class_path`].
pub fn apache_3_8_class_path() -> Result<String, Missing> {
    class_path("apache-3.8", &source_dir("java").join("pom-3.8.xml"))
}

/// Returns the class path of JUnit 5 and its launcher.
///
/// # Errors
/// Under the conditions of [`apache_class_path`].
pub fn junit_class_path() -> Result<String, Missing> {
    class_path("junit", &source_dir("java").join("pom-junit.xml"))
}

/// Returns the jar with the sources of Curator's examples.
///
/// # Errors
/// Under the conditions of [`apache_class_path`].
pub fn curator_examples() -> Result<String, Missing> {
    class_path(
        "curator-examples",
        &source_dir("java").join("pom-examples.xml"),
    )
}

/// Returns the class path of the tests of Curator's recipes and of their harness.
///
/// # Errors
/// Under the conditions of [`apache_class_path`].
pub fn curator_tests() -> Result<String, Missing> {
    class_path("curator-tests", &source_dir("java").join("pom-harness.xml"))
}

/// Returns the jars of all dependencies of `pom`, in the directory of this name.
fn class_path(name: &str, pom: &PathBuf) -> Result<String, Missing> {
    java_tool("java")?;
    let maven = find_tool("mvn")?;
    let dir = prepare(name, std::slice::from_ref(pom), |dir| {
        let mut command = Command::new(&maven);
        command
            .current_dir(dir)
            .args(["--quiet", "--batch-mode", "--file"])
            .arg(pom)
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", dir.display()));
        fetch(&mut command)
    })?;
    // A wildcard would suffice for java itself, but other tools require the names of the jars.
    let mut jars: Vec<PathBuf> = std::fs::read_dir(&dir)
        .map_err(|error| Missing(format!("{}: {error}", dir.display())))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jar"))
        .collect();
    jars.sort();
    let jars: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
    Ok(jars.join(":"))
}

/// Returns the path of a tool of the JDK (`java`, `javac`).
///
/// # Errors
/// [`Missing`] if neither `JAVA_HOME` nor `PATH` contains it.
pub fn java_tool(name: &str) -> Result<PathBuf, Missing> {
    let home = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin").join(name));
    match home {
        Some(tool) if tool.is_file() => Ok(tool),
        _ => find_tool(name),
    }
}
