//! Conversion of text to numbers and splitting of text, exactly as in the Java class library.
//!
//! The format of zoo.cfg and `-D` values is defined by `Integer.parseInt`, `Integer.getInteger`,
//! `String.trim` and `String.split`. Rust's functions differ slightly. `getInteger` reads `010` as
//! eight, `trim` removes control characters but not other Unicode blanks, and `split` drops empty
//! parts at the end.

/// Works like `String.trim`: removes all characters up to and including U+0020 from both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// Works like `Integer.parseInt` and `Long.parseLong`: an optional sign and decimal digits.
///
/// `None` corresponds to Java's `NumberFormatException`. [`bad_number`] returns its message.
pub(crate) fn parse_decimal(text: &str) -> Option<i64> {
    parse_radix(text, 10)
}

/// Works like `Integer.decode` and `Long.decode`, which `getInteger` and `getLong` use: decimal,
/// hexadecimal after `0x` or `#`, or octal after a leading zero. A sign comes before the prefix.
pub(crate) fn decode(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|p| rest.strip_prefix(p));
    let (digits, radix) = match (hexadecimal, rest.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (rest, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    parse_radix(&format!("{sign}{digits}"), radix)
}

/// Works like `Double.parseDouble`, for formats that are useful in a configuration.
pub(crate) fn parse_ratio(text: &str) -> Option<f64> {
    let text = trim(text);
    let text = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns Java's message for text that is not a number.
pub(crate) fn bad_number(text: &str) -> String {
    format!("For input string: \"{text}\"")
}

/// Works like `String.split` with a one-character separator: drops empty parts at the end.
///
/// Text without a separator is one part, even when it is empty. Text that consists only of
/// separators has no parts.
pub(crate) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(separator).collect();
    if parts.len() > 1 {
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
    }
    parts
}

fn parse_radix(text: &str, radix: u32) -> Option<i64> {
    // Java and Rust both accept a sign before at least one digit, and refuse a sign alone.
    i64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_integer_takes_hexadecimal_and_octal_as_java_does() {
        assert_eq!(decode("0x1F"), Some(31));
        assert_eq!(decode("-#ff"), Some(-255));
        assert_eq!(decode("010"), Some(8));
        assert_eq!(decode("0"), Some(0));
        assert_eq!(decode("+7"), Some(7));
        for bad in ["", "08", "0x", "1 ", " 1", "0x-1", "--1", "1k", "1_000"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn parse_int_takes_a_sign_and_digits_only() {
        assert_eq!(parse_decimal("+5"), Some(5));
        assert_eq!(parse_decimal("-0"), Some(0));
        assert_eq!(parse_decimal("010"), Some(10));
        for bad in ["", "+", "0x10", "1 2", "2000 # x", "99999999999999999999"] {
            assert_eq!(parse_decimal(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn split_drops_empty_parts_at_the_end_only() {
        assert_eq!(split("a;;b;;", ';'), ["a", "", "b"]);
        assert_eq!(split("", ';'), [""]);
        assert!(split(";;", ';').is_empty());
        assert_eq!(split(";a", ';'), ["", "a"]);
    }

    #[test]
    fn trim_removes_control_characters_but_not_other_blanks() {
        assert_eq!(trim("\t\u{1} a b \n"), "a b");
        assert_eq!(trim("\u{a0}x"), "\u{a0}x");
    }

    #[test]
    fn ratios_may_carry_javas_type_letter() {
        assert_eq!(parse_ratio(" 0.33f "), Some(0.33));
        assert_eq!(parse_ratio("-1"), Some(-1.0));
        assert_eq!(parse_ratio("NaN"), None);
        assert_eq!(parse_ratio("half"), None);
    }
}
