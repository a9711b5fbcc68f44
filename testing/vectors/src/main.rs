//! What `fast_image_resize` and `yuv` make of made-up pictures, as JSON, one case a line:
//!
//! ```sh
//! cargo run --release --manifest-path testing/vectors/Cargo.toml > kernels/tests/vectors/preprocess.json
//! ```
//!
//! `resizes`: `crop` and `output` in pixels (width, height), the `seed` of [`bytes`], and `planes`, the three planes of the
//! result in 0 to 1. `colours`: luma, U, V, and the library's red, green, blue.
#![forbid(unsafe_code)]

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::F32x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use yuv::{YuvBiPlanarImage, YuvConversionMode, YuvRange, YuvStandardMatrix};

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
    println!("]}}");
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
    let source = TypedImageRef::new(crop[0], crop[1], &pixels).expect("a source image");
    let mut target = TypedImage::<F32x3>::new(output[0], output[1]);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    Resizer::new().resize_typed(&source, &mut target, &options).expect("it resizes");
    let plane = |channel: usize| target.pixels().iter().map(move |pixel| pixel.0[channel] / 255.0);
    (0..3).flat_map(plane).collect()
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
