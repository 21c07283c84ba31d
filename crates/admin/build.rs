//! Compresses the files of the console, so that the executable contains them in the form in which
//! browsers receive them.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script may wait for the disk"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Folder of the page.
const PAGE: &str = "page";
/// Folder with the script that creates the vendored files. Browsers do not need it.
const NOT_SERVED: &str = "page/vendor/bundle";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PAGE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let mut files = Vec::new();
    collect(Path::new(PAGE), &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let name = file.strip_prefix(PAGE).expect("a file of the page");
        let name = name.to_str().expect("a UTF-8 name");
        let path = match name {
            "index.html" => "/".to_owned(),
            name => format!("/console/{name}"),
        };
        let bytes = fs::read(file).expect("a readable file");
        let packed = out.join(format!("{number}.gz"));
        fs::write(&packed, gzip(&bytes)).expect("a writable OUT_DIR");
        let packed = packed.to_str().expect("a UTF-8 path");
        let hash = Sha256::digest(&bytes);
        let tag: String = hash.iter().take(8).fold(String::new(), |mut tag, byte| {
            write!(tag, "{byte:02x}").expect("a string is writable");
            tag
        });
        writeln!(
            list,
            "    Asset {{ path: {path:?}, tag: {tag:?}, length: {}, gzip: include_bytes!({packed:?}) }},",
            bytes.len()
        )
        .expect("a string is writable");
    }
    list.push_str("]\n");
    fs::write(out.join("assets.rs"), list).expect("a writable OUT_DIR");
}

/// Collects the files of a folder that browsers may request.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    if folder == Path::new(NOT_SERVED) {
        return;
    }
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if kind_is_served(&path) {
            files.push(path);
        }
    }
}

fn kind_is_served(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    kind.is_some_and(|kind| ["html", "css", "js", "svg", "txt"].contains(&kind))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory is writable");
    encoder.finish().expect("memory is writable")
}
