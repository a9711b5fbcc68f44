//! Masks from prototypes: a mask is a sum of maps that all objects share, each times a coefficient of the object.
//!
//! Source: YOLACT (Bolya et al., 2019): the logistic function of the sum, resized bilinearly, cut at the object's box.

use punctual_types::Size;

use crate::error::{expect, expect_input, expect_some};
use crate::scores::sigmoid;
use crate::{DecodeError, Rect, View};

/// A head that gives prototypes and, for each place, their coefficients.
#[derive(Clone, Copy, Debug)]
pub struct Prototypes {
    pub count: usize,
    pub rows: usize,
    pub columns: usize,
    /// The network's input, which a prototype covers.
    pub input: Size,
}

/// A part of the frame, and where in it the object is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mask {
    /// The frame's column and row of its first pixel.
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
    /// Of each of its pixels, row after row: how likely it is the object's, 0 to 1.
    pub probabilities: Vec<f32>,
    /// At the resolution of the prototypes.
    small: Vec<f32>,
}

impl Prototypes {
    /// The mask of an object in the frame. `prototypes` (count, rows, columns) and `coefficients` (count), as the network
    /// gives them; `rect`: the object's box *in the frame*. The mask has the frame's pixels whose centre is in the box and in the
    /// crop. Its memory is reused.
    ///
    /// # Errors
    /// If there are not as many values as the sizes say, or a size is 0.
    pub fn mask(
        &self,
        prototypes: &[f32],
        coefficients: &[f32],
        rect: &Rect,
        view: &View,
        mask: &mut Mask,
    ) -> Result<(), DecodeError> {
        expect_input(self.input)?;
        for (what, side) in [
            ("the number of prototypes", self.count),
            ("the prototypes' rows", self.rows),
            ("the prototypes' columns", self.columns),
        ] {
            expect_some(what, side)?;
        }
        let shape = [self.count, self.rows, self.columns];
        expect("prototypes", prototypes, &shape)?;
        expect("coefficients", coefficients, &[self.count])?;
        let cells = self.rows * self.columns;
        let Mask { small, .. } = mask;
        small.clear();
        small.resize(cells, 0.0);
        for (prototype, coefficient) in prototypes.chunks_exact(cells).zip(coefficients) {
            for (sum, value) in small.iter_mut().zip(prototype) {
                *sum += coefficient * value;
            }
        }
        for sum in &mut *small {
            *sum = sigmoid(*sum);
        }
        self.resize(&rect.clipped(&view.bounds()), view, mask);
        Ok(())
    }

    /// Fills a mask from its small form.
    fn resize(&self, rect: &Rect, view: &View, mask: &mut Mask) {
        // Pixel `i` has its centre at `i + 0.5`. What is no number becomes 0.
        let pixel = |at: f32| (at - 0.5).ceil().max(0.0) as u32;
        (mask.x, mask.y) = (pixel(rect.left), pixel(rect.top));
        mask.width = pixel(rect.right).saturating_sub(mask.x);
        mask.height = pixel(rect.bottom).saturating_sub(mask.y);
        mask.probabilities.clear();
        let across = self.columns as f32 / self.input.width as f32;
        let down = self.rows as f32 / self.input.height as f32;
        for row in 0..mask.height {
            for column in 0..mask.width {
                let (x, y) = (mask.x + column, mask.y + row);
                let (x, y) = view.to_input(x as f32 + 0.5, y as f32 + 0.5);
                let value = self.between(&mask.small, x * across - 0.5, y * down - 0.5);
                mask.probabilities.push(value);
            }
        }
    }

    /// Bilinear between the four nearest cells; beyond the border as the border.
    fn between(&self, cells: &[f32], x: f32, y: f32) -> f32 {
        let neighbours = |at: f32, count: usize| {
            let at = at.max(0.0).min((count - 1) as f32);
            let low = at as usize;
            (low, (low + 1).min(count - 1), at - low as f32)
        };
        let (left, right, across) = neighbours(x, self.columns);
        let (above, below, down) = neighbours(y, self.rows);
        let row = |row: usize| {
            let cells = &cells[row * self.columns..];
            cells[left] * (1.0 - across) + cells[right] * across
        };
        row(above) * (1.0 - down) + row(below) * down
    }
}

impl Mask {
    /// Whether a pixel of the frame is more likely the object's than not.
    #[must_use]
    pub fn has(&self, x: u32, y: u32) -> bool {
        let (Some(column), Some(row)) = (x.checked_sub(self.x), y.checked_sub(self.y)) else {
            return false;
        };
        let inside = column < self.width && row < self.height;
        let at = row as usize * self.width as usize + column as usize;
        inside
            && self
                .probabilities
                .get(at)
                .is_some_and(|likely| *likely > 0.5)
    }
}
