//! YAML documents from JSON values.
//!
//! Strings are written as in JSON, which is valid YAML. Therefore no string can be mistaken for a
//! number or a date.

use std::fmt::Write;

use serde_json::Value;

use crate::output::json;

/// Returns a value as one YAML document, which begins with `---`.
pub fn yaml(value: &Value) -> String {
    let mut out = "---\n".to_owned();
    if is_leaf(value) {
        let _ = writeln!(out, "{}", json::line(value));
    } else {
        put(value, 0, &mut out);
    }
    out
}

/// Returns whether the value fits on one line.
fn is_leaf(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

fn put(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let mut put_one = |begin: String, value: &Value| {
        if is_leaf(value) {
            let _ = writeln!(out, "{indent}{begin} {}", json::line(value));
        } else {
            let _ = writeln!(out, "{indent}{begin}");
            put(value, depth + 1, out);
        }
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                put_one(format!("{}:", json::line(&name.as_str().into())), value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| put_one("-".to_owned(), item)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::yaml;

    #[test]
    fn nested_values_are_indented() {
        let value = json!({
            "list": [], "none": null, "path": "/a: b", "rows": [{ "on": true }, 5],
            "stat": { "version": 3 },
        });
        let lines = [
            "---",
            "\"list\": []",
            "\"none\": null",
            "\"path\": \"/a: b\"",
            "\"rows\":",
            "  -",
            "    \"on\": true",
            "  - 5",
            "\"stat\":",
            "  \"version\": 3",
            "",
        ];
        assert_eq!(yaml(&value), lines.join("\n"));
        assert_eq!(yaml(&json!("no")), "---\n\"no\"\n");
        assert!(yaml(&json!("\u{9b}2J")).contains("\\u009b2J"));
    }
}
