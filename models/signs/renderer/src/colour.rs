//! Colour arithmetic, and RGB to what else cameras send.

use punctual_types::PixelFormat;

/// Red, green, blue, each 0 to 1.
pub(crate) type Rgb = [f32; 3];

/// `from` at 0, `to` at 1.
pub(crate) fn mix(from: Rgb, to: Rgb, share: f32) -> Rgb {
    std::array::from_fn(|channel| from[channel] + (to[channel] - from[channel]) * share)
}

/// Every channel times `factor`.
pub(crate) fn scaled(colour: Rgb, factor: f32) -> Rgb {
    colour.map(|channel| channel * factor)
}

/// Packed RGB8 rows of `width` x `height` pixels in another format, without gaps. A fourth channel is 255.
///
/// # Panics
/// With [`PixelFormat::Tensor`], which is no picture; and as [`to_nv12`].
pub fn from_rgb8(mut rgb: Vec<u8>, width: u32, height: u32, format: PixelFormat) -> Box<[u8]> {
    match format {
        PixelFormat::Rgb8 => {}
        PixelFormat::Bgr8 => rgb
            .as_chunks_mut::<3>()
            .0
            .iter_mut()
            .for_each(|p| p.reverse()),
        PixelFormat::Gray8 => rgb = to_gray8(&rgb),
        PixelFormat::Gray16 => rgb = to_gray8(&rgb).iter().flat_map(|gray| [*gray; 2]).collect(),
        PixelFormat::Rgba8 => {
            let pixels = rgb.as_chunks::<3>().0.iter();
            rgb = pixels.flat_map(|&[r, g, b]| [r, g, b, 255]).collect();
        }
        PixelFormat::Tensor => panic!("a camera shows pictures"),
        PixelFormat::Yuyv => rgb = to_yuyv(&rgb),
        PixelFormat::Uyvy => {
            rgb = to_yuyv(&rgb);
            let pixels = rgb.as_chunks_mut::<2>().0.iter_mut();
            pixels.for_each(|pixel| pixel.reverse());
        }
        PixelFormat::Nv12 => {
            let mut nv12 = vec![0; rgb.len() / 2];
            to_nv12(&rgb, width as usize, height as usize, &mut nv12);
            rgb = nv12;
        }
    }
    rgb.into_boxed_slice()
}

/// Packed RGB8 rows to NV12: the luma plane, then the plane of U and V at half the resolution.
/// BT.601, limited range, chroma the mean of its 2x2 pixels: what
/// [`PixelFormat::Nv12`](punctual_types::PixelFormat::Nv12) means.
///
/// # Panics
/// If a side is odd or a slice is not of the size that `width` x `height` asks for.
pub fn to_nv12(rgb: &[u8], width: usize, height: usize, nv12: &mut [u8]) {
    assert!(
        width.is_multiple_of(2) && height.is_multiple_of(2),
        "NV12 has even sides, not {width}x{height}"
    );
    assert_eq!(rgb.len(), width * height * 3, "RGB bytes");
    assert_eq!(nv12.len(), width * height * 3 / 2, "NV12 bytes");
    let (luma, chroma) = nv12.split_at_mut(width * height);
    let pixel = |x: usize, y: usize| {
        let at = (y * width + x) * 3;
        [rgb[at], rgb[at + 1], rgb[at + 2]].map(f32::from)
    };
    for y in 0..height {
        for x in 0..width {
            luma[y * width + x] = limited_luma(pixel(x, y));
        }
    }
    for (row, line) in chroma.chunks_exact_mut(width).enumerate() {
        for (column, uv) in line.chunks_exact_mut(2).enumerate() {
            let (x, y) = (column * 2, row * 2);
            let four = [
                pixel(x, y),
                pixel(x + 1, y),
                pixel(x, y + 1),
                pixel(x + 1, y + 1),
            ];
            let mean: Rgb =
                std::array::from_fn(|c| four.iter().map(|pixel| pixel[c]).sum::<f32>() / 4.0);
            uv.copy_from_slice(&limited_chroma(mean));
        }
    }
}

/// Packed RGB8 rows of an even length to YUYV, as [`to_nv12`], chroma the mean of two pixels.
fn to_yuyv(rgb: &[u8]) -> Vec<u8> {
    let pair = |pixels: &[u8; 6]| {
        let [first, second] = [[0, 1, 2], [3, 4, 5]].map(|at| at.map(|at| f32::from(pixels[at])));
        let [u, v] = limited_chroma(mix(first, second, 0.5));
        [limited_luma(first), u, limited_luma(second), v]
    };
    rgb.as_chunks::<6>().0.iter().flat_map(pair).collect()
}

/// Packed RGB8 pixels to their luma, 0 to 255.
fn to_gray8(rgb: &[u8]) -> Vec<u8> {
    let pixels = rgb.as_chunks::<3>().0.iter();
    pixels
        .map(|pixel| byte(luma_of(pixel.map(f32::from))))
        .collect()
}

/// Luma in limited range of RGB in 0 to 255.
fn limited_luma(pixel: Rgb) -> u8 {
    byte(16.0 + 219.0 / 255.0 * luma_of(pixel))
}

/// U and V in limited range of RGB in 0 to 255.
fn limited_chroma(pixel: Rgb) -> [u8; 2] {
    let luma = luma_of(pixel);
    // 1.772 and 1.402 are 2 (1 - Kb) and 2 (1 - Kr).
    [(pixel[2] - luma) / 1.772, (pixel[0] - luma) / 1.402]
        .map(|difference| byte(128.0 + 224.0 / 255.0 * difference))
}

/// BT.601 luma of RGB.
fn luma_of([r, g, b]: Rgb) -> f32 {
    0.299 * r + 0.587 * g + 0.114 * b
}

/// Rounded and clamped to a byte.
pub(crate) fn byte(level: f32) -> u8 {
    (level + 0.5) as u8
}
