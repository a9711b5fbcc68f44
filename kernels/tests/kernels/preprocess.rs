//! Preprocessing against plain references in floating point, and those against recorded results of independent libraries
//! (`fast_image_resize`, `yuv`; `testing/vectors` records them).

mod channels;
mod letterbox;
#[allow(unsafe_code, reason = "memory that another thread writes to")]
mod restless;
mod sizes;
mod tensors;

use proptest::prelude::*;
use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_types::{Fit, FrameLayout, PixelFormat, SIDE_MAX, Size};

/// No normalisation: outputs are `byte / 255`.
const PLAIN: ([f32; 4], [f32; 4]) = ([0.0; 4], [1.0; 4]);

/// The formats of pictures, with each number of channels that they give.
const PICTURES: [(PixelFormat, u32); 16] = [
    (PixelFormat::Rgb8, 3),
    (PixelFormat::Rgb8, 1),
    (PixelFormat::Bgr8, 3),
    (PixelFormat::Bgr8, 1),
    (PixelFormat::Nv12, 3),
    (PixelFormat::Nv12, 1),
    (PixelFormat::Yuyv, 3),
    (PixelFormat::Yuyv, 1),
    (PixelFormat::Uyvy, 3),
    (PixelFormat::Uyvy, 1),
    (PixelFormat::Gray8, 3),
    (PixelFormat::Gray8, 1),
    (PixelFormat::Gray16, 3),
    (PixelFormat::Gray16, 1),
    (PixelFormat::Rgba8, 3),
    (PixelFormat::Rgba8, 4),
];

/// For a network of red, green and blue.
fn spec(frame: FrameLayout, crop: Size, output: Size) -> PreprocessSpec {
    PreprocessSpec {
        frame,
        crop,
        output,
        channels: 3,
        fit: Fit::Stretch,
        mean: PLAIN.0,
        std: PLAIN.1,
    }
}

fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

/// Smooth-ish but full-range bytes, a function of the seed.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn run(preprocessor: &mut Preprocessor, frame: &[u8], x: u32, y: u32) -> Vec<f32> {
    let rows = preprocessor.crop_rows(x, y).expect("inside");
    let mut copy = vec![0; rows.copy_len()];
    assert!(copy.len() <= preprocessor.copy_len_max());
    rows.copy_from(frame, &mut copy);
    let Size { width, height } = preprocessor.output();
    let (width, height) = (width as usize, height as usize);
    let mut planes = vec![f32::NAN; preprocessor.channels() * width * height];
    let output = PlanarOutput::packed(&mut planes, width, height);
    preprocessor.run(&rows, &copy, output).expect("a picture");
    planes
}

/// Packed values in 0 to 1, as many a pixel as there are channels, resized in floating point: each output pixel is the mean of the input pixels under a triangle whose half
/// width is the step between output pixels, or one input pixel where that is more.
fn resized(values: &[f64], frame: Size, x: u32, y: u32, crop: Size, output: Size) -> Vec<f32> {
    let channels = values.len() / (frame.width as usize * frame.height as usize);
    let columns = weights(crop.width, output.width);
    let rows = weights(crop.height, output.height);
    let at = |row: usize, column: usize, channel: usize| {
        let pixel = (y as usize + row) * frame.width as usize + x as usize + column;
        values[pixel * channels + channel]
    };
    let value = |channel: usize, row: &[(usize, f64)], column: &[(usize, f64)]| -> f32 {
        let of_row = |&(row, height): &(usize, f64)| -> f64 {
            let pixels = column.iter();
            height
                * pixels
                    .map(|&(column, width)| width * at(row, column, channel))
                    .sum::<f64>()
        };
        row.iter().map(of_row).sum::<f64>() as f32
    };
    let mut planes = Vec::new();
    for channel in 0..channels {
        for row in &rows {
            planes.extend(columns.iter().map(|column| value(channel, row, column)));
        }
    }
    planes
}

