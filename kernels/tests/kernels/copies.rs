//! Copies equal their references for any view, on every instruction set.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts};
use core::ptr::NonNull;
use proptest::prelude::*;

use punctual_conformance::Alone;
use punctual_kernels::{
    BlockedLayout, Copy, CopySpec, Isa, Kernel, KernelError, Part, PlainCopy, Weights,
};
use punctual_model as model;
use punctual_types::{Axis, Digit, Element, Piece, PieceError, Quantisation, Random, View};

const AXES: [Axis; 4] = [Axis::Channel, Axis::Row, Axis::Column, Axis::Repeat];

/// A number of 1 to `most`.
fn some(random: &mut Random, most: u32) -> u32 {
    1 + random.below(most.into()) as u32
}

/// A view with these extents, each of one or two digits of any axis; and the shape of a tensor in which it lies.
fn view(random: &mut Random, extents: &[u32], axes: &[Axis]) -> (View, [u32; 3]) {
    let mut digits = Vec::new();
    for &extent in extents {
        let outer = (1..=extent).filter(|size| extent % size == 0);
        let outer: Vec<u32> = outer.collect();
        let outer = outer[random.below(outer.len() as u64) as usize];
        for extent in [outer, extent / outer] {
            let axis = axes[random.below(axes.len() as u64) as usize];
            digits.push(Digit {
                axis,
                step: 1,
                extent,
            });
        }
    }
    // Each axis counts through its digits in any order, with gaps.
    let mut order: Vec<usize> = (0..digits.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let start = [(); 3].map(|()| random.below(3) as u32 * random.below(4) as u32);
    let mut sizes = [1; 3];
    for at in order {
        let digit: &mut Digit = &mut digits[at];
        match digit.axis.index() {
            None => digit.step = 0,
            Some(axis) => {
                digit.step = sizes[axis] * some(random, 2);
                sizes[axis] += digit.step * (digit.extent - 1);
            }
        }
    }
    let sizes = [0, 1, 2].map(|axis| start[axis] + sizes[axis] + random.below(3) as u32);
    (View { start, digits }, sizes)
}

/// Pieces that make a tensor side by side along one axis, and the shapes of their sources.
fn pieces(random: &mut Random) -> (Vec<Piece>, Vec<[u32; 3]>, [u32; 3]) {
    let along = random.below(3) as usize;
    let mut result = [some(random, 20), some(random, 6), some(random, 12)];
    result[along] = 0;
    let (mut pieces, mut shapes) = (Vec::new(), Vec::new());
    for source in 0..some(random, 4) as u8 {
        let (mut at, mut sizes) = ([0; 3], result);
        sizes[along] = some(random, 24);
        at[along] = result[along];
        result[along] += sizes[along];
        let axes = match random.below(3) {
            // What kernels are fast for: lanes that stay lanes.
            0 => &AXES[1..],
            _ => &AXES[..],
        };
        let (mut view, shape) = match axes.len() {
            4 => view(random, &sizes, axes),
            _ => {
                let (mut view, mut shape) = view(random, &sizes[1..], axes);
                let step = some(random, 2);
                let extent = sizes[0];
                let axis = Axis::Channel;
                view.digits.insert(0, Digit { axis, step, extent });
                shape[0] += step * extent;
                (view, shape)
            }
        };
        view.digits.retain(|digit| digit.extent > 1);
        pieces.push(Piece {
            source,
            view,
            at,
            sizes,
        });
        shapes.push(shape);
    }
    pieces.reverse();
    (pieces, shapes, result)
}

fn layout(isa: Isa, shape: [u32; 3], halo: usize) -> BlockedLayout {
    let [channels, height, width] = shape.map(|size| size as usize);
    BlockedLayout::new(isa, channels, height, width, halo).unwrap()
}

/// A random specification; the last source may be a table.
fn spec(isa: Isa, random: &mut Random, input_halo: usize, output_halo: usize) -> CopySpec {
    let (pieces, mut shapes, result) = pieces(random);
    let table = match *shapes.last().unwrap() {
        [channels, 1, 1] if shapes.len() > 1 => channels as usize,
        _ => 0,
    };
    if table > 0 {
        shapes.pop();
    }
    CopySpec {
        inputs: shapes
            .iter()
            .map(|&shape| layout(isa, shape, input_halo))
            .collect(),
        table,
        output: layout(isa, result, output_halo),
        pieces,
    }
}

/// What a copy makes of its inputs' images and of its table.
fn copied(spec: &CopySpec, images: &[Vec<f32>], table: &[f32]) -> Vec<f32> {
    let pieces = spec.pieces.clone();
    let meant = meaning(model::Copy { pieces }, spec.inputs.iter().zip(images));
    match table {
        [] => meant.run(),
        table => meant.weights(table).run(),
    }
}

/// The values of a view, in its order.
fn viewed<T: Clone>(layout: &BlockedLayout, view: &View, image: &[T]) -> Vec<T> {
    let shape = model::Tensor::of_sides(layout.shape().sides());
    let places = view.positions();
    places
        .map(|place| image[shape.position(place)].clone())
        .collect()
}

proptest! {
    #![proptest_config(crate::support::cases(800))]

    #[test]
    fn a_copy_equals_its_reference(
        isa in isa(),
        halos in (0..=2usize, 0..=2usize),
        (batch, parts, seed) in (1..=2usize, 1..=4usize, any::<u64>()),
    ) {
        let spec = spec(isa, &mut Random::new(seed), halos.0, halos.1);
        let copy = Copy::new(isa, &spec).unwrap();
        let table = noise(seed ^ 7, spec.table);
        let packed = copy.packed(&Weights::floats(&[&table])).unwrap();
        let images: Vec<Vec<Vec<f32>>> = (0..batch as u64)
            .map(|member| {
                let image = |(at, input): (usize, &BlockedLayout)| {
                    let seed = seed ^ (9 + 10 * at as u64 + member);
                    noise(seed, input.shape().elements())
                };
                spec.inputs.iter().enumerate().map(image).collect()
            })
            .collect();
        let memory: Vec<Vec<Vec<f32>>> = images
            .iter()
            .map(|images| {
                let pairs = spec.inputs.iter().zip(images);
                pairs.map(|(input, image)| blocked(input, image, 7.0, 1e9)).collect()
            })
            .collect();
        let outputs = run_in_parts(parts, &spec.output, &memory, &copy, &packed);
        for (images, found) in images.iter().zip(&outputs) {
            check_output(&spec.output, found, &copied(&spec, images, &table), 0.0);
        }
    }

    #[test]
    fn a_copy_of_bytes_equals_its_reference(
        isa in isa(),
        halos in (0..=2usize, 0..=2usize),
        (parts, seed) in (1..=4usize, any::<u64>()),
    ) {
        let mut random = Random::new(seed);
        let (pieces, shapes, result) = pieces(&mut random);
        let quantisation = Quantisation { scale: 0.5, zero: 77 };
        let bytes = |layout: BlockedLayout| layout.quantised(quantisation).unwrap();
        let output = bytes(layout(isa, result, halos.1));
        let inputs: Vec<_> = shapes.iter().map(|&shape| bytes(layout(isa, shape, halos.0))).collect();
        let spec = CopySpec { inputs, table: 0, output, pieces };
        let copy = Copy::new(isa, &spec).unwrap();
        let images: Vec<Vec<u8>> = spec
            .inputs
            .iter()
            .map(|input| (0..input.shape().elements()).map(|_| random.next_u64() as u8).collect())
            .collect();
        let memory: Vec<Vec<f32>> = spec
            .inputs
            .iter()
            .zip(&images)
            .map(|(input, image)| {
                let mut memory = vec![0.0; input.len()];
                input.pack_bytes(image, &mut memory);
                memory
            })
            .collect();
        let found = run_in_parts(parts, &output, &[memory], &copy, &[]);
        let mut image = vec![0; output.shape().elements()];
        output.unpack_bytes(&found[0], &mut image);
        let alone = Alone::new(model::Copy { pieces: spec.pieces.clone() });
        let alone = spec.inputs.iter().zip(&images).fold(alone, |alone, (input, image)| {
            alone.reads_bytes(input.shape().sides(), quantisation, image)
        });
        prop_assert_eq!(&image, &alone.run_to_bytes(quantisation));
        let mut halo = vec![f32::NAN; output.len()];
        output.pack_bytes(&image, &mut halo);
        if output.channels() % isa.lanes() == 0 {
            let bits = |memory: &[f32]| memory.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&halo), bits(&found[0]));
        }
    }

    #[test]
    fn a_plain_copy_equals_its_reference_and_counts_what_is_not_finite(
        isa in isa(),
        halo in 0..=2usize,
        (parts, seed) in (1..=5usize, any::<u64>()),
        spoiled in 0..3usize,
    ) {
        let mut random = Random::new(seed);
        let (view, shape) = plain_view(&mut random);
        let input = layout(isa, shape, halo);
        let elements = [Element::F32, Element::I32, Element::Bool];
        let element = elements[random.below(3) as usize];
        let copy = PlainCopy::new(isa, input, &view, element).unwrap();
        let mut image = noise(seed, input.shape().elements());
        image.iter_mut().step_by(3).for_each(|value| *value = (*value * 9.0).trunc());
        for _ in 0..spoiled {
            let at = random.below(image.len() as u64) as usize;
            image[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][random.below(3) as usize];
        }
        let expected = viewed(&input, &view, &image);
        let bytes: Vec<u8> = expected.iter().flat_map(|value| match element {
            Element::I32 => (*value as i32).to_ne_bytes().to_vec(),
            Element::Bool => vec![u8::from(*value != 0.0)],
            _ => value.to_ne_bytes().to_vec(),
        }).collect();
        prop_assert_eq!((copy.len(), copy.bytes()), (expected.len(), bytes.len()));
        let memory = blocked(&input, &image, 7.0, f32::NAN);
        let wanted = expected.iter().filter(|value| !value.is_finite()).count();
        for (found, not_finite) in plain_results(&copy, &input, &memory, parts) {
            prop_assert_eq!(&found, &bytes);
            prop_assert_eq!(not_finite, wanted);
        }
    }

    #[test]
    fn a_plain_copy_of_bytes_equals_its_reference(
        isa in isa(),
        halo in 0..=2usize,
        (parts, seed) in (1..=5usize, any::<u64>()),
        signed in any::<bool>(),
    ) {
        let mut random = Random::new(seed);
        let (view, shape) = plain_view(&mut random);
        let quantisation = Quantisation { scale: 0.5, zero: 77 };
        let input = layout(isa, shape, halo).quantised(quantisation).unwrap();
        let element = if signed { Element::I8 { scale: 0.5, zero: -51 } } else { Element::U8 { scale: 0.5, zero: 77 } };
        let copy = PlainCopy::new(isa, input, &view, element).unwrap();
        let image: Vec<u8> = (0..input.shape().elements()).map(|_| random.next_u64() as u8).collect();
        let mut memory = vec![0.0; input.len()];
        input.pack_bytes(&image, &mut memory);
        let mut expected = viewed(&input, &view, &image);
        if signed {
            expected.iter_mut().for_each(|byte| *byte = (i16::from(*byte) - 128) as u8);
        }
        for (found, not_finite) in plain_results(&copy, &input, &memory, parts) {
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(not_finite, 0);
        }
    }
}

