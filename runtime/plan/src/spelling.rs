//! Lists of words for messages, and the word that was probably meant.

/// Quoted words, in order.
pub(crate) fn list<S: AsRef<str>>(words: &[S]) -> String {
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
pub(crate) fn numbers(values: &[u16]) -> String {
    if values.is_empty() {
        return "none".into();
    }
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// What follows the first of several.
pub(crate) fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    }
}

/// The word that was probably meant: within a third of its length in edits.
pub(crate) fn nearest<'w, S: AsRef<str>>(word: &str, known: &'w [S]) -> Option<&'w str> {
    // Longer words are no misspelt keys, and the distance costs the product of the lengths.
    const LENGTH_MAX: usize = 64;
    if word.chars().count() > LENGTH_MAX {
        return None;
    }
    known
        .iter()
        .map(|candidate| (distance(word, candidate.as_ref()), candidate.as_ref()))
        .filter(|(edits, candidate)| *edits <= candidate.len().max(3) / 3)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's edit distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_insertions_deletions_and_substitutions() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("rate_hz", "rate_hz"), 0);
    }

    #[test]
    fn only_similar_words_are_suggested() {
        let known = ["deadline_ms", "rate_hz", "queue"];
        assert_eq!(nearest("deadline_mS", &known), Some("deadline_ms"));
        assert_eq!(nearest("queu", &known), Some("queue"));
        assert_eq!(nearest("colour", &known), None);
    }
}