/// For each output pixel of a line, the input pixels that it is made of and their shares.
fn weights(from: u32, to: u32) -> Vec<Vec<(usize, f64)>> {
    let step = f64::from(from) / f64::from(to);
    let half_width = step.max(1.0);
    let of_output = |output: u32| {
        let centre = (f64::from(output) + 0.5) * step;
        let weight = |input: u32| 1.0 - ((f64::from(input) + 0.5 - centre) / half_width).abs();
        let inputs = (0..from).map(|input| (input as usize, weight(input)));
        let inputs: Vec<(usize, f64)> = inputs.filter(|(_, weight)| *weight > 0.0).collect();
        let sum: f64 = inputs.iter().map(|(_, weight)| weight).sum();
        inputs
            .into_iter()
            .map(|(input, weight)| (input, weight / sum))
            .collect()
    };
    (0..to).map(of_output).collect()
}

/// What the libraries made of made-up pictures.
#[derive(serde::Deserialize)]
struct Recorded {
    resizes: Vec<Resize>,
    gray16: Vec<Resize>,
    rgba: Vec<Resize>,
    /// Red, green, blue; gray.
    grays: Vec<[u8; 4]>,
    /// Luma, U, V; red, green, blue.
    colours: Vec<[u8; 6]>,
}

#[derive(serde::Deserialize)]
struct Resize {
    crop: [u32; 2],
    output: [u32; 2],
    seed: u64,
    planes: Vec<f32>,
}

fn recorded() -> Recorded {
    let text = include_str!("../vectors/preprocess.json");
    serde_json::from_str(text).expect("what `testing/vectors` wrote")
}

/// A whole frame as the network must see it: packed values in 0 to 1, `channels` for each pixel.
fn values_of(frame: &[u8], layout: &FrameLayout, channels: u32) -> Vec<f64> {
    let (width, height) = (layout.width as usize, layout.height as usize);
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    pixels
        .flat_map(|(x, y)| match channels {
            1 => vec![gray_of(frame, layout, x, y)],
            channels => pixel_of(frame, layout, x, y)[..channels as usize].to_vec(),
        })
        .collect()
}

/// Red, green, blue in 0 to 1, and the fourth value where there is one.
fn pixel_of(frame: &[u8], layout: &FrameLayout, x: usize, y: usize) -> [f64; 4] {
    let row = &frame[layout.offset as usize + y * layout.row_stride as usize..];
    let share = |byte: u8| f64::from(byte) / 255.0;
    let rounded = |rgb: [f64; 3]| rgb.map(|value| value.round() / 255.0);
    let [r, g, b] = match layout.format {
        PixelFormat::Nv12 => {
            let chroma =
                layout.chroma_offset as usize + y / 2 * layout.chroma_stride as usize + x / 2 * 2;
            rounded(rgb_by_formula(row[x], frame[chroma], frame[chroma + 1]))
        }
        PixelFormat::Yuyv => {
            let pair = x / 2 * 4;
            rounded(rgb_by_formula(row[x * 2], row[pair + 1], row[pair + 3]))
        }
        PixelFormat::Uyvy => {
            let pair = x / 2 * 4;
            rounded(rgb_by_formula(row[x * 2 + 1], row[pair], row[pair + 2]))
        }
        PixelFormat::Rgb8 => [0, 1, 2].map(|at| share(row[x * 3 + at])),
        PixelFormat::Bgr8 => [2, 1, 0].map(|at| share(row[x * 3 + at])),
        PixelFormat::Rgba8 => return [0, 1, 2, 3].map(|at| share(row[x * 4 + at])),
        PixelFormat::Gray8 => [share(row[x]); 3],
        PixelFormat::Gray16 => {
            let word = u32::from(row[x * 2]) + 256 * u32::from(row[x * 2 + 1]);
            [f64::from(word) / 65535.0; 3]
        }
        PixelFormat::Tensor => unreachable!("no picture"),
    };
    [r, g, b, f64::NAN]
}

