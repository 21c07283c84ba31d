//! Suggestions for misspelt names.

/// Returns the known name that is most similar to `typed`, or `None` if no name is similar.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let far = typed.chars().count().div_ceil(2);
    let with_distance = known
        .into_iter()
        .map(|name| (distance(&typed, &name.to_lowercase()), name));
    let near = with_distance.filter(|(distance, _)| *distance <= far.clamp(1, 3));
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the minimum number of insertions, deletions and replacements that turn one string into
/// the other (Levenshtein distance).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, c) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, d) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *d);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_right_one() {
        let names = ["get", "getAcl", "ls", "create", "deleteall"];
        assert_eq!(nearest("gte", names), Some("get"));
        assert_eq!(nearest("craete", names), Some("create"));
        assert_eq!(nearest("getacl", names), Some("getAcl"));
        assert_eq!(nearest("lss", names), Some("ls"));
        assert_eq!(nearest("upgrade", names), None);
        assert_eq!(distance("", "abc"), 3);
    }
}
