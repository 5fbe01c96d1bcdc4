//! "Did you mean": the known name nearest to a mistyped one.

/// The nearest of `known` by edits (insert, delete, replace, exchange of neighbours), if it is near enough to be meant; a name that is
/// only begun is as near as one edit.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 4);
    let begun = |k: &str| name.len() > 1 && k.starts_with(name);
    known
        .into_iter()
        .map(|k| (if begun(k) { 1 } else { distance(name, k) }, k))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        let known = ["evolution", "tables", "target", "tls", "url"];
        for (typed, meant) in [
            ("evoluton", Some("evolution")),
            ("Evolution", Some("evolution")),
            ("tabels", Some("tables")),
            ("targte", Some("target")),
            ("ulr", Some("url")),
            ("evo", Some("evolution")),
            ("password", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
    }
}
