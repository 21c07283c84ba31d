//! The programs of `tests/foreign`, compiled if necessary.
//!
//! Environment variables tell a program how to connect to its server, if the connection is not
//! plain:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `ZOARIUM_TEST_TLS` | over TLS; a directory with `authority.pem`, which is trusted |
//! | `ZOARIUM_TEST_KEY` | and showing the certificate of `<this>.pem` there |
//! | `ZOARIUM_TEST_LOGIN` | logging in by DIGEST-MD5, as `USER:PASSWORD` |
//!
//! Java uses properties for all of these.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::apache::{apache_class_path, java_tool};
use crate::command::{fetch, find_tool, run};
use crate::foreign::{prepare, python_with_kazoo};
use crate::layout::source_dir;
use crate::skip::Missing;

/// Time limit for a compiler on a busy machine.
const COMPILE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Compiles a main class of `tests/foreign/java` with other required classes and properties of the
/// JVM.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn java_program(
    main: &str,
    beside: &[&str],
    properties: &[(String, String)],
) -> Result<Vec<PathBuf>, Missing> {
    let class_path = apache_class_path()?;
    let compiler = java_tool("javac")?;
    let sources: Vec<PathBuf> = beside
        .iter()
        .chain([&main])
        .map(|class| source_dir("java").join(class).with_extension("java"))
        .collect();
    let classes = prepare(main, &sources, |dir| {
        let mut compile = Command::new(&compiler);
        compile.args(["-nowarn", "-cp", &class_path, "-d"]);
        built(compile.arg(dir).args(&sources));
        Ok(())
    })?;
    let logging = source_dir("java").join("logback.xml");
    let mut program = vec![
        java_tool("java")?,
        "-XX:+UseSerialGC".into(),
        "-XX:TieredStopAtLevel=1".into(),
        format!("-Dlogback.configurationFile={}", logging.display()).into(),
    ];
    let properties = properties.iter();
    program.extend(properties.map(|(key, value)| format!("-D{key}={value}").into()));
    program.extend([
        "-cp".into(),
        format!("{class_path}:{}", classes.display()).into(),
        main.into(),
    ]);
    Ok(program)
}

/// Returns the scenario with kazoo.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn kazoo_program() -> Result<Vec<PathBuf>, Missing> {
    Ok(vec![
        python_with_kazoo()?,
        source_dir("python").join("scenario.py"),
    ])
}

/// Compiles the scenario with the C client (Debian's `libzookeeper-mt-dev`).
///
/// # Errors
/// If the machine lacks a requirement.
pub fn c_program() -> Result<Vec<PathBuf>, Missing> {
    let compiler = find_tool("cc")?;
    let source = source_dir("c").join("scenario.c");
    let dir = prepare("c", std::slice::from_ref(&source), |dir| {
        // A separate probe checks for header and library, so that errors of the scenario itself are
        // not mistaken for their absence.
        let probe = dir.join("probe.c");
        std::fs::write(
            &probe,
            "#include <zookeeper/zookeeper.h>\nint main(void){return 0;}\n",
        )
        .map_err(|error| Missing(format!("{}: {error}", probe.display())))?;
        let build = |source: &Path| {
            let mut command = Command::new(&compiler);
            command.args([
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-DTHREADED",
            ]);
            command.arg(source).arg("-o").arg(dir.join("scenario"));
            command.args(["-lzookeeper_mt", "-lpthread"]);
            command
        };
        run(&mut build(&probe), COMPILE_LIMIT)
            .map_err(|failure| Missing(format!("no libzookeeper-mt-dev: {failure}")))?;
        built(&mut build(&source));
        Ok(())
    })?;
    Ok(vec![dir.join("scenario")])
}

/// Builds the scenario with go-zookeeper/zk, with the module that `go.mod` names.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn go_program() -> Result<Vec<PathBuf>, Missing> {
    let files = ["go.mod", "go.sum", "main.go", "secured.go", "talk.go"];
    Ok(vec![built_with_go(&source_dir("go"), &files)?])
}

