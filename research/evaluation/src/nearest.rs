//! The word that was probably meant.

/// The word of `known` that shares most pairs of neighbouring letters with `word`, if it shares
/// half (Dice's coefficient).
pub(crate) fn nearest<'n>(word: &str, known: &[&'n str]) -> Option<&'n str> {
    let pairs = |word: &str| {
        let letters: Vec<char> = word.chars().take(64).collect();
        letters
            .windows(2)
            .map(|pair| (pair[0], pair[1]))
            .collect::<Vec<_>>()
    };
    let asked = pairs(word);
    let likeness = |other: &str| {
        let other = pairs(other);
        let shared = asked.iter().filter(|pair| other.contains(pair)).count();
        2.0 * shared as f64 / (asked.len() + other.len()).max(1) as f64
    };
    known
        .iter()
        .map(|other| (likeness(other), *other))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_words_are_found() {
        let known = ["deadline_ms", "rate_hz", "queue"];
        assert_eq!(nearest("deadlin_ms", &known), Some("deadline_ms"));
        assert_eq!(nearest("rate_hs", &known), Some("rate_hz"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
