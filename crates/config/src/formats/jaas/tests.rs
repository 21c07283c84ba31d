//! Tests with files that were also parsed by the JavaLoginConfig of JDK 17.

use super::*;

fn parse(text: &str) -> Result<JaasFile, String> {
    let mut properties = SystemProperties::new();
    properties.define("the test", "user.name=root");
    let parsed = JaasFile::parse("jaas.conf".as_ref(), text.as_bytes(), &properties);
    parsed.map_err(|error| error.to_string())
}

fn options(text: &str) -> Vec<(String, String)> {
    let file = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let section = file.section("Server").unwrap();
    let options = section.modules[0].options.iter();
    options
        .map(|(key, value)| (key.clone(), value.expose().to_owned()))
        .collect()
}

#[test]
fn values_equal_javas() {
    for (written, key, value) in [
        (r#"user_x="p""#, "user_x", "p"),
        ("user_x=p12", "user_x", "p12"),
        ("user_x=true", "user_x", "true"),
        (r#""user_x@y"="p""#, "user_x@y", "p"),
        (r#"user_x="a\"b\\c\n\101\q""#, "user_x", "a\"b\\c\nAq"),
        (r#"user_x="\477""#, "user_x", "'7"),
        (r#"user_x="${user.name}""#, "user_x", "root"),
        (
            r#"user_x="a${user.name}b${user.name}""#,
            "user_x",
            "arootbroot",
        ),
        (r#"user_x="""#, "user_x", ""),
        (r#"user_x="a$b{c}""#, "user_x", "a$b{c}"),
        (r#"user_x="a${""#, "user_x", "a${"),
        (r#"user_x="${/}""#, "user_x", "/"),
        (r#"user_x="${{alias}}x""#, "user_x", "${{alias}}x"),
        (r#"user_x="p" user_x="q""#, "user_x", "q"),
        ("user_x=a/b\n", "user_x", "a"),
        ("user_\u{fc}=\"\u{fc}\"", "user_\u{fc}", "\u{fc}"),
        ("user_\u{4e2d}=\u{4e2d}", "user_\u{4e2d}", "\u{4e2d}"),
        (r#"user_a.b="x""#, "user_a.b", "x"),
        ("user_a-b=x-y*z$", "user_a-b", "x-y*z$"),
        (r#"user_1 = "p" "#, "user_1", "p"),
        ("user_x=*p", "user_x", "*p"),
        ("user_x=\"a\tb\"", "user_x", "a\tb"),
    ] {
        let text = format!("// c\n/* d\n* / */ Server {{ a.B REQUIRED {written}; }};");
        assert_eq!(
            options(&text),
            [(key.to_owned(), value.to_owned())],
            "{written}"
        );
    }
}

#[test]
fn sections_and_modules_are_told_apart() {
    let file = parse(
        "\"A b\" { x.Y required; z.Z optional o=p; };\nEmpty { };\n/ hidden\nC { c.C sufficient; } ;",
    );
    let file = file.unwrap();
    let first = file.section("A b").unwrap();
    let classes: Vec<_> = first.modules.iter().map(ToString::to_string).collect();
    assert_eq!(classes, ["x.Y", "z.Z"]);
    assert_eq!(file.section("C").unwrap().line, 4);
    // An empty section is ignored.
    assert!(file.section("Empty").is_none() && file.section("D").is_none());
    assert_eq!(file.names().collect::<Vec<_>>(), ["A b", "Empty", "C"]);
    assert_eq!(parse("").unwrap().names().count(), 0);
}

/// Invalid files, each with the line of its error and a part of the message.
const FAULTS: &[(&str, u32, &str)] = &[
    ("Server { a.B required user_x=12; };", 1, "requires quotes"),
    ("Server { a.B required user_x=.p; };", 1, "requires quotes"),
    ("Server { a.B required user_x=-p; };", 1, "requires quotes"),
    (
        "Server { a.B required user_x='secret'; };",
        1,
        "the value of the option, found '\\''",
    ),
    (
        "Server {\n a.B required user_x=\"secret; };",
        2,
        "the quote is not closed",
    ),
    (
        "Server { a.B required user_x=\"secret\n\"; };",
        1,
        "the quote is not closed",
    ),
    (
        "Server { a.B required user_x=\"${nosuch}\"; };",
        1,
        "the system property \"nosuch\" is not set",
    ),
    (
        "Server { a.B sometimes user_x=\"secret\"; };",
        1,
        "expected required, requisite",
    ),
    (
        "Server { a.B required user_x=\"secret\"; }\n",
        2,
        "expected ';', found the end",
    ),
    (
        "Server { a.B required user_x=\"secret\" };",
        1,
        "or ; after the last one, found '}'",
    ),
    (
        "S { a.B required; };\nS { a.B required; };",
        2,
        "two sections \"S\"",
    ),
    (
        "# e\nServer { a.B required; };",
        1,
        "the name of a section, found '#'",
    ),
    (
        "Server { a.B required user_a:b=\"x\"; };",
        1,
        "expected '=', found ':'",
    ),
    ("Server { a.B required, user_x=\"p\"; };", 1, "found ','"),
    (
        "; Server { a.B required; };",
        1,
        "the name of a section, found ';'",
    ),
    ("Server", 1, "expected '{', found the end"),
    (
        "Server { a.B required; }; secret",
        1,
        "expected '{', found the end",
    ),
    ("Server { 1a.B required; };", 1, "requires quotes"),
    (
        "Server { = required; };",
        1,
        "the class of a login module, found '='",
    ),
    (
        "Server { a.B required user_x; };",
        1,
        "expected '=', found ';'",
    ),
    (
        "Server { a.B required user_x=secret secret secret; };",
        1,
        "expected '=', found a word",
    ),
    ("Server { a.B", 1, "found the end of the file"),
    (
        "Server /* { a.B required; };",
        1,
        "expected '{', found the end",
    ),
];

#[test]
fn every_fault_has_its_line_and_shows_no_password() {
    for (text, line, part) in FAULTS {
        let error = parse(text).expect_err(text);
        assert!(
            error.starts_with(&format!("jaas.conf:{line}: ")),
            "{text}: {error}"
        );
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
