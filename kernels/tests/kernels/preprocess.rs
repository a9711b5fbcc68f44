//! Preprocessing against plain references in floating point, and those against recorded results of independent libraries
//! (`fast_image_resize`, `yuv`; `testing/vectors` records them).

use proptest::prelude::*;
use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_types::{FrameLayout, PixelFormat, SIDE_MAX, Size};

/// No normalisation: outputs are `byte / 255`.
const PLAIN: ([f32; 3], [f32; 3]) = ([0.0; 3], [1.0; 3]);

fn spec(frame: FrameLayout, crop: Size, output: Size) -> PreprocessSpec {
    PreprocessSpec {
        frame,
        crop,
        output,
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
    let mut planes = vec![f32::NAN; 3 * width * height];
    preprocessor.run(
        &rows,
        &copy,
        PlanarOutput::packed(&mut planes, width, height),
    );
    planes
}

/// Packed RGB resized in floating point: each output pixel is the mean of the input pixels under a triangle whose half
/// width is the step between output pixels, or one input pixel where that is more.
fn resized(rgb: &[u8], frame: Size, x: u32, y: u32, crop: Size, output: Size) -> Vec<f32> {
    let columns = weights(crop.width, output.width);
    let rows = weights(crop.height, output.height);
    let at = |row: usize, column: usize, channel: usize| {
        let pixel = (y as usize + row) * frame.width as usize + x as usize + column;
        f64::from(rgb[pixel * 3 + channel]) / 255.0
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
    for channel in 0..3 {
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

/// Packed RGB of a whole frame.
fn rgb_of(frame: &[u8], layout: &FrameLayout) -> Vec<u8> {
    match layout.format {
        PixelFormat::Nv12 => {
            let (width, height) = (layout.width as usize, layout.height as usize);
            let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
            pixels
                .flat_map(|(x, y)| {
                    let luma = frame[layout.offset as usize + y * layout.row_stride as usize + x];
                    let chroma = layout.chroma_offset as usize
                        + y / 2 * layout.chroma_stride as usize
                        + x / 2 * 2;
                    rgb_by_formula(luma, frame[chroma], frame[chroma + 1])
                })
                .map(|value| value.round() as u8)
                .collect()
        }
        PixelFormat::Rgb8 => pixels_of(frame, layout, |row, x| {
            [row[x * 3], row[x * 3 + 1], row[x * 3 + 2]]
        }),
        PixelFormat::Bgr8 => pixels_of(frame, layout, |row, x| {
            [row[x * 3 + 2], row[x * 3 + 1], row[x * 3]]
        }),
        PixelFormat::Gray8 => pixels_of(frame, layout, |row, x| [row[x]; 3]),
        PixelFormat::Yuyv => pixels_of(frame, layout, |row, x| {
            let pair = x / 2 * 4;
            rgb_by_formula(row[x * 2], row[pair + 1], row[pair + 3])
                .map(|value| value.round() as u8)
        }),
    }
}

/// Packed RGB of a frame with one plane, pixel by pixel.
fn pixels_of(frame: &[u8], layout: &FrameLayout, pixel: fn(&[u8], usize) -> [u8; 3]) -> Vec<u8> {
    let rows = frame[layout.offset as usize..].chunks(layout.row_stride as usize);
    rows.take(layout.height as usize)
        .flat_map(|row| (0..layout.width as usize).flat_map(move |x| pixel(row, x)))
        .collect()
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

/// A frame with gaps behind its rows and between its planes, a crop inside, an output size.
fn geometry() -> impl Strategy<Value = (FrameLayout, Size, u32, u32, Size)> {
    let format = prop::sample::select(&PixelFormat::ALL[..]);
    let sides = (2_u32..=48, 2_u32..=48, format, 0_u32..9, 0_u32..9);
    let layout = sides.prop_map(|(width, height, format, gap, chroma_gap)| {
        let (width, height) = match format {
            PixelFormat::Nv12 => (width & !1, height & !1),
            PixelFormat::Yuyv => (width & !1, height),
            _ => (width, height),
        };
        moved(
            FrameLayout::packed(format, width, height),
            gap,
            gap,
            chroma_gap,
        )
    });
    layout
        .prop_flat_map(|layout| (Just(layout), 0..layout.width, 0..layout.height))
        .prop_flat_map(|(layout, x, y)| {
            let crop = (1..=layout.width - x, 1..=layout.height - y);
            (Just(layout), crop, Just(x), Just(y), (1_u32..40, 1_u32..40))
        })
        .prop_map(|(layout, crop, x, y, output)| {
            (layout, size(crop.0, crop.1), x, y, size(output.0, output.1))
        })
}

proptest! {
    #![proptest_config(crate::support::cases(400))]

    #[test]
    fn agrees_with_the_reference_for_any_geometry(
        (layout, crop, x, y, output) in geometry(),
        seed in any::<u64>(),
    ) {
        let frame = bytes(layout.len(), seed);
        let mut preprocessor = Preprocessor::new(&spec(layout, crop, output)).expect("valid");
        let ours = run(&mut preprocessor, &frame, x, y);
        let rgb = rgb_of(&frame, &layout);
        let theirs = resized(&rgb, layout.size(), x, y, crop, output);
        // Fixed point may round a colour the other way; the resize does not round.
        let tolerance = match layout.format {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 | PixelFormat::Gray8 => 1e-5,
            PixelFormat::Nv12 | PixelFormat::Yuyv => 1.01 / 255.0,
        };
        for (ours, theirs) in ours.iter().zip(&theirs) {
            prop_assert!((ours - theirs).abs() <= tolerance, "{ours} is not {theirs}");
        }
    }

    #[test]
    fn a_frame_that_lies_otherwise_gives_the_same_input(
        (layout, crop, x, y, output) in geometry(),
        seed in any::<u64>(),
        (offset, gap, chroma_gap) in (0_u32..99, 0_u32..70, 0_u32..70),
    ) {
        let packed = FrameLayout::packed(layout.format, layout.width, layout.height);
        let elsewhere = moved(packed, offset, gap, chroma_gap);
        let (frame, mut other) = (bytes(packed.len(), seed), bytes(elsewhere.len(), !seed));
        let mut preprocessor = Preprocessor::new(&spec(packed, crop, output)).expect("valid");
        let whole = Preprocessor::new(&spec(packed, packed.size(), output)).expect("valid");
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
        let (width, height) = (output.width as usize, output.height as usize);
        let mut planes = vec![f32::NAN; 3 * width * height];
        preprocessor.run(&rows, &copy, PlanarOutput::packed(&mut planes, width, height));
        prop_assert_eq!(planes, run(&mut preprocessor, &frame, x, y));
    }

    #[test]
    fn only_the_crop_decides(
        (layout, crop, x, y, output) in geometry(),
        seed in any::<u64>(),
    ) {
        let frame = bytes(layout.len(), seed);
        let mut preprocessor = Preprocessor::new(&spec(layout, crop, output)).expect("valid");
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
        spec.std = [std; 3];
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
        let reference = resized(&frame, crop, 0, 0, crop, output);
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
fn normalisation_subtracts_the_mean_and_divides_by_the_std() {
    let frame = FrameLayout::packed(PixelFormat::Rgb8, 1, 1);
    let spec = PreprocessSpec {
        mean: [0.5, 0.25, 0.0],
        std: [0.5, 0.25, 2.0],
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
    preprocessor.run(
        &rows,
        &pixels,
        PlanarOutput {
            data: &mut halo,
            offset: 5,
            row_stride: 4,
            plane_stride: 16,
        },
    );
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
        "a YUYV frame needs an even width, but has 641 columns"
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
