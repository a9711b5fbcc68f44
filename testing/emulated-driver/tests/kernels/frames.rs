//! Frames of cameras, against the processor's preprocessing.
use crate::buffer::Buffer;
use crate::launch::launch;
use crate::tensor::{Tensor, shape};
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::Preprocess;
use punctual_kernels::preprocess::{PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_types::{Fit, FrameLayout, PixelFormat, Random, Size};

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// What weights computed in `f32` may change of a byte's full scale, positions being below 64.
const WEIGHTS: f32 = 2e-5;

struct Geometry {
    frame: Size,
    crop: Size,
    at: (u32, u32),
    output: Size,
}

const fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

/// Smaller, larger, the same, and odd positions.
const GEOMETRIES: [Geometry; 4] = [
    Geometry {
        frame: size(64, 48),
        crop: size(51, 37),
        at: (5, 7),
        output: size(17, 13),
    },
    Geometry {
        frame: size(20, 16),
        crop: size(9, 7),
        at: (11, 9),
        output: size(21, 16),
    },
    Geometry {
        frame: size(12, 10),
        crop: size(12, 10),
        at: (0, 0),
        output: size(12, 10),
    },
    Geometry {
        frame: size(40, 6),
        crop: size(39, 1),
        at: (1, 3),
        output: size(1, 4),
    },
];

fn expected(geometry: &Geometry, layout: FrameLayout, frame: &[u8]) -> Vec<f32> {
    let mut preprocessor = Preprocessor::new(&PreprocessSpec {
        frame: layout,
        crop: geometry.crop,
        output: geometry.output,
        channels: 3,
        fit: Fit::Stretch,
        mean: [MEAN[0], MEAN[1], MEAN[2], 0.0],
        std: [STD[0], STD[1], STD[2], 1.0],
    })
    .expect("a geometry");
    let rows = preprocessor
        .crop_rows(geometry.at.0, geometry.at.1)
        .expect("inside");
    let mut copy = vec![0; preprocessor.copy_len_max()];
    rows.copy_from(frame, &mut copy);
    let (width, height) = (
        geometry.output.width as usize,
        geometry.output.height as usize,
    );
    let mut planes = vec![0.0; 3 * width * height];
    let output = PlanarOutput::packed(&mut planes, width, height);
    preprocessor.run(&rows, &copy, output).expect("a picture");
    planes
}

/// The first plane's bytes and row, and where the second plane begins and its row.
struct Frame<'a> {
    bytes: &'a [u8],
    stride: u32,
    chroma: Option<(u64, u32)>,
}

fn check(kernel: &str, geometry: &Geometry, frame: &Frame, expected: &[f32]) {
    let mut bytes = Buffer::of(frame.bytes.iter().map(|&byte| [byte]));
    let (width, height) = (
        geometry.output.width as usize,
        geometry.output.height as usize,
    );
    let mut output = Tensor::unwritten(shape(3, height, width), 1);
    let address = bytes.address();
    launch(
        kernel,
        Arguments::Preprocess(Preprocess {
            frame: address,
            chroma: frame.chroma.map_or(0, |(offset, _)| address + offset),
            output: output.view(),
            stride: frame.stride,
            chroma_stride: frame.chroma.map_or(0, |(_, stride)| stride),
            crop_x: geometry.at.0,
            crop_y: geometry.at.1,
            crop_width: geometry.crop.width,
            crop_height: geometry.crop.height,
            mean: MEAN,
            factor: STD.map(|std| 1.0 / std),
        }),
    );
    for (found, expected) in output.planar()[0].iter().zip(expected) {
        let error = (found - expected).abs();
        let allowed = WEIGHTS / 0.2 + expected.abs() / 2048.0;
        assert!(error <= allowed, "{kernel}: {found}, not {expected}");
    }
}

fn random_bytes(count: usize) -> Vec<u8> {
    let mut random = Random::new(13);
    (0..count)
        .map(|_| (random.next_u64() >> 56) as u8)
        .collect()
}

#[test]
fn frames_of_three_bytes_a_pixel() {
    for geometry in &GEOMETRIES {
        let Size { width, height } = geometry.frame;
        let mut layout = FrameLayout::packed(PixelFormat::Rgb8, width, height);
        layout.row_stride += 5;
        let bytes = random_bytes(layout.len());
        let frame = Frame {
            bytes: &bytes,
            stride: layout.row_stride,
            chroma: None,
        };
        let expected = expected(geometry, layout, &bytes);
        check("preprocess_rgb8", geometry, &frame, &expected);
    }
}

#[test]
fn frames_of_luma_and_chroma_planes() {
    for geometry in &GEOMETRIES {
        let Size { width, height } = geometry.frame;
        let layout = FrameLayout::packed(PixelFormat::Nv12, width, height);
        let bytes = random_bytes(layout.len());
        let frame = Frame {
            bytes: &bytes,
            stride: layout.row_stride,
            chroma: Some((layout.chroma_offset.into(), layout.chroma_stride)),
        };
        let expected = expected(geometry, layout, &bytes);
        check("preprocess_nv12", geometry, &frame, &expected);
    }
}

#[test]
fn frames_of_luma_and_chroma_side_by_side() {
    // The processor's preprocessing does not know this format: a frame of the other one whose pairs of
    // rows share their chroma has the same pixels.
    for geometry in &GEOMETRIES {
        let Size { width, height } = geometry.frame;
        let layout = FrameLayout::packed(PixelFormat::Nv12, width, height);
        let planes = random_bytes(layout.len());
        let mut pairs = Vec::new();
        for y in 0..height as usize {
            let luma = &planes[y * width as usize..][..width as usize];
            let chroma = layout.chroma_offset as usize + y / 2 * width as usize;
            let chroma = &planes[chroma..][..width as usize];
            for x in (0..width as usize).step_by(2) {
                pairs.extend([luma[x], chroma[x], luma[x + 1], chroma[x + 1]]);
            }
        }
        let frame = Frame {
            bytes: &pairs,
            stride: width * 2,
            chroma: None,
        };
        let expected = expected(geometry, layout, &planes);
        check("preprocess_yuyv", geometry, &frame, &expected);
    }
}
