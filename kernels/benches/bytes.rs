//! Convolutions of bytes against the same of floats, in turns, shape by shape.
//!
//! `cargo bench -p punctual-kernels --bench bytes [-- ISA]` prints multiply-accumulates a second of
//! both and the ratio of their times, each the lower quartile of its runs: neighbours on the machine
//! only ever slow a run down. Under `cargo test` each shape runs once.

use std::hint::black_box;
#[allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]
use std::time::Instant;

use punctual_kernels::quantised::{self};
use punctual_kernels::{
    AlignedBuffer, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Image, Inputs, Isa, Kernel, Part,
    Weights,
};
use punctual_types::{Activation, Extent, Padding, Quantisation, Window};

/// Input channels, output channels, side of the image, side of the kernel, stride, groups: layers
/// of ResNet and MobileNetV2, and a fully connected one.
const CASES: [[usize; 6]; 13] = [
    [64, 64, 56, 3, 1, 1],
    [128, 128, 28, 3, 1, 1],
    [256, 256, 14, 3, 1, 1],
    [512, 512, 7, 3, 1, 1],
    [128, 256, 56, 3, 2, 1],
    [64, 256, 56, 1, 1, 1],
    [256, 64, 56, 1, 1, 1],
    [1024, 256, 14, 1, 1, 1],
    [512, 2048, 7, 1, 1, 1],
    [16, 96, 112, 1, 1, 1],
    [144, 144, 56, 3, 1, 144],
    [384, 384, 14, 3, 1, 384],
    [2048, 1000, 1, 1, 1, 1],
];

const OF: Quantisation = Quantisation {
    scale: 0.1,
    zero: 12,
};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.find(|argument| !argument.starts_with("--"));
    let isa = Isa::available()
        .find(|isa| name.as_deref().is_none_or(|name| isa.name() == name))
        .expect("an instruction set of this machine");
    let benchmark = std::env::args().any(|argument| argument == "--bench");
    let runs = if benchmark { 31 } else { 1 };
    println!("{isa}");
    for case in CASES {
        compare(isa, case, runs);
    }
}

fn compare(isa: Isa, case: [usize; 6], runs: usize) {
    let [inputs, outputs, side, kernel, stride, groups] = case;
    let window = Window::new(
        Extent::square(kernel as u32),
        Extent::square(stride as u32),
        Padding::uniform(kernel as u32 / 2),
    );
    let input = BlockedLayout::new(isa, inputs, side, side, kernel / 2).unwrap();
    let result = input.shape().windowed(&window, outputs).unwrap();
    let output = BlockedLayout::new(isa, outputs, result.height, result.width, 1).unwrap();
    let activation = Activation::Relu;
    let floats = Conv2d::new(
        isa,
        &Conv2dSpec {
            input: ConvInput::Blocked(input),
            output,
            residual: None,
            window,
            groups,
            activation,
        },
    )
    .unwrap();
    let spec = quantised::Conv2dSpec {
        input: input.quantised(OF).unwrap(),
        output: output.quantised(OF).unwrap(),
        window,
        groups,
        activation,
    };
    let bytes = quantised::Conv2d::new(isa, &spec).unwrap();
    let count = outputs * inputs / groups * kernel * kernel;
    let bias = vec![0.0; outputs];
    let packed_floats = floats
        .packed(&Weights::floats(&[&vec![0.01; count], &bias]))
        .unwrap();
    let packed_bytes = bytes
        .packed(&Weights {
            floats: &[&vec![0.01; outputs], &bias],
            integers: &[&vec![1; count]],
        })
        .unwrap();
    let mut memory = [
        AlignedBuffer::zeroed(input.len()),
        AlignedBuffer::zeroed(output.len()),
        AlignedBuffer::zeroed(spec.input.len()),
        AlignedBuffer::zeroed(spec.output.len()),
    ];
    let [input, output, input_bytes, output_bytes] = &mut memory;
    let (mut of_floats, mut of_bytes) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        of_floats.push(timed(|| {
            let inputs = Inputs::one(input);
            floats.run(&packed_floats, Part::WHOLE, &mut [Image { inputs, output }]);
        }));
        of_bytes.push(timed(|| {
            let inputs = Inputs::one(input_bytes);
            let output = &mut output_bytes[..];
            bytes.run(&packed_bytes, Part::WHOLE, &mut [Image { inputs, output }]);
        }));
    }
    black_box(&memory);
    let products = (count * result.height * result.width) as f64;
    let (floats, bytes) = (quartile(of_floats), quartile(of_bytes));
    println!(
        "{inputs:5} -> {outputs:4} {side:3}x{side:<3} k{kernel} s{stride} groups {groups:3}  \
         f32 {:6.1} GMAC/s  u8 {:6.1} GMAC/s  time {:.2}",
        products / floats,
        products / bytes,
        bytes / floats,
    );
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn timed(run: impl FnOnce()) -> u128 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos()
}

/// Nanoseconds.
fn quartile(mut times: Vec<u128>) -> f64 {
    times.sort_unstable();
    times[times.len() / 4].max(1) as f64
}
