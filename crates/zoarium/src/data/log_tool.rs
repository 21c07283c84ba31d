//! `zoarium log`: prints, checks, cuts and repairs transaction logs of Java and of Zoarium.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use datadir::log::repair::{self, BadChecksums, RecordFix, WrittenCopy};
use datadir::log::{self, LogReport, Printed};
use jute::Limits;
use proto::Zxid;
use storage::{RealDisk, StorageError};

use crate::tool::output::write_stdout;
use crate::tool::{LimitArgs, ToolError, number, parse_zxid};

/// Without an option, the command prints every transaction.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium log --verify zoarium-data/version-2")]
pub(crate) struct LogArgs {
    /// Log files, or data directories; all logs of a directory are used
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Verifies the files and prints their damage, instead of the transactions
    #[arg(long, conflicts_with_all = ["chop", "repair"])]
    verify: bool,
    /// Writes a copy, `chopped.NAME`, that ends with this zxid
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid, conflicts_with = "repair")]
    chop: Option<Zxid>,
    /// Writes a copy, `repaired.NAME`, with all records that are intact or can be repaired with certainty
    #[arg(long)]
    repair: bool,
    /// Recalculates wrong checksums, although the data of these records may be wrong. Without this option,
    /// the copy ends before the first record with a wrong checksum
    #[arg(long, requires = "repair")]
    accept_checksums: bool,
    /// Replaces the log with the copy and keeps the original as `damaged.NAME`; the server must be stopped
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command. The exit code is 1 if `--verify` finds a fault, or if a printed log ends with
/// an incomplete record or an impossible length. After an error, it is the code of the error.
pub(crate) fn run(args: &LogArgs) -> ExitCode {
    let done = if args.chop.is_some() || args.repair {
        copy(args)
    } else if args.replace {
        Err(ToolError::Usage(
            "--replace requires --chop or --repair".to_owned(),
        ))
    } else if args.verify {
        write_stdout(|out| verify(args, out))
    } else {
        write_stdout(|out| print(args, out))
    };
    done.unwrap_or_else(|error| error.report("log"))
}

/// Returns the files that the arguments name. Files in a directory are in zxid order.
fn files(args: &LogArgs) -> Result<Vec<PathBuf>, ToolError> {
    let mut files = Vec::new();
    for path in &args.paths {
        files.extend(log::files_of(&RealDisk, path)?);
    }
    Ok(files)
}