/// What a copy writes in `parts` parts, as a whole, and row by row, with how many values are not finite. Each part has
/// memory of its own: what differs from two kinds of it was written, and nothing may be written twice.
#[allow(unsafe_code, reason = "parts of one output, as cores write them")]
fn plain_results(
    copy: &PlainCopy,
    input: &BlockedLayout,
    memory: &[f32],
    parts: usize,
) -> Vec<(Vec<u8>, usize)> {
    let mut whole = vec![0; copy.bytes()];
    let not_finite = copy.run(memory, &mut whole);
    let mut results = vec![(whole, not_finite)];
    let in_parts = |run: &dyn Fn(Part, NonNull<u8>) -> usize| {
        let mut all = vec![0; copy.bytes()];
        let mut written = vec![false; copy.bytes()];
        let mut not_finite = 0;
        for index in 0..parts {
            let part = Part::new(index, parts);
            let [mut low, mut high] = [0x15, 0xEA].map(|filled| vec![filled; copy.bytes()]);
            not_finite += run(part, NonNull::from(&mut low[..]).cast());
            run(part, NonNull::from(&mut high[..]).cast());
            for at in (0..all.len()).filter(|&at| low[at] == high[at]) {
                assert!(!written[at], "byte {at} is written twice");
                (all[at], written[at]) = (low[at], true);
            }
        }
        assert!(written.iter().all(|&written| written), "all is written");
        (all, not_finite)
    };
    // SAFETY: the memory is as long as all values and nothing else uses it.
    results.push(in_parts(&|part, to| unsafe {
        copy.run_part(part, memory, to)
    }));
    if copy.goes_by_rows() {
        // SAFETY: as above.
        results.push(in_parts(&|part, to| unsafe {
            copy.run_rows(part, &memory[input.part(part)], to)
        }));
    }
    results
}

