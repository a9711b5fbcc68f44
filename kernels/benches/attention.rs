//! Arithmetic throughput of the attention, shape by shape: both matrix products count, the softmax between them is
//! what keeps it from the convolutions' throughput.
//!
//! `cargo bench -p punctual-kernels --bench attention [-- FILTER...]`, filters being parts of names, prints GFLOP/s
//! of one core: the best of several short samples. Under `cargo test` each shape runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::{
    AlignedBuffer, Attention, AttentionSpec, BlockedLayout, Image, Inputs, Isa, Kernel, Part,
};
use punctual_types::Random;

/// Heads, channels of a head, queries, keys.
const CASES: [(usize, usize, usize, usize); 8] = [
    // ViT-B/16, ViT-S/14 of 518 x 518, CLIP's B/32, DistilBERT.
    (12, 64, 197, 197),
    (6, 64, 1370, 1370),
    (12, 64, 50, 50),
    (12, 64, 128, 128),
    // SegFormer-b0's first stage of 512 x 512, MobileViT-S, a window of Swin-T.
    (1, 32, 16384, 256),
    (4, 36, 256, 256),
    (3, 32, 49, 49),
    // A decoder: few queries for many keys.
    (8, 32, 100, 1024),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let filters = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let filters: Vec<&str> = filters.map(String::as_str).collect();
    for isa in Isa::available() {
        for (heads, size, queries, keys) in CASES {
            let name = format!("{isa} {heads} heads of {size}, {queries} queries, {keys} keys");
            if filters.iter().all(|filter| name.contains(filter)) {
                let gflops = gflops(isa, heads, size, queries, keys, measure);
                println!("{name:55} {gflops:6.1} GFLOP/s");
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn gflops(isa: Isa, heads: usize, size: usize, queries: usize, keys: usize, measure: bool) -> f64 {
    let layout = |pixels| BlockedLayout::new(isa, heads * size, 1, pixels, 0).expect("it fits");
    let (query, key) = (layout(queries), layout(keys));
    let spec = AttentionSpec {
        query,
        key,
        value: key,
        mask: None,
        output: query,
        heads,
        scale: 1.0 / (size as f32).sqrt(),
        by_row: false,
        bias: None,
    };
    let attention = Attention::new(isa, &spec).expect("the case is sound");
    let (q, k, v) = (noise(query.len()), noise(key.len()), noise(key.len()));
    let mut output = AlignedBuffer::zeroed(query.len());
    let mut least = f64::INFINITY;
    for _ in 0..if measure { 40 } else { 1 } {
        let image = Image {
            inputs: Inputs::new([&q[..], &k, &v]),
            output: &mut output,
        };
        let start = Instant::now();
        attention.run(&[], Part::WHOLE, black_box(&mut [image]));
        least = least.min(start.elapsed().as_secs_f64());
    }
    4.0 * (heads * size * queries * keys) as f64 / least / 1e9
}

/// Values in [-1, 1), the same on each run.
fn noise(len: usize) -> AlignedBuffer {
    let mut random = Random::new(1);
    let mut buffer = AlignedBuffer::zeroed(len);
    buffer.fill_with(|| random.signed_unit());
    buffer
}
