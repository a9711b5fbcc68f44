//! Files that are nearly right, for the tests without a fuzzer.

use punctual_types::Random;

/// What takes the place of a number: other numbers, and what is none.
const OTHERS: [&str; 10] = [
    "0",
    "-1",
    "1",
    "2.5",
    "65536",
    "9223372036854775807",
    "1e300",
    "nan",
    "[]",
    "\"\"",
];

/// How many of `count` versions of `text`, each with a number or a byte exchanged, are taken.
pub fn taken(text: &str, count: usize, exercise: impl Fn(&[u8]) -> bool) -> usize {
    assert!(exercise(text.as_bytes()), "the undamaged one is");
    let mut random = Random::new(0x5EED).stream("damage", 0);
    let versions = (0..count).map(|_| damaged(&mut random, text));
    versions.filter(|version| exercise(version)).count()
}

fn damaged(random: &mut Random, text: &str) -> Vec<u8> {
    let is_digit = |at: &usize| text.as_bytes()[*at].is_ascii_digit();
    let mut pick = |count: usize| random.below(count as u64) as usize;
    if pick(2) == 0 {
        let digits: Vec<usize> = (0..text.len()).filter(is_digit).collect();
        let from = digits[pick(digits.len())];
        let to = (from..text.len()).find(|at| !is_digit(at));
        let rest = &text[to.unwrap_or(text.len())..];
        return [&text[..from], OTHERS[pick(OTHERS.len())], rest]
            .concat()
            .into_bytes();
    }
    let mut bytes = text.as_bytes().to_vec();
    let at = pick(bytes.len());
    bytes[at] = pick(256) as u8;
    bytes
}
