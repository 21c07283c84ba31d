//! A call shows the meaning of each value, and a branch on a flag is an `if`.
//!
//! A tuple as a parameter hides which value is which: two parameters with names, or a struct, show
//! it. Closures may take tuples apart, because iterators pass them.

use super::{committed, rust_files};

/// Replaces comments, strings and characters by blanks, so that only code is left. Line breaks
/// stay.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => string_len(rest, 0),
            'r' if !is_word => raw_string_len(rest),
            'b' if !is_word && rest.starts_with("br") => match raw_string_len(&rest[1..]) {
                0 => 0,
                len => 1 + len,
            },
            '\'' => character_len(rest),
            _ => 0,
        };
        if len == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (blank, behind) = rest.split_at(len);
        code.extend(blank.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = behind;
    }
    code
}

/// Returns the length of the string that begins with the quote at `start`.
fn string_len(text: &str, start: usize) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at <= start) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Returns the length of a raw string, or 0 if the text does not begin with one.
fn raw_string_len(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    let begin = 1 + hashes;
    if !text[begin..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let len = text[begin + 1..].find(&end);
    len.map_or(text.len(), |at| begin + 1 + at + end.len())
}

/// Returns the length of a character, or 0 for a lifetime.
fn character_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[2..].find('\'').map_or(0, |at| {
            // The escaped character may be the quote.
            if at == 0 { 4 } else { 2 + at + 1 }
        }),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

/// Returns the text up to the bracket that closes the one before it, and the text after that.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// Splits declarations at the commas outside of brackets. An arrow does not close a bracket.
fn at_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin, mut before) = (Vec::new(), 0, 0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(text[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn line_of(code: &str, rest: &str) -> usize {
    code[..code.len() - rest.len()].matches('\n').count() + 1
}

/// Returns the text after the type parameters at its beginning.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ if depth == 0 => return &text[at..],
            _ => {}
        }
        before = c;
    }
    ""
}

fn is_tuple(kind: &str) -> bool {
    let mut kind = kind.trim();
    while let Some(inner) = kind.strip_prefix('&') {
        kind = inner.trim_start();
        if let Some(lifetime) = kind.strip_prefix('\'') {
            kind = lifetime.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            kind = kind.trim_start();
        }
        kind = kind.strip_prefix("mut ").unwrap_or(kind).trim_start();
    }
    let parts = kind.strip_prefix('(').and_then(bracketed);
    parts.is_some_and(|(inner, behind)| {
        // `(impl A + B)` is not a tuple, and `()` stands for nothing.
        behind.is_empty() && inner.trim_end().ends_with(',') || at_commas(inner).len() > 1
    })
}

/// Returns the lines and texts of the parameters that are tuples.
fn tuple_parameters(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("fn ") {
        let is_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at + 3..];
        let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        if is_word || name.len() == rest.len() {
            continue;
        }
        let begin = after_generics(name);
        let Some((parameters, _)) = begin.strip_prefix('(').and_then(bracketed) else {
            continue;
        };
        for parameter in at_commas(parameters) {
            let Some((pattern, kind)) = parameter.split_once(": ") else {
                continue;
            };
            if pattern.starts_with('(') && at_commas(&pattern[1..]).len() > 1 || is_tuple(kind) {
                let text: Vec<&str> = parameter.split_whitespace().collect();
                found.push((line_of(code, rest), text.join(" ")));
            }
        }
    }
    found
}

/// Returns the text from the first comma outside of brackets on.
fn after_expression(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    end.map_or("", |at| &text[at..])
}

/// Returns the patterns of the arms of a match.
fn patterns(mut arms: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    while let Some(at) = arms.find("=>") {
        found.push(arms[..at].trim());
        arms = arms[at + 2..].trim_start();
        arms = match arms.strip_prefix('{') {
            Some(block) => bracketed(block)?.1,
            None => after_expression(arms),
        };
        arms = arms.trim_start();
        arms = arms.strip_prefix(',').unwrap_or(arms);
    }
    Some(found)
}

/// Returns the lines of the matches whose arms are only `true` and `false`, and at most `_`.
fn flag_matches(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("match ") {
        let is_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at + 6..];
        let body = rest.split_once('{').and_then(|(_, body)| bracketed(body));
        let Some(patterns) = body.and_then(|(arms, _)| patterns(arms)) else {
            continue;
        };
        let is_flag = |pattern: &&str| {
            let pattern = pattern.split(" if ").next().unwrap_or_default().trim();
            pattern == "true" || pattern == "false"
        };
        let is_any = |pattern: &&str| pattern.split(" if ").next().is_some_and(|it| it == "_");
        let is_whole = patterns.iter().all(|one| is_flag(one) || is_any(one));
        if !is_word && is_whole && patterns.iter().any(is_flag) {
            found.push(line_of(code, rest));
        }
    }
    found
}

#[test]
fn tuples_as_parameters_are_found() {
    let code = code_of(
        r#"
fn pairs((a, b): (u8, u8), c: &mut (u8, Vec<u8>)) {}
fn generic<F: Fn(u8) -> u8>(f: F, t: &'a (u8, u8)) -> (u8, u8) {}
// fn comment(t: (u8, u8)) {}
fn nothing((): (), text: &str, f: impl FnOnce((u8, u8)) -> (u8, u8), s: &mut (impl A + B)) {
    let text = "fn string(t: (u8, u8))";
    list.map(|(a, b): (u8, u8)| a);
}
fn structs(Pair { a, b }: Pair, Wrapped((a, b)): Wrapped, of: Vec<(u8, u8)>, c: [(u8, char); 2]) {}
"#,
    );
    let found = tuple_parameters(&code);
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 2, 3], "{found:?}");
}

#[test]
fn matches_on_flags_are_found() {
    let code = code_of(
        "
match flag { true => 1, false => f(2, 3) }
match flag {
    _ if early() => {}
    true => { match other { Some(_) => {} None => {} } }
    false => {}
}
match (flag, other) { (true, _) => 1, _ => 2 }
match value { Value::Bool(true) => 1, _ => 2 }
match text { \"true\" => 1, _ => '\\'' }
match flag { true if is_late => 1, _ => 2 }
",
    );
    assert_eq!(flag_matches(&code), [2, 3, 11]);
}

#[test]
fn parameters_have_names_and_flags_have_branches() {
    let Some(files) = committed() else { return };
    let mut faults = Vec::new();
    for (file, text) in rust_files(&files) {
        let code = code_of(&text);
        if file.starts_with("crates/") && file.contains("/src/") {
            let found = tuple_parameters(&code).into_iter();
            faults.extend(found.map(|(line, text)| format!("{file}:{line}: {text}")));
        }
        let found = flag_matches(&code).into_iter();
        faults.extend(found.map(|line| format!("{file}:{line}: a match on a flag")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
