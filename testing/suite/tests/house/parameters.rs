//! Parameters have names: at a call, a tuple does not say what its values are. Those that are left are counted, and the count
//! may only fall.

use super::rules::sources;

/// Mostly points and sizes of drawings, which their names tell apart.
const MOST: usize = 30;

/// How many parameters of a signature are tuples.
fn tuples(signature: &str) -> usize {
    let no_tuple = ["dyn ", "impl ", ")"];
    let begun = [": (", ": &(", ": &mut ("].map(|begins| {
        let types = signature.split(begins).skip(1);
        types.filter(|rest| !no_tuple.iter().any(|other| rest.starts_with(other)))
    });
    begun.into_iter().map(Iterator::count).sum()
}

#[test]
fn few_parameters_are_tuples() {
    let mut found = Vec::new();
    for (name, text) in sources("rs") {
        for function in text.split("fn ").skip(1) {
            let signature = function.split("{\n").next().unwrap_or(function);
            let signature = signature.split(";\n").next().unwrap_or(signature);
            let place = format!("{name}: {}", signature.lines().next().unwrap_or(""));
            found.extend(std::iter::repeat_n(place, tuples(signature)));
        }
    }
    let list = found.join("\n");
    assert_eq!(
        found.len(),
        MOST,
        "lower MOST if there are fewer, else name them:\n{list}"
    );
}

#[test]
fn tuples_are_found_among_parameters_only() {
    assert_eq!(tuples("f((x, y): (u32, u32), z: &(u8, u8)) -> (u8, u8)"), 2);
    assert_eq!(
        tuples("f(g: &(dyn Fn((u8, u8)) + Send), h: &[(u8, u8)])"),
        0
    );
}