/// A pixel's gray in 0 to 1: of YUV its luma alone.
fn gray_of(frame: &[u8], layout: &FrameLayout, x: usize, y: usize) -> f64 {
    let row = &frame[layout.offset as usize + y * layout.row_stride as usize..];
    let without_chroma = |luma: u8| rgb_by_formula(luma, 128, 128)[0].round() / 255.0;
    let [r, g, b, _] = pixel_of(frame, layout, x, y);
    match layout.format {
        PixelFormat::Nv12 => without_chroma(row[x]),
        PixelFormat::Yuyv => without_chroma(row[x * 2]),
        PixelFormat::Uyvy => without_chroma(row[x * 2 + 1]),
        PixelFormat::Rgb8 | PixelFormat::Bgr8 => {
            ((0.299 * r + 0.587 * g + 0.114 * b) * 255.0).round() / 255.0
        }
        _ => r,
    }
}

/// How far values may be from the reference's: fixed point may round a colour the other way; the resize does not round.
fn tolerance(format: PixelFormat, channels: u32) -> f32 {
    match (format, channels) {
        (PixelFormat::Nv12 | PixelFormat::Yuyv | PixelFormat::Uyvy, _)
        | (PixelFormat::Rgb8 | PixelFormat::Bgr8, 1) => 1.01 / 255.0,
        _ => 1e-5,
    }
}

/// The same frame with bytes before it, behind its rows, and between its planes.
fn moved(packed: FrameLayout, offset: u32, gap: u32, chroma_gap: u32) -> FrameLayout {
    let row_stride = packed.row_stride + gap;
    let (chroma_offset, chroma_stride) = match packed.format {
        PixelFormat::Nv12 => (
            offset + row_stride * packed.height + chroma_gap,
            packed.width + chroma_gap,
        ),
        _ => (0, 0),
    };
    FrameLayout {
        offset,
        row_stride,
        chroma_offset,
        chroma_stride,
        ..packed
    }
}

/// A frame with gaps behind its rows and between its planes, a crop inside at a position, an output size; all of a spec.
fn geometry() -> impl Strategy<Value = (PreprocessSpec, u32, u32)> {
    let format = prop::sample::select(&PICTURES[..]);
    let sides = (2_u32..=48, 2_u32..=48, format, 0_u32..9, 0_u32..9);
    let layout = sides.prop_map(|(width, height, (format, channels), gap, chroma_gap)| {
        let (width, height) = match format {
            PixelFormat::Nv12 => (width & !1, height & !1),
            PixelFormat::Yuyv | PixelFormat::Uyvy => (width & !1, height),
            _ => (width, height),
        };
        let packed = FrameLayout::packed(format, width, height);
        (moved(packed, gap, gap, chroma_gap), channels)
    });
    layout
        .prop_flat_map(|(layout, channels)| {
            let position = (0..layout.width, 0..layout.height);
            (Just(layout), Just(channels), position)
        })
        .prop_flat_map(|(layout, channels, (x, y))| {
            let crop = (1..=layout.width - x, 1..=layout.height - y);
            let output = (1_u32..40, 1_u32..40);
            (Just((layout, channels)), crop, Just((x, y)), output)
        })
        .prop_map(|((layout, channels), crop, (x, y), output)| {
            let (crop, output) = (size(crop.0, crop.1), size(output.0, output.1));
            let spec = PreprocessSpec {
                channels,
                ..spec(layout, crop, output)
            };
            (spec, x, y)
        })
}

