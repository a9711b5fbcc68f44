//! Draws files of one operator, alone or between neighbours that the compiler fuses with it, and compares the reference
//! interpreter with onnxruntime: operands of all shapes and kinds, computed or known when compiling, in every operator set.
//!
//! Values are quarters, so that sums and products are exact: integers and booleans must be equal, and floats near.

mod agreement;
mod arranged;
mod bytes;
mod drawing;
mod fused;
mod linear;
mod measured;
mod normal;
mod table;
mod windows;

use punctual_types::Random;

use crate::draw::Drawn;
pub use agreement::{Outcome, compare};
use drawing::Drawing;
use table::TABLE;

/// A file of one operator.
pub struct OneOperator {
    pub operator: &'static str,
    pub drawn: Drawn,
}

/// The file of a seed, the same on every machine.
#[must_use]
pub fn one(seed: u64) -> OneOperator {
    let mut random = Random::new(seed).stream("operator", 0);
    let all = || {
        TABLE
            .iter()
            .flat_map(|row| row.operators.iter().map(move |name| (*name, row)))
    };
    let at = random.below(all().count() as u64) as usize;
    let (operator, row) = all().nth(at).unwrap_or(("Relu", &TABLE[0]));
    let mut drawing = Drawing::new(random, row.since, row.known);
    let results = (row.draw)(&mut drawing, operator);
    let drawn = drawing.finish(seed, results);
    OneOperator { operator, drawn }
}

/// The operators that files are drawn of.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| row.operators).copied()
}
