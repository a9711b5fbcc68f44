//! Frames of MJPEG, decoded in this process: a decoder allocates, and its time depends on what the camera sends, so the daemon has none
//! ([decision 27](../../../docs/decisions/0027-mjpeg-in-the-client.md)).

use log::debug;
use punctual_client::{FrameSpec, PixelFormat};
use punctual_platform::v4l2::CaptureFormat;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::pixels::{LayoutError, asked_for};

const MOTION_JPEG: u32 = u32::from_le_bytes(*b"MJPG");

/// The marker before a picture's first byte.
const START: [u8; 2] = [0xFF, 0xD8];

/// The marker behind a picture's last byte. Within its data no byte of 0xFF is followed by this one.
const END: [u8; 2] = [0xFF, 0xD9];

/// The marker before a scan of its data.
const SCAN: [u8; 2] = [0xFF, 0xDA];

/// MJPEG is made of baseline pictures, which have a scan for each colour at most. Each scan more takes time.
const SCANS_MAX: usize = 4;

/// A segment that says: Huffman tables that are not there are the standard's. Many cameras leave them out, with or without it.
const STANDARD_TABLES: [u8; 18] = *b"\xFF\xE0\x00\x10AVI1\0\0\0\0\0\0\0\0\0\0";

/// Why a picture is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JpegFault {
    #[error("a JPEG picture has no end")]
    Cut,
    #[error("a JPEG picture has {scans} scans; at most {SCANS_MAX} are decoded")]
    Scans { scans: usize },
    #[error("a JPEG picture has {width}x{height} pixels, not the {} that the driver agreed to", agreed(*.size))]
    Size {
        width: usize,
        height: usize,
        /// That frames have.
        size: [usize; 2],
    },
    #[error("a JPEG picture cannot be decoded (`--log debug` says why)")]
    Undecodable,
}

fn agreed([width, height]: [usize; 2]) -> String {
    format!("{width}x{height}")
}

impl JpegFault {
    /// In the tally.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "jpeg_cut",
            Self::Scans { .. } => "jpeg_scans",
            Self::Size { .. } => "jpeg_size",
            Self::Undecodable => "jpeg_undecodable",
        }
    }
}

/// Decodes pictures of one size, each into the same memory.
#[derive(Debug)]
pub struct Decoder {
    options: DecoderOptions,
    size: [usize; 2],
    /// The driver's bytes: its buffer may change under a decoder.
    copy: Vec<u8>,
    pixels: Vec<u8>,
}

impl Decoder {
    /// To what a task wants.
    pub fn new(wanted: &FrameSpec) -> Result<Self, LayoutError> {
        let format = wanted.format;
        let colours = match format {
            PixelFormat::Rgb8 => ColorSpace::RGB,
            PixelFormat::Bgr8 => ColorSpace::BGR,
            PixelFormat::Gray8 => ColorSpace::Luma,
            _ => return Err(LayoutError::Decoded { format }),
        };
        let (width, height) = (wanted.width as usize, wanted.height as usize);
        // Strict: what is left of a damaged picture is no frame. A larger picture is refused before memory is taken for it.
        let options = DecoderOptions::default()
            .set_strict_mode(true)
            .set_max_width(width)
            .set_max_height(height)
            .jpeg_set_out_colorspace(colours);
        Ok(Self {
            options,
            size: [width, height],
            copy: Vec::new(),
            pixels: vec![0; format.row_bytes(wanted.width) as usize * height],
        })
    }

    /// What to ask the driver for: pictures of the size of the task's frames.
    pub fn asked_for(wanted: &FrameSpec) -> Result<CaptureFormat, LayoutError> {
        Ok(CaptureFormat {
            four_cc: MOTION_JPEG,
            row_stride: 0,
            ..asked_for(wanted)?
        })
    }

    /// What the decoded frame would be from a driver.
    pub fn decoded(
        given: &CaptureFormat,
        wanted: &FrameSpec,
    ) -> Result<CaptureFormat, LayoutError> {
        let asked = Self::asked_for(wanted)?;
        if given.four_cc != asked.four_cc {
            return Err(LayoutError::Other {
                given: *given,
                wanted: asked,
            });
        }
        Ok(CaptureFormat {
            row_stride: wanted.format.row_bytes(wanted.width),
            four_cc: asked_for(wanted)?.four_cc,
            ..*given
        })
    }

