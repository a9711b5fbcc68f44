//! Lists of words for messages, and the word that was probably meant.

/// Quoted words, in order.
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    if words.is_empty() {
        return "none".into();
    }
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    quoted.join(", ")
}

/// Numbers, in order.
pub fn numbers(values: &[u16]) -> String {
    if values.is_empty() {
        return "none".into();
    }
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// What follows the first of several.
pub fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    }
}

/// The word that was probably meant: within a third of its length in edits, or the same with more
/// behind it, such as a unit.
pub fn nearest<'w, S: AsRef<str>>(word: &str, known: &'w [S]) -> Option<&'w str> {
    // Longer words are no misspelt keys, and the distance costs the product of the lengths.
    const LENGTH_MAX: usize = 64;
    /// Fewer letters begin many words.
    const COMMON_MIN: usize = 3;
    if word.chars().count() > LENGTH_MAX {
        return None;
    }
    known
        .iter()
        .map(AsRef::as_ref)
        .map(|candidate| match candidate.strip_prefix(word) {
            Some(rest) if word.len() >= COMMON_MIN && !rest.is_empty() => (1, candidate),
            _ => (distance(word, candidate), candidate),
        })
        .filter(|(edits, candidate)| {
            // Of the shortest words something must be left.
            *edits <= candidate.len().max(3) / 3 && *edits < candidate.len()
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: insertions, deletions, substitutions, and neighbours swapped, each once
/// (Damerau, 1964, in its optimal string alignment form).
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for line in 0..from.len() {
        let mut row = vec![line + 1];
        for column in 0..to.len() {
            let substituted = above[column] + usize::from(from[line] != to[column]);
            let mut least = substituted.min(above[column + 1] + 1).min(row[column] + 1);
            let swapped = line > 0
                && column > 0
                && from[line] == to[column - 1]
                && from[line - 1] == to[column];
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_insertions_deletions_substitutions_and_swaps() {
        assert_eq!(distance("coers", "cores"), 1);
        assert_eq!(distance("ba", "ab"), 1);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("rate_hz", "rate_hz"), 0);
    }

    #[test]
    fn only_similar_words_are_suggested() {
        let known = ["deadline_ms", "rate_hz", "queue"];
        assert_eq!(nearest("deadline_mS", &known), Some("deadline_ms"));
        assert_eq!(nearest("rate", &known), Some("rate_hz"));
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("a", &["b"]), None);
        assert_eq!(nearest("queu", &known), Some("queue"));
        assert_eq!(nearest("colour", &known), None);
    }
}
