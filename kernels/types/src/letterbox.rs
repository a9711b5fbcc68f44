//! How a crop is fitted into a network's input: stretched, or with its aspect ratio and borders.

use serde::Serialize;

use crate::Size;

/// What becomes of a crop whose aspect ratio is not that of the network's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Each side is scaled by itself.
    #[default]
    Stretch,
    /// Both sides are scaled alike, and borders fill the rest: see [`Letterbox`].
    Letterbox {
        /// The borders' value in all channels, of 255, before normalisation.
        fill: u8,
    },
}

impl Fit {
    /// The borders' value unless another is named: what detectors are usually trained with.
    pub const FILL: u8 = 114;

    #[must_use]
    pub const fn is_stretch(&self) -> bool {
        matches!(self, Self::Stretch)
    }

    /// Where a crop of this size lies in an input of this size.
    #[must_use]
    pub fn place(self, crop: Size, output: Size) -> Letterbox {
        match self {
            Self::Stretch => Letterbox {
                crop,
                inner: output,
                left: 0,
                top: 0,
            },
            Self::Letterbox { .. } => Letterbox::of(crop, output),
        }
    }
}

/// Where the resized crop lies in the network's input.
///
/// With a crop of `w` x `h` and an input of `W` x `H`, the side that is relatively longer fills the input; the other one
/// is `h * W / w` (or `w * H / h`), rounded to the nearest, half up, at least 1. What is left over is divided equally;
/// an odd pixel goes to the right or to the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letterbox {
    /// Size of the part of the frame that was resized.
    pub crop: Size,
    /// Its size in the input.
    pub inner: Size,
    /// Columns of border to its left.
    pub left: u32,
    /// Rows of border above it.
    pub top: u32,
}

impl Letterbox {
    /// A crop in an input, all sides at least 1.
    #[must_use]
    pub fn of(crop: Size, output: Size) -> Self {
        let wide = u64::from(crop.width) * u64::from(output.height);
        let high = u64::from(crop.height) * u64::from(output.width);
        // `other` of `side`, to the nearest: below the output's own, as the sides were compared.
        let shrunk = |other: u64, side: u32| {
            let side = u64::from(side);
            ((2 * other + side) / (2 * side)).max(1) as u32
        };
        let inner = if wide >= high {
            Size {
                width: output.width,
                height: shrunk(high, crop.width),
            }
        } else {
            Size {
                width: shrunk(wide, crop.height),
                height: output.height,
            }
        };
        Self {
            crop,
            inner,
            left: (output.width - inner.width) / 2,
            top: (output.height - inner.height) / 2,
        }
    }

    /// The place in the crop of a place in the input, both in pixels from the top left corner, where a pixel reaches
    /// from one whole number to the next. In the frame it is that much to the right of and below the crop's own corner,
    /// so the same if the crop is the whole frame. Beyond the crop where the input has borders.
    #[must_use]
    pub fn to_frame(&self, x: f32, y: f32) -> (f32, f32) {
        let scale = |of: u32, by: u32| of as f32 / by as f32;
        (
            (x - self.left as f32) * scale(self.crop.width, self.inner.width),
            (y - self.top as f32) * scale(self.crop.height, self.inner.height),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn the_longer_side_fills_the_input_and_the_other_is_centred() {
        for (crop, output, inner, left, top) in [
            ((640, 480), (640, 640), (640, 480), 0, 80),
            ((1920, 1080), (640, 640), (640, 360), 0, 140),
            ((480, 640), (320, 320), (240, 320), 40, 0),
            ((100, 100), (64, 48), (48, 48), 8, 0),
            ((64, 48), (64, 48), (64, 48), 0, 0),
            // 480 * 101 / 640 = 75.75, and an odd border.
            ((640, 480), (101, 101), (101, 76), 0, 12),
            // 3 * 5 / 6 = 2.5: half up.
            ((6, 3), (5, 5), (5, 3), 0, 1),
            ((16_384, 1), (10, 10), (10, 1), 0, 4),
        ] {
            let (crop, output) = (size(crop.0, crop.1), size(output.0, output.1));
            let found = Letterbox::of(crop, output);
            let expected = Letterbox {
                crop,
                inner: size(inner.0, inner.1),
                left,
                top,
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn corners_of_the_inner_part_are_those_of_the_crop() {
        let box_of = Letterbox::of(size(1920, 1080), size(640, 640));
        assert_eq!(box_of.to_frame(0.0, 140.0), (0.0, 0.0));
        assert_eq!(box_of.to_frame(640.0, 500.0), (1920.0, 1080.0));
        assert_eq!(box_of.to_frame(320.0, 0.0), (960.0, -420.0));
        let stretched = Fit::Stretch.place(size(192, 96), size(64, 64));
        assert_eq!(stretched.to_frame(64.0, 64.0), (192.0, 96.0));
    }

    #[test]
    fn the_inner_part_is_inside_and_touches_two_sides() {
        for crop_width in 1..40 {
            for crop_height in 1..40 {
                for output in [size(1, 1), size(7, 5), size(20, 33), size(32, 32)] {
                    let Letterbox {
                        inner, left, top, ..
                    } = Letterbox::of(size(crop_width, crop_height), output);
                    assert!(inner.width >= 1 && inner.height >= 1);
                    assert!(left + inner.width <= output.width);
                    assert!(top + inner.height <= output.height);
                    assert!(inner.width == output.width || inner.height == output.height);
                }
            }
        }
    }
}