    /// Decodes a picture; [`Self::pixels`] are its own from then on.
    pub fn decode(&mut self, jpeg: &[u8]) -> Result<(), JpegFault> {
        let markers = |marker: [u8; 2]| jpeg.windows(2).filter(move |bytes| *bytes == marker);
        // What a camera fills its buffer up with comes behind the end.
        if markers(END).next().is_none() {
            return Err(JpegFault::Cut);
        }
        let scans = markers(SCAN).count();
        if scans > SCANS_MAX {
            return Err(JpegFault::Scans { scans });
        }
        let behind_start = jpeg.strip_prefix(&START).ok_or(JpegFault::Undecodable)?;
        self.copy.clear();
        self.copy.extend(START.iter().chain(&STANDARD_TABLES));
        self.copy.extend_from_slice(behind_start);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&self.copy[..]), self.options);
        decoder.decode_headers().map_err(undecodable)?;
        let (width, height) = decoder.dimensions().ok_or(JpegFault::Undecodable)?;
        let size = self.size;
        if [width, height] != size {
            return Err(JpegFault::Size {
                width,
                height,
                size,
            });
        }
        decoder.decode_into(&mut self.pixels).map_err(undecodable)
    }

    /// The last decoded picture, row after row without gaps.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }
}

fn undecodable(error: DecodeErrors) -> JpegFault {
    debug!("JPEG: {error}");
    JpegFault::Undecodable
}

/// Does with some bytes what is done with a camera's frames of 64x48 pixels, for tasks of every format. Whether they are one.
///
/// # Panics
/// If one format is decoded and another is not.
pub fn exercise(jpeg: &[u8]) -> bool {
    let [rgb, bgr, gray] =
        [PixelFormat::Rgb8, PixelFormat::Bgr8, PixelFormat::Gray8].map(|format| {
            let wanted = FrameSpec::packed(format, 64, 48);
            let mut decoder = Decoder::new(&wanted).expect("a format that is decoded to");
            let decoded = decoder.decode(jpeg);
            decoded.map(|()| decoder.pixels)
        });
    let (Ok(rgb), Ok(bgr)) = (&rgb, &bgr) else {
        assert_eq!(rgb, bgr);
        return false;
    };
    let swapped = bgr
        .as_chunks::<3>()
        .0
        .iter()
        .flat_map(|[b, g, r]| [r, g, b]);
    assert!(rgb.iter().eq(swapped));
    gray.is_ok_and(|gray| gray.len() == 64 * 48)
}

#[cfg(test)]
mod tests {
    use image::ExtendedColorType;
    use image::codecs::jpeg::JpegEncoder;
    use punctual_types::Random;

    use super::*;

    const WIDTH: u32 = 64;
    const HEIGHT: u32 = 48;

    fn decoder(format: PixelFormat) -> Decoder {
        Decoder::new(&FrameSpec::packed(format, WIDTH, HEIGHT)).expect("a format")
    }

    /// A picture of soft stripes, and what it is made of.
    fn striped(width: u32, height: u32) -> (Vec<u8>, Vec<u8>) {
        let level = |at: u32| (at * 255 / width) as u8;
        let pixels = (0..height).flat_map(|_| 0..width);
        let rgb: Vec<u8> = pixels
            .flat_map(|x| [level(x), 128, 255 - level(x)])
            .collect();
        let mut jpeg = Vec::new();
        let mut encoder = JpegEncoder::new_with_quality(&mut jpeg, 90);
        let encoded = encoder.encode(&rgb, width, height, ExtendedColorType::Rgb8);
        encoded.expect("a picture");
        (jpeg, rgb)
    }

    fn are_alike(pixels: &[u8], expected: impl Iterator<Item = u8>) -> bool {
        let off = pixels.iter().zip(expected).map(|(a, b)| a.abs_diff(b));
        off.max() <= Some(12)
    }

    #[test]
    fn a_picture_is_decoded_to_the_tasks_format_and_what_fills_its_buffer_is_left() {
        let (mut jpeg, rgb) = striped(WIDTH, HEIGHT);
        jpeg.extend([0; 100]);
        let pixels = rgb.as_chunks::<3>().0.iter();
        let decoded = |format| {
            let mut decoder = decoder(format);
            assert_eq!(decoder.decode(&jpeg), Ok(()), "{format:?}");
            decoder.pixels
        };
        let ours = decoded(PixelFormat::Rgb8);
        assert!(are_alike(&ours, rgb.iter().copied()), "lossy, but the same");
        let bgr = pixels.clone().flat_map(|[r, g, b]| [*b, *g, *r]);
        assert!(are_alike(&decoded(PixelFormat::Bgr8), bgr));
        let gray = pixels.map(|[r, g, b]| {
            (0.299 * f32::from(*r) + 0.587 * f32::from(*g) + 0.114 * f32::from(*b)) as u8
        });
        assert!(are_alike(&decoded(PixelFormat::Gray8), gray));
    }

