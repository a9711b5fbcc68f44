//! How fast copies are, beside a plain one of as many floats.
//!
//! `cargo bench -p punctual-kernels --bench copies` prints GB/s, reading and writing together counted once; the best
//! of several short samples. Under `cargo test` each copy runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::{
    AlignedBuffer, BlockedLayout, Copy, CopySpec, Image, Inputs, Isa, Kernel, Part, PlainCopy,
};
use punctual_types::{Axis, Digit, Piece, View};

/// What is copied: its name, the tensor, the order of its values, and what they become, if not plain memory.
type Case = (&'static str, [u32; 3], Vec<Digit>, Option<[u32; 3]>);

const fn channels(step: u32, extent: u32) -> Digit {
    let axis = Axis::Channel;
    Digit { axis, step, extent }
}

const fn rows(step: u32, extent: u32) -> Digit {
    let axis = Axis::Row;
    Digit { axis, step, extent }
}

const fn columns(step: u32, extent: u32) -> Digit {
    let axis = Axis::Column;
    Digit { axis, step, extent }
}

fn cases() -> Vec<Case> {
    let plane = |[channel, height, width]: [u32; 3]| {
        vec![channels(1, channel), rows(1, height), columns(1, width)]
    };
    let tokens = |[channel, height, width]: [u32; 3]| {
        vec![rows(1, height), columns(1, width), channels(1, channel)]
    };
    let (logits, depth, boxes) = ([19, 256, 512], [1, 480, 640], [4, 1, 76725]);
    let (classes, heads, half) = ([91, 1, 20000], [819, 40, 40], [64, 160, 160]);
    let windows = vec![
        channels(1, 96),
        rows(7, 8),
        columns(7, 8),
        rows(1, 7),
        columns(1, 7),
    ];
    vec![
        ("planes of a segmenter", logits, plane(logits), None),
        ("planes in a cache", [64, 40, 64], plane([64, 40, 64]), None),
        ("a depth map", depth, plane(depth), None),
        (
            "logits of a megabyte",
            [21, 112, 112],
            plane([21, 112, 112]),
            None,
        ),
        (
            "heat maps of a megabyte",
            [17, 96, 160],
            plane([17, 96, 160]),
            None,
        ),
        (
            "anchors of a megabyte",
            [30, 1, 8732],
            tokens([30, 1, 8732]),
            None,
        ),
        ("planes of 7x7", [2048, 7, 7], plane([2048, 7, 7]), None),
        ("boxes, last", boxes, tokens(boxes), None),
        ("classes, last", classes, tokens(classes), None),
        (
            "pixels unshuffled",
            half,
            vec![
                rows(1, 2),
                columns(1, 2),
                channels(1, 64),
                rows(2, 80),
                columns(2, 80),
            ],
            Some([256, 80, 80]),
        ),
        (
            "pixels shuffled",
            [256, 80, 80],
            vec![
                channels(4, 64),
                rows(1, 80),
                channels(2, 2),
                columns(1, 80),
                channels(1, 2),
            ],
            Some([64, 160, 160]),
        ),
        (
            "anchors to tokens",
            heads,
            vec![
                channels(1, 91),
                rows(1, 40),
                columns(1, 40),
                channels(91, 9),
            ],
            Some([91, 1, 14400]),
        ),
        ("windows", [96, 56, 56], windows, Some([96, 1, 3136])),
        (
            "tokens to channels",
            [96, 1, 196],
            vec![columns(1, 196), channels(1, 96)],
            Some([196, 1, 96]),
        ),
    ]
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    for isa in Isa::available() {
        println!("{isa}:");
        for (name, shape, digits, result) in cases() {
            let [channels, height, width] = shape.map(|size| size as usize);
            let input = BlockedLayout::new(isa, channels, height, width, 0).expect("it fits");
            let view = View {
                start: [0; 3],
                digits,
            };
            let values = view.elements() as usize;
            let memory = AlignedBuffer::zeroed(input.len());
            let seconds = match result {
                None => {
                    let copy = PlainCopy::new(isa, input, &view, punctual_types::Element::F32);
                    let copy = copy.expect("a sound view");
                    let mut output = vec![0; copy.bytes()];
                    least_seconds(measure, || {
                        copy.run(black_box(&memory), &mut output);
                    })
                }
                Some(result) => {
                    let [channels, height, width] = result.map(|size| size as usize);
                    let output = BlockedLayout::new(isa, channels, height, width, 0);
                    let spec = CopySpec {
                        inputs: vec![input],
                        table: 0,
                        output: output.expect("it fits"),
                        pieces: vec![Piece::whole(view, result)],
                    };
                    let copy = Copy::new(isa, &spec).expect("a sound view");
                    let mut output = AlignedBuffer::zeroed(spec.output.len());
                    least_seconds(measure, || {
                        let inputs = Inputs::one(black_box(&memory));
                        let output = &mut output;
                        copy.run(&[], Part::WHOLE, &mut [Image { inputs, output }]);
                    })
                }
            };
            let plain = AlignedBuffer::zeroed(values);
            let mut to = AlignedBuffer::zeroed(values);
            let least = least_seconds(measure, || to.copy_from_slice(black_box(&plain)));
            let speed = |seconds: f64| 4.0 * values as f64 / seconds / 1e9;
            println!(
                "  {name:24} {:6.1} GB/s, memory {:6.1} GB/s",
                speed(seconds),
                speed(least)
            );
        }
    }
}

#[allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock"
)]
fn least_seconds(measure: bool, mut run: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..if measure { 30 } else { 1 } {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}
