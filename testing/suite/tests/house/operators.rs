//! The files that `CONTRIBUTING.md` lists for a new operator, compared with those that name one that is there.

use std::collections::BTreeSet;
use std::fs;

use crate::rules::{root, sources};

/// An operator whose name means nothing else, and that nothing treats specially: a new one needs the same files.
const EXAMPLE: (&str, &str) = ("GridSample", "grid_sample");

/// Parts of the paths of tests, benchmarks and examples.
const NOT_PRODUCT: [&str; 4] = ["/tests/", "/tests.rs", "/benches/", "/examples/"];

#[test]
fn an_operator_is_named_in_the_files_that_contributing_lists_and_nowhere_else() {
    let (name, module) = EXAMPLE;
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("the document");
    let row = text
        .lines()
        .find(|line| line.starts_with("| an operator |"));
    let files = row.expect("its row").split('|').nth(2).expect("its files");
    let listed = files
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.contains("/src/"));
    let listed: Vec<String> = listed.map(|path| path.replace("NAME", module)).collect();
    // A folder stands for one file in it.
    let covers = |entry: &String, file: &String| {
        let inside = file.strip_prefix(entry.as_str());
        let is_in_folder = |rest: &str| entry.ends_with('/') && !rest.contains('/');
        entry == file || inside.is_some_and(is_in_folder)
    };
    let named: BTreeSet<String> = ["rs", "cuh", "cu"]
        .into_iter()
        .flat_map(sources)
        .filter(|(file, text)| needs_each_operator(file) && text.contains(name))
        .map(|(file, _)| file)
        .collect();
    let unlisted = named
        .iter()
        .filter(|file| !listed.iter().any(|entry| covers(entry, file)));
    let unlisted: Vec<&String> = unlisted.collect();
    assert_eq!(
        unlisted,
        Vec::<&String>::new(),
        "these files name {name}, and the row does not list them"
    );
    let idle = listed
        .iter()
        .filter(|entry| !named.iter().any(|file| covers(entry, file)));
    let idle: Vec<&String> = idle.collect();
    assert_eq!(
        idle,
        Vec::<&String>::new(),
        "the row lists these, and {name} does not need them"
    );
}

/// The engine, and what every device's tests draw networks from.
fn needs_each_operator(file: &str) -> bool {
    let folders = ["kernels/", "runtime/", "testing/conformance/"];
    folders.iter().any(|folder| file.starts_with(folder))
        && !NOT_PRODUCT.iter().any(|part| file.contains(part))
}
