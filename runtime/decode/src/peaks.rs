//! Peaks of heat maps: an object is where a class's map is highest among its neighbours.
//!
//! Source: Objects as Points (CenterNet; Zhou et al., 2019). The maximum of 3 x 3 cells takes the place of the suppression.

use crate::detections::Detections;
use crate::error::expect;
use crate::scores::{check_classes, sigmoid};
use crate::{DecodeError, Detection, Rect, Suppression};

/// A head that gives heat maps of centres.
#[derive(Clone, Debug)]
pub struct PeakHead {
    pub classes: usize,
    pub rows: usize,
    pub columns: usize,
    /// Pixels of the input from one cell to the next.
    pub stride: f32,
    /// Whether the heat is before the logistic function; otherwise it is 0 to 1.
    pub logits: bool,
    /// Scores must be higher; 0 to 1.
    pub threshold: f32,
    /// Most detections of a frame.
    pub limit: usize,
}

impl PeakHead {
    /// `heat` (classes, rows, columns); `sizes` (2, rows, columns): width and height in cells; `offsets` (2, rows,
    /// columns): x and y of the centre from the cell's corner, in cells, if the network has them. Boxes come in pixels of
    /// the input, and are not clipped.
    ///
    /// # Errors
    /// If a tensor is not as long as classes, rows and columns say.
    pub fn decode(
        &self,
        heat: &[f32],
        sizes: &[f32],
        offsets: Option<&[f32]>,
        detections: &mut Detections,
    ) -> Result<(), DecodeError> {
        detections.clear();
        check_classes(self.classes)?;
        expect("heat", heat, &[self.classes, self.rows, self.columns])?;
        expect("sizes", sizes, &[2, self.rows, self.columns])?;
        if let Some(offsets) = offsets {
            expect("offsets", offsets, &[2, self.rows, self.columns])?;
        }
        let cells = self.rows * self.columns;
        if cells == 0 {
            return Ok(());
        }
        for (class, map) in (0_u16..=u16::MAX).zip(heat.chunks_exact(cells)) {
            for (cell, value) in map.iter().enumerate() {
                let score = if self.logits { sigmoid(*value) } else { *value };
                if score > self.threshold && self.is_peak(map, cell) {
                    let rect = self.rect(cell, sizes, offsets);
                    detections.offer(Detection { rect, score, class }, cell);
                }
            }
        }
        detections.publish(Suppression::None, self.limit);
        Ok(())
    }

    /// Whether none of the eight neighbours is higher.
    fn is_peak(&self, map: &[f32], cell: usize) -> bool {
        let (row, column) = (cell / self.columns, cell % self.columns);
        let rows = row.saturating_sub(1)..self.rows.min(row + 2);
        let columns = column.saturating_sub(1)..self.columns.min(column + 2);
        rows.into_iter().all(|row| {
            let neighbours = &map[row * self.columns..][columns.clone()];
            neighbours.iter().all(|other| *other <= map[cell])
        })
    }

    fn rect(&self, cell: usize, sizes: &[f32], offsets: Option<&[f32]>) -> Rect {
        let cells = self.rows * self.columns;
        let (x, y) = offsets.map_or((0.0, 0.0), |it| (it[cell], it[cells + cell]));
        let stride = self.stride;
        Rect::around(
            ((cell % self.columns) as f32 + x) * stride,
            ((cell / self.columns) as f32 + y) * stride,
            sizes[cell] * stride,
            sizes[cells + cell] * stride,
        )
    }
}
