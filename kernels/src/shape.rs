//! The size of a planar tensor: channel, row, column.

use punctual_types::{Extent, Window, WindowError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl Shape {
    pub fn elements(self) -> usize {
        self.channels * self.height * self.width
    }

    /// Channels, rows and columns.
    pub fn sides(self) -> [u32; 3] {
        [self.channels, self.height, self.width].map(|side| side as u32)
    }

    /// What a window makes of it, with `channels` channels.
    pub fn windowed(self, window: &Window, channels: usize) -> Result<Self, WindowError> {
        let Extent { height, width } = window.output(Extent {
            height: self.height as u32,
            width: self.width as u32,
        })?;
        Ok(Self {
            channels,
            height: height as usize,
            width: width as usize,
        })
    }
}