fn print(args: &LogArgs, out: &mut dyn Write) -> Result<ExitCode, ToolError> {
    let files = files(args)?;
    let mut code = ExitCode::SUCCESS;
    for path in &files {
        if files.len() > 1 {
            writeln!(out, "{}:", path.display())?;
        }
        let end = log::print(&RealDisk, path, args.limits.limits(), out)?;
        if end != Printed::End {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn verify(args: &LogArgs, out: &mut dyn Write) -> Result<ExitCode, ToolError> {
    let mut is_good = true;
    let mut before: Option<(PathBuf, Zxid)> = None;
    for path in files(args)? {
        let report = match log::verify(&RealDisk, &path, args.limits.limits()) {
            Ok(report) => report,
            Err(error @ StorageError::LogHeader { .. }) => {
                writeln!(out, "{error}")?;
                is_good = false;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        write_report(&path, &report, out)?;
        is_good &= report.is_good();
        if let (Some((earlier, last)), Some(first)) = (&before, report.first)
            && log::is_gap(*last, first)
        {
            is_good = false;
            let (path, earlier) = (path.display(), earlier.display());
            writeln!(
                out,
                "{path}: transactions are missing, because this log begins with zxid {first} but {earlier} ends with {last}"
            )?;
        }
        before = report.last.map(|last| (path, last)).or(before);
    }
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write_report(path: &Path, report: &LogReport, out: &mut dyn Write) -> std::io::Result<()> {
    let path = path.display();
    let verdict = if report.is_good() { "good" } else { "damaged" };
    let range = match (report.first, report.last) {
        (Some(first), Some(last)) => format!(", zxid {first} to {last}"),
        _ => String::new(),
    };
    let records = number(report.records, "record");
    let (end, file_bytes) = (report.end, report.file_bytes);
    writeln!(
        out,
        "{path}: {verdict}: {records}{range}, {end} of {file_bytes} bytes used"
    )?;
    if let Some(offset) = report.torn_at {
        writeln!(
            out,
            "{path}: an incomplete record begins at offset {offset}, as after a crash; the record was not acknowledged"
        )?;
    }
    for (offset, damage) in &report.faults {
        writeln!(out, "{path}: offset {offset}: {damage}")?;
    }
    for (last, next) in &report.gaps {
        writeln!(
            out,
            "{path}: transactions are missing between zxid {last} and {next}"
        )?;
    }
    Ok(())
}

/// Writes a cut or repaired copy of a single log. With `--replace`, also replaces the log with the
/// copy.
fn copy(args: &LogArgs) -> Result<ExitCode, ToolError> {
    let [path] = args.paths.as_slice() else {
        return Err(ToolError::Usage(
            "--chop and --repair require one log file".to_owned(),
        ));
    };
    if path.is_dir() {
        let dir = path.display();
        return Err(ToolError::Usage(format!(
            "{dir} is a directory: --chop and --repair require one log file"
        )));
    }
    let lock = args.replace.then(|| repair::lock(path)).transpose()?;
    if lock.as_ref().is_some_and(|lock| !lock.is_held()) {
        let original = path.display();
        terminal::complain!(
            "zoarium: {original} is not in a version-2 directory, so this command cannot detect a server that uses the log; such a server would lose acknowledged writes"
        );
    }
    let copied = make_copy(args, path, args.limits.limits())?;
    let replaced = lock
        .map(|lock| repair::replace(&RealDisk, path, &copied.path, &lock))
        .transpose()?;
    write_stdout(|out| write_copied(path, &copied, replaced.as_deref(), out))?;
    Ok(ExitCode::SUCCESS)
}

fn make_copy(args: &LogArgs, path: &Path, limits: Limits) -> Result<WrittenCopy, StorageError> {
    if let Some(last_kept) = args.chop {
        return repair::chop(&RealDisk, path, last_kept, limits);
    }
    let bad_checksums = if args.accept_checksums {
        BadChecksums::Accept
    } else {
        BadChecksums::Cut
    };
    repair::repair(&RealDisk, path, bad_checksums, limits)
}

fn write_copied(
    path: &Path,
    copied: &WrittenCopy,
    replaced: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let original = path.display();
    for fix in &copied.fixes {
        writeln!(out, "{original}: {}", fix_text(fix))?;
    }
    if copied.fixes.is_empty() {
        writeln!(out, "{original}: no changes are necessary")?;
    }
    let written = replaced.map_or(&*copied.path, |_| path).display();
    let records = number(copied.records, "record");
    match copied.last {
        Some(last) => writeln!(out, "{written}: written with {records} up to zxid {last}")?,
        None => writeln!(out, "{written}: written without records")?,
    }
    match replaced {
        Some(kept) => writeln!(out, "{}: kept as the original log", kept.display())?,
        None => writeln!(
            out,
            "{original} is unchanged; --replace replaces it with the copy"
        )?,
    }
    Ok(())
}

fn fix_text(fix: &RecordFix) -> String {
    match fix {
        RecordFix::Length { offset, zxid } => {
            format!(
                "offset {offset}: corrected the length of the record of zxid {zxid}; no data is lost"
            )
        }
        RecordFix::EndByte { offset, zxid } => {
            format!(
                "offset {offset}: corrected the end byte of the record of zxid {zxid}; no data is lost"
            )
        }
        RecordFix::Checksum { offset, zxid } => format!(
            "offset {offset}: recalculated the checksum of the record of zxid {zxid}; the data of this record may be wrong"
        ),
        RecordFix::Cut {
            offset,
            bytes,
            reason: Some(reason),
        } => {
            let bytes = number(bytes, "byte");
            format!("offset {offset}: {reason}; the copy omits {bytes} from this offset")
        }
        RecordFix::Cut {
            offset,
            bytes,
            reason: None,
        } => {
            let bytes = number(bytes, "byte");
            format!(
                "offset {offset}: the copy omits an incomplete record of {bytes}, as after a crash"
            )
        }
    }
}
