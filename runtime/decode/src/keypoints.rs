//! Key points: for each, the network gives a map that is highest where the point is.
//!
//! The highest cell is the point, to the nearest cell; a refinement makes it finer. Sources: Simple Baselines (Xiao et al.,
//! 2018) for the quarter; DARK (Zhang et al., 2020) and UDP (Huang et al., 2020) for the curve through the logarithms,
//! the same as VitPose's post-processing in transformers; Integral Human Pose (Sun et al., 2018) for the mean.

use punctual_types::Size;

use crate::DecodeError;
use crate::error::{expect, expect_input, expect_some};

/// Where a point is, and how sure the network is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeyPoint {
    pub x: f32,
    pub y: f32,
    /// The highest value of its map.
    pub score: f32,
}

/// How a point is placed between cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refinement {
    /// At the highest cell.
    None,
    /// A quarter of a cell from the highest one towards its higher neighbour, in each direction.
    #[default]
    Quarter,
    /// At the top of the parabola through the logarithms of the map, smoothed by a Gaussian of `kernel` cells (odd; 11 is
    /// usual).
    Dark { kernel: usize },
    /// At the mean of all cells, weighted by the softmax of the map.
    Mean,
}

/// Which places of the input the cells of a map are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// The map covers the input: a cell's centre is that of its share of the input.
    #[default]
    Areas,
    /// The centres of the outermost cells are those of the outermost pixels of the input (UDP, VitPose).
    Corners,
}

/// A head that gives maps.
#[derive(Clone, Copy, Debug)]
pub struct HeatMaps {
    pub points: usize,
    pub rows: usize,
    pub columns: usize,
    pub refinement: Refinement,
    pub alignment: Alignment,
    /// The network's input.
    pub input: Size,
}

impl HeatMaps {
    /// `maps` (points, rows, columns). Gives as many key points, in pixels of the input; a map without a number has its point
    /// at its first cell, with a score of 0.
    ///
    /// # Errors
    /// If there are not as many values as points, rows and columns say, or a size is 0.
    pub fn decode(&self, maps: &[f32], points: &mut Vec<KeyPoint>) -> Result<(), DecodeError> {
        points.clear();
        expect_input(self.input)?;
        expect_some("the number of points", self.points)?;
        expect_some("the heat maps' rows", self.rows)?;
        expect_some("the heat maps' columns", self.columns)?;
        expect("heat maps", maps, &[self.points, self.rows, self.columns])?;
        let cells = self.rows * self.columns;
        points.extend(maps.chunks_exact(cells).map(|values| {
            let map = Map {
                values,
                rows: self.rows,
                columns: self.columns,
            };
            self.point(&map)
        }));
        Ok(())
    }

    fn point(&self, map: &Map<'_>) -> KeyPoint {
        let Some((cell, score)) = map.highest() else {
            return KeyPoint::default();
        };
        let (row, column) = (cell / map.columns, cell % map.columns);
        let (dx, dy) = match self.refinement {
            Refinement::None => (0.0, 0.0),
            Refinement::Quarter => map.quarter(row, column),
            Refinement::Dark { kernel } => map.dark(row, column, kernel / 2),
            Refinement::Mean => map.mean(row, column),
        };
        KeyPoint {
            x: self.place(column as f32 + dx, self.columns, self.input.width),
            y: self.place(row as f32 + dy, self.rows, self.input.height),
            score,
        }
    }

    /// In pixels of the input, of a cell's number.
    fn place(&self, cell: f32, cells: usize, input: u32) -> f32 {
        let input = input as f32;
        match self.alignment {
            Alignment::Corners if cells > 1 => cell * ((input - 1.0) / (cells - 1) as f32) + 0.5,
            Alignment::Areas | Alignment::Corners => (cell + 0.5) * (input / cells as f32),
        }
    }
}

/// The map of one point; not empty.
struct Map<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
}

