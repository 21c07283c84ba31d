//! Command `help` for a single command.

use super::COMMANDS;
use crate::failure::Failure;
use crate::parse::suggest::nearest;

/// Returns the help for a command.
///
/// # Errors
/// If the command does not exist.
pub(super) fn of(name: &str) -> Result<String, Failure> {
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(Failure::new(unknown(name)));
    };
    Ok(format!(
        "{}\n  {}\n  Example: {}",
        command.line(),
        command.description,
        command.example
    ))
}

/// Returns a message for an unknown command, which suggests a similar command if there is one.
pub(super) fn unknown(name: &str) -> String {
    let names = COMMANDS.iter().map(|command| command.name);
    match nearest(name, names) {
        Some(nearest) => format!("{name} is not a command; did you mean `{nearest}`?"),
        None => format!("{name} is not a command; `help` lists all commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_description_and_an_example() {
        for command in COMMANDS {
            assert!(!command.description.is_empty(), "{}", command.name);
            let example = command.example;
            assert!(example.starts_with(command.name), "{example}");
        }
        assert!(of("get").unwrap().contains("Example: get -s /app"));
        let failure = of("gett").unwrap_err();
        assert!(failure.text.contains("did you mean `get`?"));
    }
}
