//! Every tile and every way of making sums, against the reference.

use punctual_conformance::Alone;
use punctual_model::QuantisedConv2d;
use punctual_types::{Activation, Extent, Padding, Window};

use super::*;
use crate::Inputs;

const FROM: Quantisation = Quantisation {
    scale: 0.25,
    zero: 131,
};
const TO: Quantisation = Quantisation {
    scale: 0.5,
    zero: 7,
};

/// Bytes that differ from their neighbours, the extremes among them.
fn pattern(len: usize, period: usize) -> Vec<u8> {
    let byte = |i: usize| (i * 7 % period * 255 / (period - 1)) as u8;
    (0..len).map(byte).collect()
}

fn check(
    isa: Isa,
    sums: Sums,
    groups: usize,
    stride: usize,
    outputs: usize,
    rows: usize,
    columns: usize,
) {
    let inputs = if groups > 1 { groups } else { 21 };
    let [height, width] = [rows, columns].map(|size| (size - 1) * stride + 1);
    let layout = |channels, height, width, halo, of| {
        let layout = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        layout.quantised(of).unwrap()
    };
    let spec = Conv2dSpec {
        input: layout(inputs, height, width, 1, FROM),
        output: layout(outputs, rows, columns, 0, TO),
        window: Window::new(
            Extent::square(3),
            Extent::square(stride as u32),
            Padding::uniform(1),
        ),
        groups,
        activation: Activation::Relu,
    };
    let kernel = Conv2d::with(isa, sums, &spec).unwrap();
    let weights = pattern(outputs * (inputs / groups) * 9, 53).into_iter();
    let weights: Vec<i8> = weights.map(u8::cast_signed).collect();
    let scales: Vec<f32> = (0..outputs).map(|o| 0.001 + o as f32 * 1e-4).collect();
    let bias: Vec<f32> = (0..outputs).map(|o| o as f32 - 4.0).collect();
    let image = pattern(inputs * height * width, 61);
    let mut memory = vec![0.0; spec.input.len()];
    spec.input.pack_bytes(&image, &mut memory);
    let packed = kernel
        .packed(&Weights {
            floats: &[&scales, &bias],
            integers: &[&weights],
        })
        .unwrap();
    let mut result = vec![0.0; spec.output.len()];
    let run = Image {
        inputs: Inputs::one(&memory),
        output: &mut result,
    };
    kernel.run(&packed, Part::WHOLE, &mut [run]);
    let mut found = vec![0; spec.output.shape().elements()];
    spec.output.unpack_bytes(&result, &mut found);
    let meant = QuantisedConv2d {
        window: spec.window,
        groups: groups as u32,
        activation: spec.activation,
    };
    let alone = Alone::new(meant).reads_bytes(spec.input.shape().sides(), FROM, &image);
    let alone = alone.integers(&weights).weights(&scales).weights(&bias);
    assert_eq!(
        found,
        alone.run_to_bytes(TO),
        "{isa} {sums:?}, {groups} groups, stride {stride}, {outputs} outputs, {rows} x {columns}"
    );
}

#[test]
fn every_tile_of_every_way_to_sum_equals_the_reference() {
    for (isa, sums) in Sums::available() {
        for stride in 1..=3 {
            for (blocks, height, width) in tiles::shapes(sums, stride) {
                let outputs = blocks * isa.lanes() - 1;
                check(isa, sums, 1, stride, outputs, height, width);
            }
        }
    }
}

#[test]
fn every_way_to_sum_each_channel_alone_equals_the_reference() {
    for (isa, sums) in Sums::available() {
        for stride in 1..=3 {
            check(isa, sums, 19, stride, 19, 2, 8);
        }
    }
}