    #[test]
    fn tables_that_a_camera_leaves_out_are_the_standards() {
        let (jpeg, _) = striped(WIDTH, HEIGHT);
        let mut without = START.to_vec();
        let mut rest = &jpeg[2..];
        let mut left_out = 0;
        // Segments of headers: a marker, and a length that counts itself.
        while !rest.starts_with(&SCAN) {
            let len = 2 + usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            let (segment, behind) = rest.split_at(len);
            if segment[1] == 0xC4 {
                left_out += 1;
            } else {
                without.extend(segment);
            }
            rest = behind;
        }
        without.extend(rest);
        assert!(left_out > 0);
        let (mut with, mut standard) = (decoder(PixelFormat::Rgb8), decoder(PixelFormat::Rgb8));
        assert_eq!(
            (with.decode(&jpeg), standard.decode(&without)),
            (Ok(()), Ok(()))
        );
        assert_eq!(with.pixels(), standard.pixels());
    }

    #[test]
    fn a_picture_of_another_size_is_none() {
        let mut decoder = decoder(PixelFormat::Rgb8);
        let (smaller, _) = striped(WIDTH - 8, HEIGHT);
        let error = decoder.decode(&smaller).expect_err("too narrow");
        assert_eq!(
            error.to_string(),
            "a JPEG picture has 56x48 pixels, not the 64x48 that the driver agreed to"
        );
        let (larger, _) = striped(WIDTH, HEIGHT + 8);
        assert_eq!(decoder.decode(&larger), Err(JpegFault::Undecodable));
    }

    #[test]
    fn a_picture_that_ends_early_anywhere_is_none() {
        let (jpeg, _) = striped(WIDTH, HEIGHT);
        let mut decoder = decoder(PixelFormat::Rgb8);
        for end in 0..jpeg.len() {
            let cut = decoder.decode(&jpeg[..end]);
            assert_eq!(cut, Err(JpegFault::Cut), "{end}");
        }
        // Nor one whose end is there, but hardly anything before it.
        for start in [2, 20, jpeg.len() / 2] {
            let hollow = [&jpeg[..start], &END].concat();
            let decoded = decoder.decode(&hollow);
            assert_eq!(decoded, Err(JpegFault::Undecodable), "{start}");
        }
    }

    #[test]
    fn a_picture_of_many_scans_is_none_however_short_they_are() {
        let (jpeg, _) = striped(WIDTH, HEIGHT);
        let at = jpeg
            .windows(2)
            .position(|bytes| bytes == SCAN)
            .expect("one");
        let (head, scan) = jpeg.split_at(at);
        let scan = &scan[..scan.len() - 2];
        let many = [head, &scan.repeat(5), &END].concat();
        let decoded = decoder(PixelFormat::Rgb8).decode(&many);
        assert_eq!(decoded, Err(JpegFault::Scans { scans: 5 }));
    }

    #[test]
    fn damaged_pictures_and_noise_end_in_a_verdict() {
        let (jpeg, _) = striped(WIDTH, HEIGHT);
        let mut random = Random::new(7);
        let mut refused = 0;
        for _ in 0..2_000 {
            let mut damaged = jpeg.clone();
            for _ in 0..random.within(1, 8) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.next_u64() as u8;
            }
            refused += usize::from(!exercise(&damaged));
        }
        assert!(refused > 200, "only {refused} of 2000 were found damaged");
        for _ in 0..1_000 {
            let count = random.below(600) as usize;
            let noise = [&START[..], &random.bytes(count), &END].concat();
            assert!(!exercise(&noise));
        }
    }

    #[test]
    fn a_damaged_picture_leaves_the_next_one_whole() {
        let (jpeg, _) = striped(WIDTH, HEIGHT);
        let (mut fresh, mut used) = (decoder(PixelFormat::Rgb8), decoder(PixelFormat::Rgb8));
        let hollow = [&jpeg[..jpeg.len() / 2], &END].concat();
        assert!(used.decode(&hollow).is_err());
        assert_eq!((fresh.decode(&jpeg), used.decode(&jpeg)), (Ok(()), Ok(())));
        assert_eq!(fresh.pixels(), used.pixels());
    }

    #[test]
    fn a_task_of_another_format_and_a_camera_without_mjpeg_are_refused_by_both_names() {
        let wanted = FrameSpec::packed(PixelFormat::Nv12, WIDTH, HEIGHT);
        let error = Decoder::new(&wanted).expect_err("no RGB").to_string();
        assert!(error.contains("rgb8") && error.contains("nv12"), "{error}");
        let wanted = FrameSpec::packed(PixelFormat::Rgb8, WIDTH, HEIGHT);
        let given = Decoder::asked_for(&wanted).expect("a picture");
        let decoded = Decoder::decoded(&given, &wanted).expect("what was asked for");
        assert_eq!(decoded.row_stride, 3 * WIDTH);
        let raw = asked_for(&wanted).expect("a picture");
        let error = Decoder::decoded(&raw, &wanted).expect_err("no MJPEG");
        let error = error.to_string();
        assert!(error.contains("RGB3") && error.contains("MJPG"), "{error}");
    }
}
