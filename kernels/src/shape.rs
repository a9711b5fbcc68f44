//! The size of a planar tensor: channel, row, column.

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

    pub(crate) fn index(self, channel: usize, row: usize, column: usize) -> usize {
        (channel * self.height + row) * self.width + column
    }

    /// The pixel at `row`, `column`, if it is inside the image and not in the padding.
    pub(crate) fn pixel(
        self,
        channel: usize,
        row: Option<usize>,
        column: Option<usize>,
    ) -> Option<usize> {
        match (row, column) {
            (Some(row), Some(column)) if row < self.height && column < self.width => {
                Some(self.index(channel, row, column))
            }
            _ => None,
        }
    }
}
