//! Products of matrices equal sums in f64 on every instruction set, in any parts.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts, tolerance};
use proptest::prelude::*;
use punctual_kernels::{BlockedLayout, Isa, Product, ProductSpec};
use punctual_model as model;

proptest! {
    #![proptest_config(crate::support::cases(300))]

    #[test]
    fn a_product_equals_its_reference(
        isa in isa(),
        (terms, columns, channels) in (1..=70usize, 1..=40usize, 1..=150usize),
        rows in 1..=4usize,
        halos in [0..=2usize, 0..=2usize, 0..=2usize],
        (batch, parts, seed) in (1..=2usize, 1..=5usize, any::<u64>()),
    ) {
        let layout = |channels, width, halo| {
            BlockedLayout::new(isa, channels, rows, width, halo).unwrap()
        };
        let first = layout(terms, columns, halos[0]);
        let second = layout(channels, terms, halos[1]);
        let output = layout(channels, columns, halos[2]);
        let kernel = Product::new(isa, &ProductSpec { first, second, output }).unwrap();
        let values: Vec<_> = (0..batch as u64)
            .map(|at| {
                let first = noise(seed ^ (2 * at), first.shape().elements());
                (first, noise(seed ^ (2 * at + 1), second.shape().elements()))
            })
            .collect();
        let members: Vec<_> = values
            .iter()
            .map(|(a, b)| vec![blocked(&first, a, 7.0, 5.0), blocked(&second, b, 3.0, 9.0)])
            .collect();
        let outputs = run_in_parts(parts, &output, &members, &kernel, &[]);
        for (memory, (a, b)) in outputs.iter().zip(&values) {
            let expected = meaning(model::Product, [(&first, a), (&second, b)]).run();
            check_output(&output, memory, &expected, tolerance(terms));
        }
    }
}

#[test]
fn matrices_that_do_not_fit_are_refused() {
    let isa = Isa::Scalar;
    let layout =
        |channels, height, width| BlockedLayout::new(isa, channels, height, width, 0).unwrap();
    let spec = ProductSpec {
        first: layout(8, 2, 5),
        second: layout(6, 2, 8),
        output: layout(6, 2, 5),
    };
    let message = |spec: ProductSpec| Product::new(isa, &spec).unwrap_err().to_string();
    assert!(Product::new(isa, &spec).is_ok());
    let second = layout(6, 2, 7);
    assert!(message(ProductSpec { second, ..spec }).contains("second operand's columns is 7"));
    let second = layout(6, 1, 8);
    assert!(message(ProductSpec { second, ..spec }).contains("second operand's height is 1"));
    for output in [layout(8, 2, 5), layout(6, 1, 5), layout(6, 2, 8)] {
        assert!(message(ProductSpec { output, ..spec }).contains("the output's"));
    }
}
