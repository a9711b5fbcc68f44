//! From pixels of the network's input to pixels of the camera's frame.
//!
//! The daemon cuts a crop out of the frame and resizes it to the input, stretched or with borders (`docs/manifest.md`,
//! "Letterboxes"). A [`View`] undoes both.

use punctual_types::{Fit, Letterbox, Size};

use crate::error::{expect_most, expect_some};
use crate::{DecodeError, Detection, KeyPoint, Rect};

/// Whole numbers up to here are exact in single precision.
const SIDE_MAX: usize = 1 << 24;

/// Which part of the frame a network saw, and how it was fitted into its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    x: u32,
    y: u32,
    input: Size,
    letterbox: bool,
    place: Letterbox,
}

impl View {
    /// The crop whose upper left pixel is in column `x` and row `y` of the frame, letterboxed or stretched into the input.
    ///
    /// # Errors
    /// If the crop or the input has a side of 0, or of more than 2^24.
    pub fn new(
        x: u32,
        y: u32,
        crop: Size,
        input: Size,
        letterbox: bool,
    ) -> Result<Self, DecodeError> {
        for (what, side) in [
            ("the crop's width", crop.width),
            ("the crop's height", crop.height),
            ("the input's width", input.width),
            ("the input's height", input.height),
        ] {
            expect_some(what, side as usize)?;
            expect_most(what, side as usize, SIDE_MAX)?;
        }
        expect_most("the crop's first column", x as usize, SIDE_MAX)?;
        expect_most("the crop's first row", y as usize, SIDE_MAX)?;
        let place = if letterbox {
            Letterbox::of(crop, input)
        } else {
            Fit::Stretch.place(crop, input)
        };
        Ok(Self {
            x,
            y,
            input,
            letterbox,
            place,
        })
    }

    /// The frame's column and row of the crop's upper left pixel.
    #[must_use]
    pub fn corner(&self) -> (u32, u32) {
        (self.x, self.y)
    }

    /// The crop's size.
    #[must_use]
    pub fn crop(&self) -> Size {
        self.place.crop
    }

    /// The size of the network's input.
    #[must_use]
    pub fn input(&self) -> Size {
        self.input
    }

    /// Whether the crop keeps its aspect ratio, with borders.
    #[must_use]
    pub fn is_letterboxed(&self) -> bool {
        self.letterbox
    }

    /// The crop in the frame.
    #[must_use]
    pub fn bounds(&self) -> Rect {
        let (left, top) = (self.x as f32, self.y as f32);
        Rect {
            left,
            top,
            right: left + self.place.crop.width as f32,
            bottom: top + self.place.crop.height as f32,
        }
    }

    /// The place in the frame of a place in the input. Beyond the crop where the input has borders.
    #[must_use]
    pub fn to_frame(&self, x: f32, y: f32) -> (f32, f32) {
        let (x, y) = self.place.to_frame(x, y);
        (x + self.x as f32, y + self.y as f32)
    }

    /// The place in the input of a place in the frame.
    #[must_use]
    pub fn to_input(&self, x: f32, y: f32) -> (f32, f32) {
        let Letterbox {
            crop,
            inner,
            left,
            top,
        } = self.place;
        let scale = |of: u32, by: u32| of as f32 / by as f32;
        (
            (x - self.x as f32) * scale(inner.width, crop.width) + left as f32,
            (y - self.y as f32) * scale(inner.height, crop.height) + top as f32,
        )
    }

    /// A rectangle in the frame, not clipped.
    #[must_use]
    pub fn rect(&self, rect: &Rect) -> Rect {
        let (left, top) = self.to_frame(rect.left, rect.top);
        let (right, bottom) = self.to_frame(rect.right, rect.bottom);
        Rect {
            left,
            top,
            right,
            bottom,
        }
    }

    /// Moves detections from the input to the frame, clipped to the crop.
    pub fn detections(&self, detections: &mut [Detection]) {
        let bounds = self.bounds();
        for detection in detections {
            detection.rect = self.rect(&detection.rect).clipped(&bounds);
        }
    }

    /// Moves key points from the input to the frame.
    pub fn key_points(&self, points: &mut [KeyPoint]) {
        for point in points {
            (point.x, point.y) = self.to_frame(point.x, point.y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn borders_scale_and_crop_are_undone() {
        let view = View::new(100, 40, size(1280, 720), size(640, 640), true).unwrap();
        assert_eq!(view.to_frame(0.0, 140.0), (100.0, 40.0));
        assert_eq!(view.to_frame(640.0, 500.0), (1380.0, 760.0));
        assert_eq!(view.to_input(1380.0, 760.0), (640.0, 500.0));
        let mut found = [Detection {
            rect: Rect {
                left: 10.0,
                top: 100.0,
                right: 20.0,
                bottom: 150.0,
            },
            score: 0.5,
            class: 1,
        }];
        view.detections(&mut found);
        let rect = Rect {
            left: 120.0,
            top: 40.0,
            right: 140.0,
            bottom: 60.0,
        };
        assert_eq!(found[0].rect, rect, "cut at the crop's upper side");
        let stretched = View::new(8, 0, size(64, 32), size(32, 32), false).unwrap();
        assert_eq!(stretched.to_frame(16.0, 16.0), (40.0, 16.0));
    }

    #[test]
    fn places_of_the_frame_are_found_in_the_input_again() {
        for letterbox in [false, true] {
            for (crop, input) in [
                ((640, 480), (320, 320)),
                ((31, 97), (64, 48)),
                ((5, 5), (9, 7)),
            ] {
                let (crop, input) = (size(crop.0, crop.1), size(input.0, input.1));
                let view = View::new(12, 34, crop, input, letterbox).unwrap();
                for (x, y) in [(0.0, 0.0), (7.25, 1.5), (63.0, 47.5)] {
                    let (across, down) = view.to_frame(x, y);
                    let back = view.to_input(across, down);
                    let far = (back.0 - x).abs().max((back.1 - y).abs());
                    assert!(far < 1e-3, "{view:?}: {back:?} instead of {x}, {y}");
                }
            }
        }
    }

    #[test]
    fn sides_of_nothing_are_refused() {
        for (crop, input) in [
            ((0, 1), (1, 1)),
            ((1, 0), (1, 1)),
            ((1, 1), (0, 1)),
            ((1, 1), (1, 0)),
        ] {
            let view = View::new(0, 0, size(crop.0, crop.1), size(input.0, input.1), true);
            assert!(matches!(view, Err(DecodeError::Zero { .. })));
        }
    }
}
