//! The command `zoarium history export`: changes as protobuf, for other languages.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ::cli::check_path;
use bytes::Bytes;
use clap::Args;
use client::admin::{AdminClient, AdminError, PROTOBUF, SILENCE_LIMIT, unreachable};
use history::{HistoryQuery, Reader, Viewer};
use http_body_util::{BodyExt, Limited};
use prost::Message;

use super::source::{Parameters, PlaceArgs, Source};
use crate::tool::{ToolError, file_error};

/// Name of the admin server's command.
const EXPORT: &str = "history/export";
/// Header with the start of the next page. The last page lacks this header.
const NEXT: &str = "x-history-next";
/// Maximum size of an accepted page, bytes. One change with the znode before and after it always
/// fits.
const PAGE_BYTES_MAX: usize = 256 << 20;

/// Writes changes as protobuf messages (ExportedChange of history.proto), each preceded by its length as a
/// varint
///
/// The oldest change comes first. The command reads the files of a stopped server, or queries a running
/// server. With several servers, it uses only the first server that answers.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Top of the subtree
    #[arg(default_value = "/", value_parser = check_path)]
    path: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Includes password hashes in ACLs, and the member list; on a running server, only super users see
    /// them
    #[arg(long)]
    show_secrets: bool,
    /// Output file, instead of standard output; it appears when it is complete
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Prints history.proto instead of changes
    #[arg(long)]
    definition: bool,
}

pub(super) fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    if args.definition {
        return Ok(out.write_all(history::record::DEFINITION.as_bytes())?);
    }
    match &args.to {
        None => write(args, out),
        Some(path) => write_file(path, |out| write(args, out)),
    }
}

/// Creates or replaces a file with the output of `write`. If this fails, the file is unchanged, and
/// no other file remains.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let file = blocking::files::create(&unfinished).map_err(file_error("create", &unfinished))?;
    let mut out = BufWriter::new(file);
    let written = write(&mut out).and_then(|()| {
        let file = out.into_inner().map_err(io::Error::from)?;
        file.sync_all()?;
        Ok(blocking::files::replace(&unfinished, path)?)
    });
    written.map_err(|error| {
        // If the removal fails, the next export overwrites the file.
        let _ = fs::remove_file(&unfinished);
        match error {
            ToolError::Output(error) => file_error("write", path)(error),
            other => other,
        }
    })
}

fn write(args: &ExportArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    match args.place.open(args.show_secrets)? {
        Source::Files(reader, owner) => write_files(args, &reader, owner, out),
        Source::Servers(servers) => {
            let written = write_answers(args, servers.client, out);
            servers.runtime.block_on(written)
        }
    }
}

fn write_files(
    args: &ExportArgs,
    reader: &Reader,
    owner: Viewer<'static>,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let mut query = HistoryQuery::of(&args.path);
    (query.recursive, query.with_states) = (true, true);
    loop {
        let page = reader.history(&query, &owner)?;
        for change in &page.results {
            out.write_all(&change.encode_length_delimited_to_vec())?;
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(()),
        }
    }
}

async fn write_answers(
    args: &ExportArgs,
    mut client: AdminClient,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let mut after = None;
    loop {
        let parameters = Parameters::default()
            .with("path", Some(&args.path))
            .with("limit", Some(history::PAGE_RESULTS_MAX))
            .with("after", after.as_ref());
        let opened = client.open(EXPORT, &parameters.0, PROTOBUF);
        let (server, response) = opened.await?;
        let next = response.headers().get(NEXT);
        let next = next.and_then(|next| next.to_str().ok()).map(str::to_owned);
        out.write_all(&page(&server, response.into_body()).await?)?;
        if next.is_none() {
            return Ok(());
        }
        client = client.for_server(&server);
        after = next;
    }
}

async fn page<B>(server: &str, body: B) -> Result<Bytes, AdminError>
where
    B: hyper::body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collected = Limited::new(body, PAGE_BYTES_MAX).collect();
    let collected = tokio::time::timeout(SILENCE_LIMIT, collected).await;
    let collected = collected.map_err(|_| unreachable(server, &"the page is incomplete"))?;
    let collected = collected.map_err(|error| unreachable(server, &error))?;
    Ok(collected.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_export_names_its_file_and_leaves_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("changes");
        let refused = write_file(&path, |out| {
            out.write_all(b"a part")?;
            Err(io::Error::other("disk full").into())
        });
        let text = refused.unwrap_err().to_string();
        let named = path.display();
        assert_eq!(text, format!("cannot write {named}: disk full"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        write_file(&path, |out| Ok(out.write_all(b"whole")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        let missing = dir.path().join("missing/changes");
        let refused = write_file(&missing, |_| Ok(())).unwrap_err();
        assert!(
            refused.to_string().starts_with("cannot create"),
            "{refused}"
        );
    }
}