/// Client library of a program that reads and writes registers under faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterClient {
    /// kazoo.
    Kazoo,
    /// The client of Apache ZooKeeper.
    Java,
    /// go-zookeeper/zk.
    Go,
}

/// Returns the program that reads and writes registers: `tests/foreign/python/registers.py` and its
/// versions for other clients.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn register_program(client: RegisterClient) -> Result<Vec<PathBuf>, Missing> {
    match client {
        RegisterClient::Kazoo => Ok(vec![
            python_with_kazoo()?,
            source_dir("python").join("registers.py"),
        ]),
        RegisterClient::Java => java_program("Registers", &["Talk"], &[]),
        RegisterClient::Go => Ok(vec![go_module(&source_dir("registers"))?]),
    }
}

/// Builds the program of a folder with the files `go.mod`, `go.sum` and `main.go`.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn go_module(source: &Path) -> Result<PathBuf, Missing> {
    built_with_go(source, &["go.mod", "go.sum", "main.go"])
}

/// Builds the program that renders and checks the chart of `conf/helm` as `helm` does.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn chart_renderer() -> Result<PathBuf, Missing> {
    go_module(&source_dir("helm"))
}

/// Builds the program of a folder, which is a Go module with a separate list of dependencies.
fn built_with_go(source: &Path, files: &[&str]) -> Result<PathBuf, Missing> {
    let go = find_tool("go")?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let sources: Vec<PathBuf> = files.iter().map(|file| source.join(file)).collect();
    let dir = prepare(&name, &sources, |dir| {
        let go = |arguments: &[&str]| {
            let mut command = Command::new(&go);
            command
                .current_dir(source)
                .env("GOMODCACHE", dir.join("modules"))
                .env("GOCACHE", dir.join("cache"))
                // No other toolchain is downloaded, and the downloads can be removed again.
                .env("GOTOOLCHAIN", "local")
                .env("GOFLAGS", "-modcacherw")
                .args(arguments);
            command
        };
        fetch(&mut go(&["mod", "download"]))?;
        let output = dir.join("scenario");
        built(&mut go(&[
            "build",
            "-buildvcs=false",
            // The program only runs for a moment, so a fast compilation matters more.
            "-gcflags=all=-N -l",
            "-ldflags=-s -w",
            "-o",
            &output.to_string_lossy(),
        ]));
        Ok(())
    })?;
    Ok(dir.join("scenario"))
}

/// Builds the scenario with `zookeeper-client`, a Cargo project with a separate lock file.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn rust_program() -> Result<Vec<PathBuf>, Missing> {
    let cargo =
        std::env::var_os("CARGO").map_or_else(|| find_tool("cargo"), |cargo| Ok(cargo.into()))?;
    let source = source_dir("rust");
    let inputs: Vec<PathBuf> = [
        "Cargo.toml",
        "Cargo.lock",
        "src/main.rs",
        "src/talk.rs",
        "src/secured.rs",
        "src/steps.rs",
    ]
    .map(|file| source.join(file))
    .to_vec();
    let dir = prepare("rust", &inputs, |dir| {
        let cargo = |arguments: &[&str]| {
            let mut command = Command::new(&cargo);
            command
                .current_dir(&source)
                .args(arguments)
                .env("CARGO_TARGET_DIR", dir);
            command
        };
        fetch(&mut cargo(&["fetch", "--quiet", "--locked"]))?;
        built(&mut cargo(&["build", "--quiet", "--locked", "--offline"]));
        Ok(())
    })?;
    Ok(vec![dir.join("debug/scenario")])
}

/// Returns the program with these environment variables.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn told(program: Vec<PathBuf>, variables: &[(&str, String)]) -> Result<Vec<PathBuf>, Missing> {
    if variables.is_empty() {
        return Ok(program);
    }
    let mut whole = vec![find_tool("env")?];
    let variables = variables.iter();
    whole.extend(variables.map(|(name, value)| format!("{name}={value}").into()));
    whole.extend(program);
    Ok(whole)
}

/// Runs a compiler. Its failure is an error of the tests themselves.
fn built(command: &mut Command) {
    if let Err(failure) = run(command, COMPILE_LIMIT) {
        panic!("the scenario does not compile: {failure}");
    }
}
