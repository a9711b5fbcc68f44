//! Comments are plain English: turns of phrase that a reader has to think about are counted, and the count may only fall.

use super::rules::sources;

/// As words, in lower case.
const TURNED: &[&str] = &[
    "so many",
    "so much",
    "beside",
    "nobody",
    "whoever",
    "is to be",
    "are to be",
    "was to be",
    "were to be",
    "said of",
    "says of",
];

/// How many there are: help texts of commands, names, and these tests.
const MOST: usize = 14;

/// The words of a line's comment.
fn comment(line: &str) -> Vec<String> {
    let text = match line.trim_start().strip_prefix("//") {
        Some(text) => text,
        None => line.split_once(" // ").map_or("", |(_, text)| text),
    };
    let words = text.split(|letter: char| !letter.is_alphanumeric() && !"'_".contains(letter));
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn turned(words: &[String]) -> usize {
    let count = |phrase: &&str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        words
            .windows(phrase.len())
            .filter(|found| **found == *phrase)
            .count()
    };
    TURNED.iter().map(count).sum()
}

#[test]
fn comments_have_few_turned_phrases() {
    let mut found = Vec::new();
    for (name, text) in sources("rs") {
        for (number, line) in (1..).zip(text.lines()) {
            let count = turned(&comment(line));
            let place = format!("{name}:{number}: {}", line.trim());
            found.extend(std::iter::repeat_n(place, count));
        }
    }
    let count = found.len();
    let list = found.join("\n");
    assert!(
        count <= MOST,
        "{count} turned phrases in comments, at most {MOST}:\n{list}"
    );
    assert_eq!(count, MOST, "fewer than allowed: lower MOST");
}

#[test]
fn phrases_are_found_in_comments_only() {
    let count = |line| turned(&comment(line));
    assert_eq!(count("    // Nobody reads so many, beside this."), 3);
    assert_eq!(count("/// It is to\n"), 0);
    assert_eq!(count("let nobody = 1;"), 0);
    assert_eq!(count("let a = 1; // What is to be done."), 1);
    assert_eq!(count("/// The besides of a `nobody_here`."), 0);
}
