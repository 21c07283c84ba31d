//! The committed code of the records matches their definition in `proto/history.proto`.

use std::path::Path;

#[test]
fn the_code_of_the_records_is_generated_from_their_definition() {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let definitions = manifest_dir.join("proto");
    let files = protox::compile([definitions.join("history.proto")], [&definitions]);
    let output = tempfile::tempdir().expect("a directory");
    prost_build::Config::new()
        // Buffers are shared with the source transaction, and between a block and its readers.
        .bytes(["."])
        .out_dir(output.path())
        .compile_fds(files.expect("a valid definition"))
        .expect("generated code");
    let file = output.path().join("zoarium.history.v1.rs");
    let generated = std::fs::read_to_string(file).expect("the generated file");

    let committed_file = manifest_dir.join("src/record/generated.rs");
    if std::env::var_os("ZOARIUM_BLESS").is_some() {
        std::fs::write(&committed_file, &generated).expect("write the generated code");
    }
    let committed = std::fs::read_to_string(committed_file).expect("the committed code");
    assert!(
        committed == generated,
        "src/record/generated.rs is not up to date; \
         run ZOARIUM_BLESS=1 cargo test -p zoarium-history --test generated_records"
    );
}
