//! The command `zoarium config`, which checks a zoo.cfg, explains a setting, and shows the
//! effective settings.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use config::explain::{EffectLine, Explanation, explain};
use config::{Effective, Origin, ValueSource};
use preflight::judge;
use serde_json::{Value, json};

use crate::embedded::ThisMachine;
use crate::setup::findings::{self, DefinitionArgs, environment};
use crate::tool::output::{Output, write_stdout};
use crate::tool::{NO_GO, ToolError};

/// Checks a zoo.cfg, explains a setting, or prints the effective values
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium config explain snapCount")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Prints all errors of a zoo.cfg, and not only the first one
    ///
    /// Only `zoarium preflight` also checks data and ports. Exit code 0 means that a server would accept the
    /// file, 1 means warnings with --strict, and 3 means that a server would refuse the file.
    Check {
        #[command(flatten)]
        file: FileArgs,
        /// Exits with code 1 if there are warnings
        #[arg(long)]
        strict: bool,
    },
    /// Explains a setting; its name may be the name in zoo.cfg or the name of the system property
    Explain {
        /// Name of the setting
        key: String,
        /// Form of the output
        #[arg(long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Prints the effective value and the origin of every setting; secrets are masked
    Effective(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// The zoo.cfg; the command also reads flags from java.env and zookeeper-env.sh in the same directory,
    /// and from SERVER_JVMFLAGS and JVMFLAGS
    #[arg(value_name = "ZOO.CFG")]
    config: PathBuf,
    #[command(flatten)]
    definitions: DefinitionArgs,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> ExitCode {
    let done = match &args.command {
        ConfigCommand::Check { file, strict } => check(file, *strict),
        ConfigCommand::Explain { key, output } => explained(key, *output),
        ConfigCommand::Effective(file) => effective(file),
    };
    done.unwrap_or_else(|error| error.report("config"))
}

/// Advice for a new user of the admin port.
const NO_ADMINISTRATOR: &str = "administration: the default ACL of / does not name an \
    administrator; `zoarium admin-token` writes a credential for the admin port and the console";

fn check(file: &FileArgs, is_strict: bool) -> Result<ExitCode, ToolError> {
    let path = &file.config;
    let flags = preflight::gather(path, &file.definitions.definitions, &environment);
    let examined = config::examine(path, flags.properties.clone(), &mut ThisMachine);
    let has_no_administrator = examined.config.as_ref().is_some_and(|config| {
        let auth = &config.auth;
        let has_super = auth.super_digest.is_some() || !auth.super_users.is_empty();
        config.admin.is_enabled && !has_super && auth.x509_super_user.is_none()
    });
    let of_config = examined.findings.into_iter().map(|one| flags.placed(one));
    let all = flags.findings.iter().cloned().chain(of_config).collect();
    let report = judge(path, all, None);
    write_stdout(|out| match file.output {
        Output::Table => {
            findings::write_text(&report, out)?;
            if has_no_administrator {
                writeln!(out, "{NO_ADMINISTRATOR}")
            } else {
                Ok(())
            }
        }
        form => {
            let value = findings::as_json(&report);
            form.write_object(&value, format_args!("{value:#}"), out)
        }
    })?;
    Ok(findings::exit_code(report.verdict, is_strict))
}

fn explained(key: &str, output: Output) -> Result<ExitCode, ToolError> {
    let found = explain(key).map_err(|unknown| {
        ToolError::NotFound(match unknown.nearest {
            Some(nearest) => format!("{key} is not a setting; did you mean {nearest}?"),
            None => format!("{key} is not a setting, and no setting has a similar name"),
        })
    })?;
    write_stdout(|out| match output {
        Output::Table => write_explanation(&found, out),
        form => {
            let value = explanation_json(&found);
            form.write_object(&value, format_args!("{value:#}"), out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_explanation(found: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", found.name, found.meaning)?;
    let mut row = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => writeln!(out, "  {name:10} {value}"),
    };
    row("written", found.written)?;
    row("property", &found.properties.join(", "))?;
    row("values", &found.values)?;
    row("unit", found.unit)?;
    row("default", found.default.as_deref().unwrap_or("none"))?;
    row("since", found.since.unwrap_or_default())?;
    for EffectLine {
        effect,
        values,
        reason,
        way_out,
    } in &found.effect
    {
        let mut text = (*effect).to_owned();
        if !values.is_empty() {
            text.push_str(&format!(" ({values})"));
        }
        if !reason.is_empty() {
            text.push_str(&format!(": {reason}"));
        }
        row("here", &text)?;
        row("instead", way_out)?;
    }
    Ok(())
}

fn explanation_json(found: &Explanation) -> Value {
    let effect = |line: &EffectLine| {
        json!({
            "fate": line.effect,
            "values": line.values,
            "reason": line.reason,
            "way_out": line.way_out,
        })
    };
    json!({
        "name": found.name,
        "meaning": found.meaning,
        "written": found.written,
        "properties": found.properties,
        "values": found.values,
        "unit": found.unit,
        "default": found.default,
        "since": found.since,
        "fate": found.effect.iter().map(effect).collect::<Vec<_>>(),
    })
}

fn effective(file: &FileArgs) -> Result<ExitCode, ToolError> {
    let path: &Path = &file.config;
    let flags = preflight::gather(path, &file.definitions.definitions, &environment);
    let rows = match config::effective(path, flags.properties.clone(), &mut ThisMachine) {
        Ok(rows) => rows,
        Err(error) => {
            terminal::complain!(
                "zoarium config: no values are effective because a server refuses this configuration: {error}"
            );
            return Ok(ExitCode::from(NO_GO));
        }
    };
    write_stdout(|out| match file.output {
        Output::Table => rows.iter().try_for_each(|row| write_row(row, out)),
        form => {
            let rows = Value::from(rows.iter().map(row_json).collect::<Vec<Value>>());
            form.write_object(&rows, format_args!("{rows:#}"), out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `name=value`, followed by the origin of the value.
fn write_row(row: &Effective, out: &mut dyn Write) -> io::Result<()> {
    let value = row.value.as_deref().unwrap_or_default();
    write!(
        out,
        "{}={}  # {}",
        row.name,
        findings::printable(value),
        row.place
    )?;
    match &row.written {
        Some(written) => writeln!(out, ": {}", findings::printable(written)),
        None => writeln!(out),
    }
}

fn row_json(row: &Effective) -> Value {
    let (place, origin) = match &row.place {
        ValueSource::Written(origin) => ("written", Some(origin)),
        ValueSource::Corrected(origin) => ("corrected", Some(origin)),
        ValueSource::Default => ("default", None),
    };
    let (file, line) = match origin {
        Some(Origin::File { path, line }) => (Some(path.display().to_string()), *line),
        _ => (None, None),
    };
    let flags = match origin {
        Some(Origin::Flags(source)) => Some(source),
        _ => None,
    };
    json!({
        "name": row.name,
        "section": row.section.map(config::registry::Section::title),
        "value": row.value,
        "unit": row.unit,
        "place": place,
        "file": file,
        "line": line,
        "flags": flags,
        "written": row.written,
    })
}
