//! How fast products of two computed matrices are, beside a convolution of one pixel of the same size, whose weights are
//! packed.
//!
//! `cargo bench -p punctual-kernels --bench products` prints GFLOP/s (a multiplication with addition counts two) of both,
//! the best of several short samples in turn. Under `cargo test` each runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::{
    AlignedBuffer, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Image, Inputs, Isa, Kernel, Part,
    Product, ProductSpec, Weights,
};
use punctual_types::{Activation, Extent, Random, Window};

/// Rows, columns of the first matrix, terms, channels of the second.
const CASES: [[usize; 4]; 9] = [
    [8, 16, 196, 17],
    [8, 196, 16, 17],
    [1, 32, 32, 32],
    [1, 64, 64, 64],
    [12, 49, 32, 49],
    [12, 49, 49, 32],
    [6, 197, 64, 197],
    [1, 384, 128, 384],
    [1, 256, 512, 256],
];
const SAMPLES: usize = 60;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    for isa in Isa::available() {
        println!("{isa}:   rows columns terms channels   product  convolution");
        for case in CASES {
            let [rows, columns, terms, channels] = case;
            let products = 2.0 * (rows * columns * terms * channels) as f64;
            let [product, conv] = seconds(isa, case, measure).map(|s| products / s / 1e9);
            println!("  {rows:8} {columns:8} {terms:5} {channels:8}   {product:7.1}  {conv:7.1}");
        }
    }
}

/// What one call of each takes.
fn seconds(isa: Isa, [rows, columns, terms, channels]: [usize; 4], measure: bool) -> [f64; 2] {
    let layout = |channels, width| {
        BlockedLayout::new(isa, channels, rows, width, 0).expect("the tensor fits")
    };
    let (first, second) = (layout(terms, columns), layout(channels, terms));
    let output = layout(channels, columns);
    let spec = ProductSpec {
        first,
        second,
        output,
    };
    let product = Product::new(isa, &spec).expect("the case is sound");
    let spec = Conv2dSpec {
        input: ConvInput::Blocked(first),
        output,
        residual: None,
        window: Window::whole(Extent::square(1)),
        groups: 1,
        activation: Activation::None,
    };
    let conv = Conv2d::new(isa, &spec).expect("the case is sound");
    let (weights, bias) = (noise(terms * channels), noise(channels));
    let packed = conv
        .packed(&Weights::floats(&[&weights, &bias]))
        .expect("the weights fit");
    let (a, b) = (noise(first.len()), noise(second.len()));
    let mut results = [0; 2].map(|_| AlignedBuffer::zeroed(output.len()));
    let [of_product, of_conv] = &mut results;
    let mut least = [f64::INFINITY; 2];
    let samples = if measure { SAMPLES } else { 1 };
    for _ in 0..samples {
        let inputs = Inputs::new([&a[..], &b[..]]);
        let output = &mut of_product[..];
        let mut images = [Image { inputs, output }];
        let taken = sample(measure, || {
            product.run(&[], Part::WHOLE, black_box(&mut images))
        });
        least[0] = least[0].min(taken);
        let inputs = Inputs::one(&a);
        let output = &mut of_conv[..];
        let mut images = [Image { inputs, output }];
        let run = || conv.run(&packed, Part::WHOLE, black_box(&mut images));
        least[1] = least[1].min(sample(measure, run));
    }
    least
}

/// The mean of as many calls as take about half a millisecond.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn sample(measure: bool, mut call: impl FnMut()) -> f64 {
    let (start, mut calls) = (Instant::now(), 0);
    loop {
        call();
        calls += 1;
        let taken = start.elapsed().as_secs_f64();
        if !measure || taken > 5e-4 {
            return taken / f64::from(calls);
        }
    }
}

/// Values in [-1, 1), the same on each run.
fn noise(len: usize) -> AlignedBuffer {
    let mut random = Random::new(1);
    let mut buffer = AlignedBuffer::zeroed(len);
    buffer.fill_with(|| random.signed_unit());
    buffer
}