/// Any view, or one of planes or of tokens.
fn plain_view(random: &mut Random) -> (View, [u32; 3]) {
    let shape = [some(random, 70), some(random, 9), some(random, 70)];
    let mut plain = View::plain(shape);
    match random.below(4) {
        0 => plain.digits.rotate_left(1),
        1 => plain.digits.swap(0, 1),
        2 => {}
        _ => {
            let extents = [some(random, 24), some(random, 9), some(random, 24)];
            return view(random, &extents, &AXES);
        }
    }
    // A part of it.
    for (digit, start) in plain.digits.iter_mut().zip(&mut plain.start) {
        if random.below(3) == 0 {
            digit.extent = some(random, digit.extent);
        }
        *start = 0;
    }
    if let Some(first) = plain
        .digits
        .iter()
        .position(|digit| digit.axis == Axis::Channel)
    {
        let digit = plain.digits[first];
        plain.start[0] = random.below(u64::from(shape[0] - digit.extent + 1)) as u32;
    }
    (plain, shape)
}

#[test]
fn unsound_copies_are_refused_with_the_reason() {
    let isa = Isa::Scalar;
    let shape = [8, 5, 6];
    let spec = CopySpec {
        inputs: vec![layout(isa, shape, 0)],
        table: 0,
        output: layout(isa, shape, 1),
        pieces: vec![Piece::whole(View::plain(shape), shape)],
    };
    let refused = |spec: &CopySpec| Copy::new(isa, spec).err();
    assert_eq!(refused(&spec), None);
    let mut beyond = spec.clone();
    beyond.pieces[0].view.start[2] = 1;
    let reason = PieceError::OutsideSource { piece: 0, shape };
    assert_eq!(refused(&beyond), Some(KernelError::Pieces(reason)));
    let quantisation = Quantisation {
        scale: 1.0,
        zero: 0,
    };
    let mut mixed = spec.clone();
    mixed.inputs[0] = mixed.inputs[0].quantised(quantisation).unwrap();
    assert_eq!(
        mixed.inputs[0].element(),
        punctual_kernels::Element::U8(quantisation)
    );
    let reason = refused(&mixed);
    assert!(
        matches!(reason, Some(KernelError::Element { .. })),
        "{reason:?}"
    );
    let mut view = View::plain(shape);
    assert!(PlainCopy::new(isa, spec.output, &view, Element::F32).is_ok());
    view.start[1] = 1;
    let reason = PlainCopy::new(isa, spec.output, &view, Element::F32).err();
    assert_eq!(reason, Some(KernelError::View { shape }));
}