proptest! {
    #![proptest_config(crate::support::cases(400))]

    #[test]
    fn agrees_with_the_reference_for_any_geometry(
        (spec, x, y) in geometry(),
        seed in any::<u64>(),
    ) {
        let PreprocessSpec { frame: layout, crop, output, channels, .. } = spec;
        let frame = bytes(layout.len(), seed);
        let mut preprocessor = Preprocessor::new(&spec).expect("valid");
        let ours = run(&mut preprocessor, &frame, x, y);
        let values = values_of(&frame, &layout, channels);
        let theirs = resized(&values, layout.size(), x, y, crop, output);
        prop_assert_eq!(ours.len(), theirs.len());
        let tolerance = tolerance(layout.format, channels);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            prop_assert!((ours - theirs).abs() <= tolerance, "{ours} is not {theirs}");
        }
    }

    #[test]
    fn a_frame_that_lies_otherwise_gives_the_same_input(
        (spec, x, y) in geometry(),
        seed in any::<u64>(),
        (offset, gap, chroma_gap) in (0_u32..99, 0_u32..70, 0_u32..70),
    ) {
        let layout = spec.frame;
        let packed = FrameLayout::packed(layout.format, layout.width, layout.height);
        let spec = PreprocessSpec { frame: packed, ..spec };
        let elsewhere = moved(packed, offset, gap, chroma_gap);
        let (frame, mut other) = (bytes(packed.len(), seed), bytes(elsewhere.len(), !seed));
        let mut preprocessor = Preprocessor::new(&spec).expect("valid");
        let whole = PreprocessSpec { crop: packed.size(), ..spec };
        let whole = Preprocessor::new(&whole).expect("valid");
        let (from, to) = (whole.crop_rows(0, 0), whole.crop_rows_in(&elsewhere, 0, 0));
        let (from, to) = (from.expect("inside"), to.expect("inside"));
        for (from, to) in from.planes().iter().zip(to.planes()) {
            for ((from_row, _), (to_row, _)) in from.rows().zip(to.rows()) {
                other[to_row..to_row + to.len]
                    .copy_from_slice(&frame[from_row..from_row + from.len]);
            }
        }
        let rows = preprocessor.crop_rows_in(&elsewhere, x, y).expect("inside");
        let mut copy = vec![0; rows.copy_len()];
        rows.copy_from(&other, &mut copy);
        let (width, height) = (spec.output.width as usize, spec.output.height as usize);
        let mut planes = vec![f32::NAN; spec.channels as usize * width * height];
        let output = PlanarOutput::packed(&mut planes, width, height);
        preprocessor.run(&rows, &copy, output).expect("a picture");
        prop_assert_eq!(planes, run(&mut preprocessor, &frame, x, y));
    }

    #[test]
    fn a_frame_is_prepared_where_it_lies_as_its_copy_is(
        (spec, x, y) in geometry(),
        seed in any::<u64>(),
    ) {
        let frame = bytes(spec.frame.len(), seed);
        let mut preprocessor = Preprocessor::new(&spec).expect("valid");
        let of_copy = run(&mut preprocessor, &frame, x, y);
        let (width, height) = (spec.output.width as usize, spec.output.height as usize);
        let mut planes = vec![f32::NAN; spec.channels as usize * width * height];
        let output = PlanarOutput::packed(&mut planes, width, height);
        let rows = preprocessor.crop_rows(x, y).expect("inside");
        let prepared = preprocessor.run_in_place(&rows, frame[..].into(), output);
        prepared.expect("a picture");
        prop_assert_eq!(planes, of_copy);
    }

    #[test]
    fn only_the_crop_decides(
        (spec, x, y) in geometry(),
        seed in any::<u64>(),
    ) {
        let layout = spec.frame;
        let frame = bytes(layout.len(), seed);
        let mut preprocessor = Preprocessor::new(&spec).expect("valid");
        let rows = preprocessor.crop_rows(x, y).expect("inside");
        let mut elsewhere = bytes(layout.len(), !seed);
        for plane in rows.planes() {
            for (from, _) in plane.rows() {
                elsewhere[from..from + plane.len].copy_from_slice(&frame[from..from + plane.len]);
            }
        }
        prop_assert_eq!(
            run(&mut preprocessor, &frame, x, y),
            run(&mut preprocessor, &elsewhere, x, y)
        );
    }

    #[test]
    fn refused_geometry_gives_an_error_and_never_a_panic(
        format in prop::sample::select(&PixelFormat::ALL[..]),
        offset in prop_oneof![0_u32..70, any::<u32>()],
        sides in prop::array::uniform6(prop_oneof![0_u32..70, Just(SIDE_MAX + 1), Just(u32::MAX)]),
        strides in prop::array::uniform3(prop_oneof![0_u32..6000, any::<u32>()]),
        channels in 0_u32..7,
        std in prop_oneof![Just(0.0), Just(f32::NAN), Just(-1.0), Just(0.2)],
        position in (any::<u32>(), any::<u32>()),
    ) {
        let frame = FrameLayout {
            format,
            offset,
            width: sides[0],
            height: sides[1],
            row_stride: strides[0],
            chroma_offset: strides[1],
            chroma_stride: strides[2],
        };
        let crop = size(sides[2], sides[3]);
        let mut spec = spec(frame, crop, size(sides[4], sides[5]));
        spec.std = [std; 4];
        spec.channels = channels;
        if let Ok(preprocessor) = Preprocessor::new(&spec) {
            let (x, y) = position;
            match preprocessor.crop_rows(x, y) {
                Ok(rows) => {
                    for plane in rows.planes() {
                        for (from, to) in plane.rows() {
                            prop_assert!(from + plane.len <= frame.len());
                            prop_assert!(to + plane.len <= rows.copy_len());
                        }
                    }
                }
                Err(error) => {
                    let crop = match format {
                        PixelFormat::Tensor => frame.size(),
                        _ => crop,
                    };
                    let (x_max, y_max) = (frame.width - crop.width, frame.height - crop.height);
                    prop_assert_eq!(
                        error,
                        PreprocessError::CropPosition { x, y, x_max, y_max }
                    );
                    prop_assert!(x > x_max || y > y_max);
                }
            }
        }
    }
}

