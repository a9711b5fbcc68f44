//! From the driver's layout of a frame to the slot's: the same pixels, other strides.

use punctual_client::{FrameSpec, Layout, PixelFormat};
use punctual_platform::v4l2::CaptureFormat;

/// The format's four characters in `<linux/videodev2.h>`; none of a tensor, which no camera gives.
pub const fn four_cc(format: PixelFormat) -> Option<u32> {
    Some(u32::from_le_bytes(match format {
        PixelFormat::Tensor => return None,
        PixelFormat::Rgb8 => *b"RGB3",
        PixelFormat::Bgr8 => *b"BGR3",
        PixelFormat::Gray8 => *b"GREY",
        PixelFormat::Nv12 => *b"NV12",
        PixelFormat::Yuyv => *b"YUYV",
        PixelFormat::Uyvy => *b"UYVY",
        PixelFormat::Gray16 => *b"Y16 ",
        PixelFormat::Rgba8 => *b"AB24",
    }))
}

/// The four characters, for people.
pub fn four_cc_text(code: u32) -> String {
    code.to_le_bytes().escape_ascii().to_string()
}

/// The driver cannot give what the task wants.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("the task wants tensors that its client prepares: name a task that takes pictures")]
    Tensor,
    #[error(
        "the camera gives {} x {} pixels of {}, and the task wants {} x {} of {}: choose a mode of the camera \
         (`v4l2-ctl --list-formats-ext`) in the manifest",
        given.width, given.height, four_cc_text(given.four_cc),
        wanted.width, wanted.height, four_cc_text(wanted.four_cc)
    )]
    Other {
        given: CaptureFormat,
        wanted: CaptureFormat,
    },
    #[error(
        "the driver spreads a frame of {} over {} pieces of memory (as NV12M and other formats that end in M), and a slot \
         is one: choose a format of the camera that is one piece, as NV12",
        four_cc_text(given.four_cc), given.pieces
    )]
    Pieces { given: CaptureFormat },
    #[error("--mjpeg gives rgb8, bgr8 or gray8, and the task wants {}: change its format in the manifest", format.name())]
    Decoded { format: PixelFormat },
    #[error("the driver says that a row of {row} bytes starts every {stride} bytes")]
    Stride { row: u32, stride: u32 },
}

/// What to ask the driver for: the task's frames, in the slot's stride if it can.
pub fn asked_for(wanted: &FrameSpec) -> Result<CaptureFormat, LayoutError> {
    Ok(CaptureFormat {
        width: wanted.width,
        height: wanted.height,
        four_cc: four_cc(wanted.format).ok_or(LayoutError::Tensor)?,
        row_stride: wanted.row_stride,
        bytes: 0,
        pieces: 1,
    })
}

/// Rows to be copied: one for RGB and the like, two for NV12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plane {
    from: usize,
    from_stride: usize,
    to: usize,
    to_stride: usize,
    row: usize,
    rows: usize,
}

/// How to copy a frame, worked out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copying {
    planes: Vec<Plane>,
    bytes: usize,
}

impl Copying {
    /// From frames as the driver gives them to slots as the daemon wants them.
    pub fn new(given: &CaptureFormat, wanted: &FrameSpec) -> Result<Self, LayoutError> {
        let asked = asked_for(wanted)?;
        if given.pieces != 1 {
            return Err(LayoutError::Pieces { given: *given });
        }
        let same = (given.width, given.height, given.four_cc)
            == (asked.width, asked.height, asked.four_cc);
        if !same {
            return Err(LayoutError::Other {
                given: *given,
                wanted: asked,
            });
        }
        let row = wanted.format.row_bytes(wanted.width);
        if given.row_stride < row {
            return Err(LayoutError::Stride {
                row,
                stride: given.row_stride,
            });
        }
        let first = Plane {
            from: 0,
            from_stride: given.row_stride as usize,
            to: wanted.offset as usize,
            to_stride: wanted.row_stride as usize,
            row: row as usize,
            rows: wanted.height as usize,
        };
        let mut planes = vec![first];
        if wanted.format == PixelFormat::Nv12 {
            // Of NV12 in one piece, V4L2 says: chroma follows luma, in rows of the same stride.
            planes.push(Plane {
                from: first.from_stride * first.rows,
                to: wanted.chroma_offset as usize,
                to_stride: wanted.chroma_stride as usize,
                rows: first.rows / 2,
                ..first
            });
        }
        let last = planes[planes.len() - 1];
        Ok(Self {
            bytes: last.from + last.from_stride * (last.rows - 1) + last.row,
            planes,
        })
    }