impl Map<'_> {
    /// The first of the highest cells; none if there is no number.
    fn highest(&self) -> Option<(usize, f32)> {
        let numbers = self.values.iter().copied().enumerate();
        let numbers = numbers.filter(|(_, value)| value.is_finite());
        numbers.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// A value, at the nearest cell if there is no such one.
    fn nearest(&self, row: isize, column: isize) -> f32 {
        let within = |at: isize, cells: usize| at.max(0).min(cells as isize - 1) as usize;
        self.values[within(row, self.rows) * self.columns + within(column, self.columns)]
    }

    fn quarter(&self, row: usize, column: usize) -> (f32, f32) {
        let (y, x) = (row as isize, column as isize);
        let towards = |at: usize, cells: usize, before: f32, after: f32| {
            let inside = at > 0 && at + 1 < cells;
            match before.partial_cmp(&after) {
                Some(std::cmp::Ordering::Less) if inside => 0.25,
                Some(std::cmp::Ordering::Greater) if inside => -0.25,
                _ => 0.0,
            }
        };
        let (left, right) = (self.nearest(y, x - 1), self.nearest(y, x + 1));
        let (above, below) = (self.nearest(y - 1, x), self.nearest(y + 1, x));
        (
            towards(column, self.columns, left, right),
            towards(row, self.rows, above, below),
        )
    }

    /// A step of Newton's method from the highest cell.
    fn dark(&self, row: usize, column: usize, radius: usize) -> (f32, f32) {
        let weights = gaussian(radius.min(self.rows.max(self.columns)));
        let log = |down: isize, across: isize| {
            // What is beyond the border is as the border.
            let within = |at: usize, by: isize, cells: usize| {
                (at as isize + by).max(0).min(cells as isize - 1)
            };
            let (y, x) = (
                within(row, down, self.rows),
                within(column, across, self.columns),
            );
            let smooth = self.smoothed(y, x, &weights);
            f64::from((smooth as f32).clamp(0.001, 50.0).ln())
        };
        let here = log(0, 0);
        let (left, right, above, below) = (log(0, -1), log(0, 1), log(-1, 0), log(1, 0));
        let (dx, dy) = (0.5 * (right - left), 0.5 * (below - above));
        let epsilon = f64::from(f32::EPSILON);
        let dxx = right - 2.0 * here + left + epsilon;
        let dyy = below - 2.0 * here + above + epsilon;
        let dxy = 0.5 * (log(1, 1) - right - below + 2.0 * here - left - above + log(-1, -1));
        let determinant = dxx * dyy - dxy * dxy;
        let x = -(dyy * dx - dxy * dy) / determinant;
        let y = -(dxx * dy - dxy * dx) / determinant;
        if x.is_finite() && y.is_finite() {
            (x as f32, y as f32)
        } else {
            (0.0, 0.0)
        }
    }

    /// The map's value after a Gaussian, mirrored at its borders.
    fn smoothed(&self, row: isize, column: isize, weights: &[f64]) -> f64 {
        let radius = (weights.len() / 2) as isize;
        let mirrored = |at: isize, cells: usize| {
            let (at, cells) = (at.rem_euclid(2 * cells as isize), cells as isize);
            at.min(2 * cells - 1 - at) as usize
        };
        let offsets = (-radius..).zip(weights);
        let of_column = |(across, by_column): (isize, &f64)| {
            let column = mirrored(column + across, self.columns);
            let of_row = |(down, by_row): (isize, &f64)| {
                let row = mirrored(row + down, self.rows);
                by_row * f64::from(self.values[row * self.columns + column])
            };
            // Single precision between the directions, as scipy has it.
            let sum: f64 = offsets.clone().map(of_row).sum();
            by_column * f64::from(sum as f32)
        };
        offsets.clone().map(of_column).sum()
    }

    /// The softmax's mean, from the highest cell.
    fn mean(&self, row: usize, column: usize) -> (f32, f32) {
        let highest = self.values[row * self.columns + column];
        let (mut sum, mut x, mut y) = (0.0_f64, 0.0, 0.0);
        for (cell, value) in self.values.iter().enumerate() {
            let weight = f64::from((value - highest).exp());
            if weight.is_finite() {
                sum += weight;
                x += weight * ((cell % self.columns) as f64 - column as f64);
                y += weight * ((cell / self.columns) as f64 - row as f64);
            }
        }
        ((x / sum) as f32, (y / sum) as f32)
    }
}

/// Weights of a Gaussian of 0.8 cells.
fn gaussian(radius: usize) -> Vec<f64> {
    const SIGMA: f64 = 0.8;
    let radius = radius as i64;
    let weight = |at: i64| (-0.5 * (at as f64).powi(2) / (SIGMA * SIGMA)).exp();
    let sum: f64 = (-radius..=radius).map(weight).sum();
    (-radius..=radius).map(|at| weight(at) / sum).collect()
}