#[test]
fn colours_of_nv12_are_those_of_bt_601_limited_range() {
    // Luma, U, V of the eight corner colours as in ITU-R BT.601, rounded.
    let corners = [
        ([16, 128, 128], [0, 0, 0]),
        ([235, 128, 128], [255, 255, 255]),
        ([81, 90, 240], [255, 0, 0]),
        ([145, 54, 34], [0, 255, 0]),
        ([41, 240, 110], [0, 0, 255]),
        ([210, 16, 146], [255, 255, 0]),
    ];
    let layout = FrameLayout::packed(PixelFormat::Nv12, 2, 2);
    let mut preprocessor = Preprocessor::new(&spec(layout, size(1, 1), size(1, 1))).expect("valid");
    for ([luma, u, v], rgb) in corners {
        let planes = run(&mut preprocessor, &[luma, luma, luma, luma, u, v], 1, 1);
        for (plane, expected) in planes.iter().zip(rgb) {
            assert!(
                (plane * 255.0 - expected as f32).abs() <= 2.0,
                "{planes:?} is not {rgb:?}"
            );
        }
    }
}

/// ITU-R BT.601 limited range, inverted in floating point.
fn rgb_by_formula(luma: u8, u: u8, v: u8) -> [f64; 3] {
    let luma = (f64::from(luma) - 16.0) * 255.0 / 219.0;
    let (u, v) = (
        (f64::from(u) - 128.0) * 255.0 / 224.0,
        (f64::from(v) - 128.0) * 255.0 / 224.0,
    );
    [
        luma + 1.402 * v,
        luma - 1.772 * 0.114 / 0.587 * u - 1.402 * 0.299 / 0.587 * v,
        luma + 1.772 * u,
    ]
    .map(|value| value.clamp(0.0, 255.0))
}

#[test]
fn resizes_and_their_reference_agree_with_the_library() {
    for case in recorded().resizes {
        let (crop, output) = (
            size(case.crop[0], case.crop[1]),
            size(case.output[0], case.output[1]),
        );
        let layout = FrameLayout::packed(PixelFormat::Rgb8, crop.width, crop.height);
        let frame = bytes(layout.len(), case.seed);
        let mut preprocessor = Preprocessor::new(&spec(layout, crop, output)).expect("valid");
        let ours = run(&mut preprocessor, &frame, 0, 0);
        let reference = resized(&values_of(&frame, &layout, 3), crop, 0, 0, crop, output);
        assert_eq!(ours.len(), case.planes.len());
        for ((ours, reference), library) in ours.iter().zip(&reference).zip(&case.planes) {
            assert!((ours - library).abs() <= 1e-5, "{ours} is not {library}");
            assert!(
                (reference - library).abs() <= 1e-5,
                "{reference} is not {library}"
            );
        }
    }
}

