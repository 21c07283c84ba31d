//! The common scenario with third-party clients, each in its own language.

mod c;
mod examples;
mod fixtures;
mod go;
mod harnesses;
mod java;
mod kazoo;
mod node;
mod rust;

/// Returns the first code block of a document in this language.
fn block(document: &str, language: &str) -> String {
    let path = tests::workspace_root().join("docs").join(document);
    let text = std::fs::read_to_string(&path).expect("a document");
    let begin = format!("```{language}\n");
    let (_, rest) = text.split_once(&begin).expect("a block in that language");
    let (block, _) = rest.split_once("```").expect("its end");
    block.to_owned()
}

/// Returns the same block, for a server at this address instead of the usual one.
fn documented(document: &str, language: &str, address: &str) -> String {
    let block = block(document, language);
    let program = block.replace("localhost:2181", address);
    assert_ne!(program, block, "{document} names another address");
    program
}
