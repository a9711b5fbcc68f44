//! A rectangle of the frame.

use crate::{FRAME_HEIGHT, FRAME_WIDTH};

/// A rectangle of the frame, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

impl Region {
    pub const FRAME: Self = Self {
        x: 0,
        y: 0,
        width: FRAME_WIDTH,
        height: FRAME_HEIGHT,
    };

    /// Bytes of its pixels as packed RGB8.
    pub fn rgb8_len(&self) -> usize {
        self.width as usize * self.height as usize * 3
    }
}