#[test]
fn colours_are_the_formulas_rounded_and_the_librarys_within_two_levels() {
    for [luma, u, v, colour @ ..] in recorded().colours {
        let formula = rgb_by_formula(luma, u, v);
        for (formula, library) in formula.iter().zip(colour) {
            let difference = formula - f64::from(library);
            assert!(
                difference.abs() < 2.01,
                "u {u} v {v} luma {luma}: {difference}"
            );
        }
    }
    // 256 lumas along a row, one (u, v) a pair of rows; each 2x2 block has one chroma sample.
    let layout = FrameLayout::packed(PixelFormat::Nv12, 256, 2);
    let mut preprocessor =
        Preprocessor::new(&spec(layout, size(256, 1), size(256, 1))).expect("valid");
    for chroma in 0..1024_u32 {
        let (u, v) = ((chroma % 32) * 8 + 4, (chroma / 32) * 8 + 4);
        let mut frame: Vec<u8> = (0..=255).chain(0..=255).collect();
        frame.extend([u as u8, v as u8].repeat(128));
        let ours = run(&mut preprocessor, &frame, 0, 0);
        for (index, ours) in ours.iter().enumerate() {
            let (channel, x) = (index / 256, index % 256);
            let ours = f64::from(ours * 255.0);
            let formula = rgb_by_formula(x as u8, u as u8, v as u8)[channel];
            assert!(
                (ours - formula).abs() < 0.55,
                "u {u} v {v} luma {x}: {ours} not {formula}"
            );
        }
    }
}

#[test]
fn each_format_says_the_same_of_the_same_picture() {
    // Two red pixels and two of middle gray, in the words of each format.
    let red_yuv = [81_u8, 90, 240];
    let gray_yuv = [126_u8, 128, 128];
    let yuyv = |[y, u, v]: [u8; 3]| [y, u, y, v];
    let uyvy = |[y, u, v]: [u8; 3]| [u, y, v, y];
    for (format, red, gray) in [
        (
            PixelFormat::Rgb8,
            [255, 0, 0, 255, 0, 0].to_vec(),
            vec![128; 6],
        ),
        (
            PixelFormat::Bgr8,
            [0, 0, 255, 0, 0, 255].to_vec(),
            vec![128; 6],
        ),
        (
            PixelFormat::Yuyv,
            yuyv(red_yuv).to_vec(),
            yuyv(gray_yuv).to_vec(),
        ),
        (
            PixelFormat::Uyvy,
            uyvy(red_yuv).to_vec(),
            uyvy(gray_yuv).to_vec(),
        ),
        (PixelFormat::Gray8, vec![255; 2], vec![128; 2]),
    ] {
        let layout = FrameLayout::packed(format, 2, 2);
        let mut preprocessor =
            Preprocessor::new(&spec(layout, size(1, 1), size(1, 1))).expect("valid");
        let frame = [red, gray].concat();
        let red = match format {
            PixelFormat::Gray8 => [255.0; 3],
            _ => [255.0, 0.0, 0.0],
        };
        for (x, y, expected) in [(0, 0, red), (1, 0, red), (1, 1, [128.0; 3])] {
            let planes = run(&mut preprocessor, &frame, x, y);
            for (plane, expected) in planes.iter().zip(expected) {
                assert!(
                    (plane * 255.0 - expected).abs() <= 2.0,
                    "{format:?} {planes:?}"
                );
            }
        }
    }
}

