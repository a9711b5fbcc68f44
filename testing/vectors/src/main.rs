//! What `fast_image_resize` and `yuv` make of made-up pictures, as JSON, one case a line:
//!
//! ```sh
//! cargo run --release --manifest-path testing/vectors/Cargo.toml > kernels/tests/vectors/preprocess.json
//! ```
//!
//! `resizes`: `crop` and `output` in pixels (width, height), the `seed` of [`bytes`], and `planes`, the three planes of the
//! result in 0 to 1. `gray16` and `rgba`: the same of one sample of two bytes a pixel, the low one first, and of four
//! samples of a byte. `colours`: luma, U, V, and the library's red, green, blue. `grays`: red, green, blue, and the
//! library's gray.
#![forbid(unsafe_code)]

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{F32, F32x3, F32x4};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use yuv::{YuvBiPlanarImage, YuvGrayImageMut, YuvConversionMode, YuvRange, YuvStandardMatrix};

/// Sizes from and to: smaller, larger, the same, one side each, one pixel.
const SIZES: [([u32; 2], [u32; 2]); 24] = [
    ([1, 1], [1, 1]),
    ([1, 1], [5, 3]),
    ([2, 2], [1, 1]),
    ([2, 2], [3, 3]),
    ([3, 5], [5, 3]),
    ([4, 4], [4, 4]),
    ([5, 4], [7, 8]),
    ([7, 3], [2, 9]),
    ([8, 8], [4, 4]),
    ([9, 9], [4, 4]),
    ([10, 7], [3, 2]),
    ([12, 12], [5, 5]),
    ([13, 2], [1, 6]),
    ([16, 16], [8, 8]),
    ([16, 16], [9, 7]),
    ([17, 31], [8, 6]),
    ([20, 10], [10, 10]),
    ([24, 24], [7, 7]),
    ([31, 17], [5, 10]),
    ([32, 32], [1, 1]),
    ([33, 29], [8, 8]),
    ([40, 40], [9, 9]),
    ([47, 48], [6, 6]),
    ([48, 48], [10, 5]),
];

fn main() {
    println!("{{\"resizes\": [");
    for (index, (crop, output)) in SIZES.into_iter().enumerate() {
        let seed = index as u64 + 1;
        let planes = resized(&bytes((crop[0] * crop[1] * 3) as usize, seed), crop, output);
        let case = serde_json::json!({ "crop": crop, "output": output, "seed": seed, "planes": planes });
        println!("{case}{}", if index + 1 < SIZES.len() { "," } else { "" });
    }
    println!("], \"colours\": [");
    let chroma = || (0..8).map(|step| step * 32 + 12);
    for u in chroma() {
        for v in chroma() {
            let row: Vec<[u8; 6]> = (0..16).map(|step| colour(16 + step * 15, u, v)).collect();
            let last = u == 236 && v == 236;
            let row = serde_json::json!(row).to_string();
            println!("{}{}", &row[1..row.len() - 1], if last { "" } else { "," });
        }
    }
    println!("], \"gray16\": [");
    let gray16 = |bytes: &[u8]| -> Vec<F32> {
        let words = bytes.as_chunks::<2>().0.iter();
        words.map(|word| F32::new(f32::from(u16::from_le_bytes(*word)) / 65535.0)).collect()
    };
    further(2, gray16, |pixel: &F32, _| pixel.0);
    println!("], \"rgba\": [");
    let rgba = |bytes: &[u8]| -> Vec<F32x4> {
        let pixels = bytes.as_chunks::<4>().0.iter();
        pixels.map(|pixel| F32x4::new(pixel.map(|byte| f32::from(byte) / 255.0))).collect()
    };
    further(4, rgba, |pixel: &F32x4, channel| pixel.0[channel]);
    println!("], \"grays\": [");
    let levels = || (0..6).map(|step| step * 51);
    for red in levels() {
        for green in levels() {
            let row: Vec<[u8; 4]> = levels().map(|blue| gray([red, green, blue])).collect();
            let last = red == 255 && green == 255;
            let row = serde_json::json!(row).to_string();
            println!("{}{}", &row[1..row.len() - 1], if last { "" } else { "," });
        }
    }
    println!("]}}");
}

/// Every third size, with pixels of `pixel_bytes` bytes.
fn further<P: PixelTrait>(
    pixel_bytes: u32,
    pixels: impl Fn(&[u8]) -> Vec<P>,
    value: impl Fn(&P, usize) -> f32,
) {
    let sizes: Vec<_> = SIZES.into_iter().step_by(3).collect();
    for (index, (crop, output)) in sizes.iter().enumerate() {
        let seed = index as u64 + 101;
        let frame = bytes((crop[0] * crop[1] * pixel_bytes) as usize, seed);
        let target = resized_pixels(&pixels(&frame), *crop, *output);
        let channels = P::count_of_components();
        let plane = |channel: usize| target.iter().map(|pixel| value(pixel, channel)).collect::<Vec<_>>();
        let planes: Vec<f32> = (0..channels).flat_map(plane).collect();
        let case = serde_json::json!({ "crop": crop, "output": output, "seed": seed, "planes": planes });
        println!("{case}{}", if index + 1 < sizes.len() { "," } else { "" });
    }
}

/// The same as in `kernels/tests/kernels/preprocess.rs`.
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

fn resized(rgb: &[u8], crop: [u32; 2], output: [u32; 2]) -> Vec<f32> {
    let pixels: Vec<F32x3> = rgb.as_chunks::<3>().0.iter().map(|pixel| F32x3::new(pixel.map(f32::from))).collect();
    let target = resized_pixels(&pixels, crop, output);
    let plane = |channel: usize| target.iter().map(move |pixel| pixel.0[channel] / 255.0).collect::<Vec<_>>();
    (0..3).flat_map(plane).collect()
}

/// A fourth value is no transparency: it weighs nothing.
fn resized_pixels<P: PixelTrait>(pixels: &[P], crop: [u32; 2], output: [u32; 2]) -> Vec<P> {
    let source = TypedImageRef::new(crop[0], crop[1], pixels).expect("a source image");
    let mut target = TypedImage::<P>::new(output[0], output[1]);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).use_alpha(false);
    Resizer::new().resize_typed(&source, &mut target, &options).expect("it resizes");
    target.pixels().to_vec()
}

fn gray(rgb: [u8; 3]) -> [u8; 4] {
    let mut image = YuvGrayImageMut::<u8>::alloc(2, 2);
    yuv::rgb_to_yuv400(&mut image, &rgb.repeat(4), 6, YuvRange::Full, YuvStandardMatrix::Bt601).expect("it converts");
    [rgb[0], rgb[1], rgb[2], image.y_plane.borrow()[0]]
}

fn colour(luma: u8, u: u8, v: u8) -> [u8; 6] {
    let image = YuvBiPlanarImage {
        y_plane: &[luma; 4],
        y_stride: 2,
        uv_plane: &[u, v],
        uv_stride: 2,
        width: 2,
        height: 2,
    };
    let mut rgb = [0; 12];
    let (range, matrix) = (YuvRange::Limited, YuvStandardMatrix::Bt601);
    yuv::yuv_nv12_to_rgb(&image, &mut rgb, 6, range, matrix, YuvConversionMode::Balanced).expect("it converts");
    [luma, u, v, rgb[0], rgb[1], rgb[2]]
}