/// A class token before the pixels of an image, and what YOLO's heads and Swin's windows are.
#[test]
fn usual_copies_equal_their_references() {
    let digit = |axis, step, extent| Digit { axis, step, extent };
    let channels = |step, extent| digit(Axis::Channel, step, extent);
    let (row, column) = (
        |step, extent| digit(Axis::Row, step, extent),
        |step, extent| digit(Axis::Column, step, extent),
    );
    let view = |digits: &[Digit]| View {
        start: [0; 3],
        digits: digits.to_vec(),
    };
    let image = [40, 6, 8];
    let tokens = |from, count| ([0, 0, from], [40, 1, count]);
    let piece = |source, view, (at, sizes)| Piece {
        source,
        view,
        at,
        sizes,
    };
    let cases = [
        (
            40,
            [40, 1, 49],
            vec![
                piece(1, view(&[channels(1, 40)]), tokens(0, 1)),
                piece(
                    0,
                    view(&[channels(1, 40), row(1, 6), column(1, 8)]),
                    tokens(1, 48),
                ),
            ],
        ),
        (
            0,
            [10, 1, 192],
            vec![piece(
                0,
                view(&[channels(1, 10), row(1, 6), column(1, 8), channels(10, 4)]),
                ([0; 3], [10, 1, 192]),
            )],
        ),
        // The last channels, in their own lanes, behind others of the same block.
        (
            0,
            [40, 6, 8],
            [(2, 0, 36), (36, 36, 4)]
                .map(|(from, to, count)| Piece {
                    source: 0,
                    view: View {
                        start: [from, 0, 0],
                        digits: vec![channels(1, count), row(1, 6), column(1, 8)],
                    },
                    at: [to, 0, 0],
                    sizes: [count, 6, 8],
                })
                .to_vec(),
        ),
        (
            0,
            [40, 8, 6],
            vec![piece(
                0,
                view(&[
                    channels(1, 40),
                    row(3, 2),
                    column(2, 4),
                    row(1, 3),
                    column(1, 2),
                ]),
                ([0; 3], [40, 8, 6]),
            )],
        ),
    ];
    for isa in Isa::available() {
        for (table, result, pieces) in &cases {
            for halo in 0..2 {
                let spec = CopySpec {
                    inputs: vec![layout(isa, image, halo)],
                    table: *table,
                    output: layout(isa, *result, 1 - halo),
                    pieces: pieces.clone(),
                };
                let copy = Copy::new(isa, &spec).unwrap();
                let (values, constants) = (noise(1, 40 * 48), noise(2, *table));
                let mut packed = vec![f32::NAN; copy.packed_len()];
                copy.pack(&Weights::floats(&[&constants]), &mut packed)
                    .unwrap();
                let memory = [vec![blocked(&spec.inputs[0], &values, 7.0, 1e9)]];
                let found = run_in_parts(3, &spec.output, &memory, &copy, &packed);
                let expected = copied(&spec, &[values], &constants);
                check_output(&spec.output, &found[0], &expected, 0.0);
            }
        }
    }
}
