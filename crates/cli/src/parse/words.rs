//! Splitter of lines into words.
//!
//! Source: ZooKeeperMain.MyCommandOptions.parseCommand. Its pattern is reproduced even in unusual
//! cases. For example, a line of blanks is a command named `" "`.

/// Returns the words of a line, which are separated by blanks or enclosed in single or double
/// quotes. An unmatched quote is skipped.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let trimmed = rest.trim_start();
        let Some(first) = trimmed.chars().next() else {
            if words.is_empty() && !rest.is_empty() {
                words.push(" ".to_owned());
            }
            return words;
        };
        let is_quote = matches!(first, '"' | '\'');
        let (word, behind) = if is_quote {
            let inside = &trimmed[1..];
            match inside.split_once(first) {
                Some(parts) => parts,
                None => {
                    rest = inside;
                    continue;
                }
            }
        } else {
            let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
            trimmed.split_at(end)
        };
        words.push(word.to_owned());
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_separated_by_blanks_or_quoted() {
        assert_eq!(split("ls   /app  "), ["ls", "/app"]);
        assert_eq!(
            split(r#"create /q "two words""#),
            ["create", "/q", "two words"]
        );
        assert_eq!(split("create /q 'a \"b\"'"), ["create", "/q", "a \"b\""]);
        assert_eq!(split("set /q \"\""), ["set", "/q", ""]);
    }

    #[test]
    fn a_line_with_an_open_quote_ends() {
        assert!(split("").is_empty());
        assert_eq!(split("   "), [" "]);
        assert_eq!(split("ls \"/a"), ["ls", "/a"]);
        assert_eq!(split("'"), Vec::<String>::new());
    }
}
