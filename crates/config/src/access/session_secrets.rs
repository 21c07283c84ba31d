//! File with the secrets from which the passwords of sessions are derived.

use proto::Secret;

use crate::error::ConfigError;
use crate::registry::core as keys;
use crate::settings::{FoundSetting, WrittenSettings};
use crate::surroundings::Surroundings;

/// Parsed line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSecret {
    /// `legacy`: public formula of Apache ZooKeeper.
    Legacy,
    /// Secret from which passwords are derived.
    Secret(Secret),
}

/// Size limit of a file in bytes, as passed to [`Surroundings::read`].
const FILE_BYTES_MAX: usize = 64 << 10;
/// Number of lines above which a file is refused. Each line costs a hash per handshake.
const LINES_MAX: usize = 8;
/// Minimum number of characters of a secret. Members publish a hash of the file, so a secret must
/// be too long to be guessed.
const SECRET_CHARS_MIN: usize = 32;
/// Line that selects the public formula.
const LEGACY: &str = "legacy";

/// Reads the file, if one is configured.
///
/// # Errors
/// If the file is unreadable, is empty, or has too many lines, or if a line is too short or
/// repeated. The error does not contain a secret.
pub(crate) fn read(
    settings: &WrittenSettings,
    surroundings: &mut dyn Surroundings,
) -> Result<Vec<SessionSecret>, ConfigError> {
    let Some(found) = settings.find(&keys::SESSION_SECRET_FILE) else {
        return Ok(Vec::new());
    };
    let Some(path) = settings.path(&keys::SESSION_SECRET_FILE) else {
        return Ok(Vec::new());
    };
    let bytes = surroundings
        .read(&path, FILE_BYTES_MAX)
        .map_err(|error| found.refused(format!("{} cannot be read: {error}", path.display())))?;
    let refused = |reason: String| refusal(&found, &path.display().to_string(), &reason);
    let text = String::from_utf8(bytes).map_err(|_| refused("the file is not UTF-8".to_owned()))?;
    parse(&text).map_err(refused)
}

fn refusal(found: &FoundSetting, path: &str, reason: &str) -> ConfigError {
    found
        .refused(format!("{path}: {reason}"))
        .hint("write one secret per line, such as the output of `openssl rand -hex 32`")
}

/// Parses the lines. Ignores empty lines.
fn parse(text: &str) -> Result<Vec<SessionSecret>, String> {
    let mut secrets: Vec<SessionSecret> = Vec::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        let secret = match line {
            "" => continue,
            LEGACY => SessionSecret::Legacy,
            line if line.chars().count() < SECRET_CHARS_MIN => {
                return Err(format!(
                    "the secret in line {number} has fewer than {SECRET_CHARS_MIN} characters"
                ));
            }
            line => SessionSecret::Secret(Secret::new(line)),
        };
        if secrets.contains(&secret) {
            return Err(format!("line {number} repeats an earlier line"));
        }
        secrets.push(secret);
    }
    match secrets.len() {
        0 => Err("the file does not contain a secret".to_owned()),
        1..=LINES_MAX => Ok(secrets),
        _ => Err(format!("the file contains more than {LINES_MAX} secrets")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_secrets_or_legacy_and_faults_show_no_secret() {
        let (a, b) = ("a".repeat(32), "b".repeat(64));
        let secret = |text: &str| SessionSecret::Secret(Secret::new(text));
        let legacy = SessionSecret::Legacy;
        assert_eq!(parse(&format!("{a}\n")), Ok(vec![secret(&a)]));
        let several = parse(&format!("legacy\r\n\n {b} \n{a}"));
        assert_eq!(several, Ok(vec![legacy, secret(&b), secret(&a)]));
        let many: String = ('a'..='i')
            .map(|letter| letter.to_string().repeat(32) + "\n")
            .collect();
        for (text, reason) in [
            ("", "the file does not contain a secret"),
            (
                "hunter2",
                "the secret in line 1 has fewer than 32 characters",
            ),
            ("legacy\nlegacy", "line 2 repeats an earlier line"),
            (&format!("{a}\n{a}"), "line 2 repeats an earlier line"),
            (&many, "the file contains more than 8 secrets"),
        ] {
            assert_eq!(parse(text), Err(reason.to_owned()));
        }
    }
}