#[test]
fn uyvy_is_yuyv_with_the_bytes_of_each_pixel_swapped_to_the_last_bit() {
    // More than a piece of a row, from an odd column on.
    let layout = |format| FrameLayout::packed(format, 450, 9);
    let yuyv = bytes(layout(PixelFormat::Yuyv).len(), 7);
    let pixels = yuyv.as_chunks::<2>().0.iter();
    let uyvy: Vec<u8> = pixels.flat_map(|[luma, chroma]| [*chroma, *luma]).collect();
    for channels in [1, 3] {
        let prepared = |format, frame: &[u8]| {
            let spec = PreprocessSpec {
                channels,
                ..spec(layout(format), size(433, 8), size(100, 5))
            };
            let mut preprocessor = Preprocessor::new(&spec).expect("valid");
            run(&mut preprocessor, frame, 13, 1)
        };
        let swapped = prepared(PixelFormat::Uyvy, &uyvy);
        assert_eq!(swapped, prepared(PixelFormat::Yuyv, &yuyv), "{channels}");
    }
}

#[test]
fn normalisation_subtracts_the_mean_and_divides_by_the_std() {
    let frame = FrameLayout::packed(PixelFormat::Rgb8, 1, 1);
    let spec = PreprocessSpec {
        mean: [0.5, 0.25, 0.0, f32::NAN],
        std: [0.5, 0.25, 2.0, 0.0],
        ..spec(frame, size(1, 1), size(1, 1))
    };
    let mut preprocessor = Preprocessor::new(&spec).expect("valid");
    let planes = run(&mut preprocessor, &[255, 0, 51], 0, 0);
    for (plane, expected) in planes.iter().zip([1.0, -1.0, 0.1]) {
        assert!((plane - expected).abs() < 1e-6);
    }
}

#[test]
fn strides_of_the_output_leave_the_halo_alone() {
    let frame = FrameLayout::packed(PixelFormat::Rgb8, 4, 4);
    let mut preprocessor = Preprocessor::new(&spec(frame, size(4, 4), size(2, 2))).expect("valid");
    let pixels = [255; 48];
    let rows = preprocessor.crop_rows(0, 0).expect("inside");
    let mut halo = [-7.0_f32; 64];
    let output = PlanarOutput {
        data: &mut halo,
        offset: 5,
        row_stride: 4,
        plane_stride: 16,
    };
    preprocessor.run(&rows, &pixels, output).expect("a picture");
    for (index, value) in halo.iter().enumerate() {
        let inside =
            index >= 5 && (index - 5) / 16 < 3 && ((index - 5) % 16) / 4 < 2 && (index - 5) % 4 < 2;
        let expected = if inside { 1.0 } else { -7.0 };
        assert!((value - expected).abs() < 1e-6, "element {index}: {value}");
    }
}

#[test]
fn errors_name_the_value_and_the_limit() {
    let frame = FrameLayout {
        row_stride: 1919,
        ..FrameLayout::packed(PixelFormat::Rgb8, 640, 480)
    };
    let error = Preprocessor::new(&spec(frame, size(1, 1), size(1, 1))).expect_err("overlapping");
    assert_eq!(
        error.to_string(),
        "the stride of rgb8 is 1919 bytes, but a row has 1920"
    );
    let frame = FrameLayout::packed(PixelFormat::Yuyv, 641, 480);
    let error = Preprocessor::new(&spec(frame, size(1, 1), size(1, 1))).expect_err("odd");
    assert_eq!(
        error.to_string(),
        "a frame of yuyv needs an even width, but has 641 columns"
    );
    let packed = FrameLayout::packed(PixelFormat::Gray8, 8, 4);
    let other = FrameLayout::packed(PixelFormat::Gray8, 8, 5);
    let preprocessor = Preprocessor::new(&spec(packed, size(1, 1), size(1, 1))).expect("valid");
    let error = preprocessor.crop_rows_in(&other, 0, 0).expect_err("taller");
    assert_eq!(
        error.to_string(),
        "a layout of other frames: gray8 of 8x5 instead of gray8 of 8x4"
    );
    let frame = FrameLayout::packed(PixelFormat::Nv12, 640, 480);
    let preprocessor =
        Preprocessor::new(&spec(frame, size(192, 192), size(64, 64))).expect("valid");
    let error = preprocessor.crop_rows(449, 0).expect_err("outside");
    assert_eq!(
        error.to_string(),
        "a crop at (449, 0) reaches beyond the frame; x is at most 448, y at most 288"
    );
}
