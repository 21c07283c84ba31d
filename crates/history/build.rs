//! Generates the records of `proto/history.proto` without requiring `protoc`.

use std::error::Error;

const DEFINITION: &str = "proto/history.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DEFINITION}");
    let definition = protox::compile([DEFINITION], ["proto"])?;
    let mut made = prost_build::Config::new();
    // `Bytes` values are shared with the source transaction, and between a block and its readers.
    made.bytes(["."]);
    made.compile_fds(definition)?;
    Ok(())
}
