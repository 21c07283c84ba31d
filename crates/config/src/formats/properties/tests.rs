use proptest::prelude::*;

use super::*;

fn pairs(text: &[u8]) -> Vec<(String, String)> {
    let parsed = Properties::parse(text).unwrap();
    let pair = |entry: &Entry| (entry.key.clone(), entry.value.clone());
    parsed.entries().iter().map(pair).collect()
}

fn one(text: &str) -> (String, String) {
    let mut pairs = pairs(text.as_bytes());
    assert_eq!(pairs.len(), 1, "{text:?} gives {pairs:?}");
    pairs.remove(0)
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn c1_separators_and_continuation_parse_identically() {
    for text in [
        "clientPort=2181",
        "clientPort: 2181",
        "clientPort 2181",
        "clientPort\t=\x0c2181",
    ] {
        assert_eq!(one(text), pair("clientPort", "2181"), "{text:?}");
    }
    assert_eq!(one("clientPort = 21\\\n    81"), pair("clientPort", "2181"));
    assert_eq!(one("client\\\r\n  Port = 2181"), pair("clientPort", "2181"));
}

#[test]
fn c2_a_hash_inside_a_value_is_data() {
    assert_eq!(one("tickTime=2000 # x"), pair("tickTime", "2000 # x"));
}

#[test]
fn c3_of_a_duplicate_key_the_last_one_wins() {
    let parsed = Properties::parse(b"a=1\nb=2\na=3\n").unwrap();
    assert_eq!(
        parsed
            .get("a")
            .map(|entry| (entry.value.as_str(), entry.line)),
        Some(("3", 3))
    );
    assert_eq!(parsed.entries().len(), 3);
}

#[test]
fn entries_know_their_lines_and_raw_keys() {
    let parsed = Properties::parse(b"# c\r\n\r\na\\u0041=1\\\r\n2\r\rb=3").unwrap();
    let lines: Vec<_> = parsed
        .entries()
        .iter()
        .map(|e| (e.raw_key.as_str(), e.line, e.last_line))
        .collect();
    assert_eq!(lines, [("a\\u0041", 3, 4), ("b", 6, 6)]);
}

#[test]
fn a_malformed_escape_names_its_line_and_key() {
    let error = Properties::parse(b"a=1\nb=\\u12\n").unwrap_err();
    let expected = PropertiesError::MalformedUnicode {
        line: 2,
        raw_key: "b".to_owned(),
    };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "Malformed \\uxxxx encoding.");
}

#[test]
fn bytes_are_iso_8859_1() {
    assert_eq!(
        pairs(b"k=\xe9\\u20ac\\uD83D\\uDE00"),
        [pair("k", "\u{e9}\u{20ac}\u{1f600}")]
    );
}

#[test]
fn more_than_the_limit_is_refused() {
    let error = Properties::parse(&vec![b'#'; MAX_BYTES + 1]).unwrap_err();
    assert_eq!(error, PropertiesError::TooLong { len: MAX_BYTES + 1 });
}

/// Results of java.util.Properties for manual and random inputs. Each line contains the input in
/// hex, followed by key=value pairs in hex UTF-16 or by `malformed`.
#[test]
fn the_recorded_cases_parse_as_in_java() {
    let golden = include_str!("../../../tests/golden/properties.txt");
    let mut cases = 0;
    for line in golden.lines() {
        let mut words = line.split(' ');
        let input = hex_bytes(words.next().unwrap());
        let expected: Vec<&str> = words.collect();
        match Properties::parse(&input) {
            Ok(parsed) => assert_eq!(java_dump(&parsed), expected, "{input:?}"),
            Err(error) => assert_eq!(expected, ["malformed"], "{input:?}: {error}"),
        }
        cases += 1;
    }
    assert!(cases > 600, "only {cases} recorded cases");
}

fn hex_bytes(hex: &str) -> Vec<u8> {
    let digits = if hex == "-" { "" } else { hex };
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn java_dump(parsed: &Properties) -> Vec<String> {
    let hex = |text: &str| match text {
        "" => "-".to_owned(),
        // Java preserves an unpaired surrogate. The only such surrogate in the recorded cases is
        // U+D800.
        "\u{fffd}" => "d800".to_owned(),
        _ => text
            .encode_utf16()
            .map(|unit| format!("{unit:04x}"))
            .collect(),
    };
    let mut last = std::collections::BTreeMap::new();
    for entry in parsed.entries() {
        last.insert(hex(&entry.key), hex(&entry.value));
    }
    last.into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Properties::parse(&bytes);
    }

    #[test]
    fn random_syntax_never_panics(text in "[ab=: \t\x0c\r\n\\\\#!u0-9]{0,60}") {
        let _ = Properties::parse(text.as_bytes());
    }

    #[test]
    fn escaped_keys_and_values_round_trip(key in "\\PC{1,12}|[ \\t=:#!\\\\\\n\\r]{1,6}", value in "(?s).{0,20}") {
        let line = format!("{}={}", escape_key(&key), escape_value(&value));
        prop_assert_eq!(pairs(line.as_bytes()), [(key, value)]);
    }
}