    /// The least bytes of a whole frame from the driver.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the driver has a frame.
    pub fn layout(&self) -> Layout {
        let first = &self.planes[0];
        let chroma = self.planes.get(1);
        Layout {
            offset: 0,
            row_stride: first.from_stride as u32,
            chroma_offset: chroma.map_or(0, |plane| plane.from as u32),
            chroma_stride: chroma.map_or(0, |plane| plane.from_stride as u32),
        }
    }

    /// # Panics
    /// If the driver's frame is not whole.
    pub fn copy(&self, frame: &[u8], slot: &mut [u8]) {
        assert!(frame.len() >= self.bytes, "whole frames only");
        for plane in &self.planes {
            let from = frame[plane.from..].chunks(plane.from_stride);
            let to = slot[plane.to..].chunks_mut(plane.to_stride);
            for (from, to) in from.zip(to).take(plane.rows) {
                to[..plane.row].copy_from_slice(&from[..plane.row]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(format: PixelFormat, stride: u32) -> CaptureFormat {
        CaptureFormat {
            width: 4,
            height: 2,
            four_cc: four_cc(format).expect("a picture"),
            row_stride: stride,
            bytes: 0,
            pieces: 1,
        }
    }

    #[test]
    fn rows_are_copied_from_the_drivers_stride_to_the_slots() {
        let wanted = FrameSpec::packed(PixelFormat::Gray8, 4, 2);
        let copying =
            Copying::new(&given(PixelFormat::Gray8, 6), &wanted).expect("the same pixels");
        let mut slot = [0; 8];
        let frame = [1, 2, 3, 4, 90, 91, 5, 6, 7, 8];
        assert_eq!(copying.bytes(), frame.len());
        copying.copy(&frame, &mut slot);
        assert_eq!(slot, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn formats_of_two_and_four_bytes_are_copied_whole_and_a_tensor_is_nothing_a_camera_gives() {
        for (format, four_cc, pixel) in [
            (PixelFormat::Gray16, *b"Y16 ", 2),
            (PixelFormat::Rgba8, *b"AB24", 4),
        ] {
            let wanted = FrameSpec::packed(format, 4, 2);
            let given = given(format, 4 * pixel + 2);
            assert_eq!(given.four_cc.to_le_bytes(), four_cc);
            let copying = Copying::new(&given, &wanted).expect("the same pixels");
            let row: Vec<u8> = (0..4 * pixel as u8).collect();
            let frame = [&row[..], &[90, 91], &row].concat();
            let mut slot = vec![0; 2 * row.len()];
            copying.copy(&frame, &mut slot);
            assert_eq!(slot, row.repeat(2));
        }
        let tensor = FrameSpec::packed(PixelFormat::Tensor, 4, 2);
        assert!(matches!(asked_for(&tensor), Err(LayoutError::Tensor)));
    }

    #[test]
    fn chroma_of_nv12_follows_luma_in_the_drivers_stride() {
        let wanted = FrameSpec::packed(PixelFormat::Nv12, 4, 2);
        let copying = Copying::new(&given(PixelFormat::Nv12, 5), &wanted).expect("the same pixels");
        let mut slot = [0; 12];
        let frame = [1, 2, 3, 4, 90, 5, 6, 7, 8, 91, 21, 22, 23, 24];
        copying.copy(&frame, &mut slot);
        assert_eq!(slot, [1, 2, 3, 4, 5, 6, 7, 8, 21, 22, 23, 24]);
        let layout = FrameSpec::strided(PixelFormat::Nv12, 4, 2, 5).layout();
        assert_eq!(copying.layout(), layout);
    }

    #[test]
    fn another_size_another_format_and_rows_that_overlap_are_refused_with_both_sides_named() {
        let wanted = FrameSpec::packed(PixelFormat::Yuyv, 4, 2);
        let other = Copying::new(&given(PixelFormat::Rgb8, 12), &wanted).expect_err("RGB");
        assert!(other.to_string().contains("RGB3") && other.to_string().contains("YUYV"));
        let mut torn = given(PixelFormat::Yuyv, 8);
        torn.pieces = 2;
        let torn = Copying::new(&torn, &wanted).expect_err("two pieces");
        assert!(torn.to_string().contains("YUYV over 2 pieces of memory"));
        let mut narrow = given(PixelFormat::Yuyv, 8);
        narrow.width = 2;
        assert!(Copying::new(&narrow, &wanted).is_err());
        let stride = Copying::new(&given(PixelFormat::Yuyv, 7), &wanted).expect_err("short rows");
        assert!(matches!(stride, LayoutError::Stride { row: 8, stride: 7 }));
    }
}
