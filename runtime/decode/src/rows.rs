//! Rows of detections: what a network gives whose exits end in Punctual's own decoder.

use crate::detections::Detections;
use crate::error::expect;
use crate::{DecodeError, Detection, Rect, Suppression};

/// Numbers of a row: left, top, right, bottom in pixels of the input, score, class.
pub const ROW_VALUES: usize = 6;

/// The outputs `detections` and `count`.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Scores must be higher; 0 to 1.
    pub threshold: f32,
}

impl Rows {
    /// `values` (rows, 6) and how many of the rows, the first ones, are detections. A count below 0 or above the rows is
    /// taken as the nearest that there can be.
    ///
    /// # Errors
    /// If there are not six values for each row.
    pub fn decode(
        &self,
        values: &[f32],
        count: i32,
        detections: &mut Detections,
    ) -> Result<(), DecodeError> {
        detections.clear();
        let (rows, _) = values.as_chunks::<ROW_VALUES>();
        expect("detections", values, &[rows.len(), ROW_VALUES])?;
        let count = usize::try_from(count).unwrap_or(0);
        for (place, row) in rows.iter().take(count).enumerate() {
            let &[left, top, right, bottom, score, class] = row;
            if score > self.threshold && (0.0..=65535.0).contains(&class) {
                let rect = Rect {
                    left,
                    top,
                    right,
                    bottom,
                };
                let class = class as u16;
                detections.offer(Detection { rect, score, class }, place);
            }
        }
        detections.publish(Suppression::None, rows.len());
        Ok(())
    }
}
