//! Where the pixels of a resized image are taken from, as ONNX's `Resize` and onnxruntime say it.

use serde::{Deserialize, Serialize};

use crate::Extent;

/// An image of other rows and columns, made of the pixels of one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resampling {
    /// Rows and columns of the result.
    pub size: Extent,
    /// Pixels of the result for one of the image, down and along: the ratio of the sizes, or what
    /// was given instead, of which the sizes are the whole part. Normal and positive.
    pub scale: [f32; 2],
    pub coordinates: Coordinates,
    pub filter: Filter,
}

/// Where a pixel of the result lies on the image, along one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coordinates {
    /// Their first pixels' left edges coincide: `x / scale`, counted from left edges.
    Asymmetric,
    /// Their outer edges coincide: `(x + 0.5) / scale - 0.5`.
    HalfPixel,
    /// As half pixels, with what the scale has and the sizes have not shared by both edges.
    HalfPixelSymmetric,
    /// As half pixels, and 0 for a result of one pixel.
    PytorchHalfPixel,
    /// Their outer pixels' centres coincide.
    AlignCorners,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filter {
    /// The pixel at the rounded place.
    Nearest(Rounding),
    /// The two neighbours in each direction, each by how near it is.
    Linear,
}

/// How a place becomes a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rounding {
    Floor,
    Ceil,
    /// To the nearest; halves down.
    PreferFloor,
    /// To the nearest; halves up, of negative ones down.
    PreferCeil,
}

/// A place between two neighbouring pixels, or at an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    pub first: usize,
    /// The next one; at an edge the same.
    pub second: usize,
    /// The share of the second one, below 1; that of the first is the rest.
    pub share: f32,
}

impl Resampling {
    /// The rows of an image of `rows` rows that the result's rows are taken from.
    pub fn nearest_rows(&self, rows: u32, rounding: Rounding) -> impl Iterator<Item = usize> {
        self.rows(rows).nearest(rounding)
    }

    /// As [`nearest_rows`](Self::nearest_rows), for columns.
    pub fn nearest_columns(&self, columns: u32, rounding: Rounding) -> impl Iterator<Item = usize> {
        self.columns(columns).nearest(rounding)
    }

    /// Between which rows of an image of `rows` rows the result's rows lie.
    pub fn linear_rows(&self, rows: u32) -> impl Iterator<Item = Between> {
        self.rows(rows).linear()
    }

    /// As [`linear_rows`](Self::linear_rows), for columns.
    pub fn linear_columns(&self, columns: u32) -> impl Iterator<Item = Between> {
        self.columns(columns).linear()
    }

    /// Whether the result of such an image is that image.
    #[must_use]
    pub fn is_identity(&self, image: Extent) -> bool {
        let (rows, columns) = (self.rows(image.height), self.columns(image.width));
        self.size == image
            && match self.filter {
                Filter::Nearest(rounding) => {
                    rows.nearest(rounding).eq(0..image.height as usize)
                        && columns.nearest(rounding).eq(0..image.width as usize)
                }
                Filter::Linear => [rows, columns].into_iter().all(|direction| {
                    let mut all = direction.linear().enumerate();
                    all.all(|(at, between)| between.first == at && between.share == 0.0)
                }),
            }
    }

    fn rows(&self, rows: u32) -> Direction {
        Direction {
            from: rows,
            to: self.size.height,
            scale: self.scale[0],
            coordinates: self.coordinates,
        }
    }

    fn columns(&self, columns: u32) -> Direction {
        Direction {
            from: columns,
            to: self.size.width,
            scale: self.scale[1],
            coordinates: self.coordinates,
        }
    }
}

/// One direction of a resampling: rows or columns.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// Positions before and after.
    pub from: u32,
    pub to: u32,
    /// As of [`Resampling`].
    pub scale: f32,
    pub coordinates: Coordinates,
}

impl Direction {
    /// For each position of the result the one that it is taken from.
    pub fn nearest(self, rounding: Rounding) -> impl Iterator<Item = usize> {
        let last = self.from.saturating_sub(1) as usize;
        (0..self.to).map(move |at| {
            let place = self.place(at);
            let pixel = match rounding {
                Rounding::Floor => place.floor(),
                Rounding::Ceil => place.ceil(),
                // Adding a half and rounding down would round twice.
                Rounding::PreferFloor if place.fract().abs() == 0.5 => place.floor(),
                Rounding::PreferFloor | Rounding::PreferCeil => place.round(),
            };
            // A cast of a float saturates, and takes what is below 0 to 0.
            (pixel as usize).min(last)
        })
    }

    /// For each position of the result those that it lies between.
    pub fn linear(self) -> impl Iterator<Item = Between> {
        let last = self.from.saturating_sub(1) as usize;
        (0..self.to).map(move |at| {
            // What is no number, of a scale that no sizes have, is 0.
            let place = self.place(at).max(0.0).min(last as f32);
            let first = (place as usize).min(last);
            Between {
                first,
                second: (first + 1).min(last),
                share: place - first as f32,
            }
        })
    }

    /// Where a pixel of the result lies, in f32 as onnxruntime computes it: rounding decides
    /// which of two pixels is nearest.
    #[must_use]
    pub fn place(&self, at: u32) -> f32 {
        let (from, to, x) = (self.from as f32, self.to as f32, at as f32);
        let middle = (x + 0.5) / self.scale;
        match self.coordinates {
            _ if self.scale == 1.0 => x,
            Coordinates::Asymmetric => x / self.scale,
            Coordinates::HalfPixel => middle - 0.5,
            Coordinates::PytorchHalfPixel if self.to <= 1 => 0.0,
            Coordinates::PytorchHalfPixel => middle - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = to / (self.scale * from);
                let offset = f64::from(from / 2.0 * (1.0 - adjustment));
                // The halves are f64 there, and what is computed with them: 5 to 3 lies a little below 2.
                let middle = (f64::from(x) + 0.5) / f64::from(self.scale);
                (offset + middle - 0.5) as f32
            }
            Coordinates::AlignCorners if self.to <= 1 => 0.0,
            Coordinates::AlignCorners => x * (from - 1.0) / (to - 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resampling(from: u32, to: u32, coordinates: Coordinates, filter: Filter) -> Resampling {
        Resampling {
            size: Extent::square(to),
            scale: [to as f32 / from as f32; 2],
            coordinates,
            filter,
        }
    }

    fn nearest(from: u32, to: u32, coordinates: Coordinates, rounding: Rounding) -> Vec<usize> {
        let resampling = resampling(from, to, coordinates, Filter::Nearest(rounding));
        resampling.nearest_rows(from, rounding).collect()
    }

    #[test]
    fn doubling_repeats_each_pixel() {
        for (coordinates, rounding) in [
            (Coordinates::Asymmetric, Rounding::Floor),
            (Coordinates::HalfPixel, Rounding::PreferFloor),
            (Coordinates::HalfPixel, Rounding::PreferCeil),
        ] {
            let found = nearest(3, 6, coordinates, rounding);
            assert_eq!(found, [0, 0, 1, 1, 2, 2], "{coordinates:?}");
        }
        let ceil = nearest(3, 6, Coordinates::Asymmetric, Rounding::Ceil);
        assert_eq!(ceil, [0, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn halves_go_where_the_rounding_prefers() {
        // The places are 0.5, 2.5 and 4.5.
        let floor = nearest(6, 3, Coordinates::HalfPixel, Rounding::PreferFloor);
        let ceil = nearest(6, 3, Coordinates::HalfPixel, Rounding::PreferCeil);
        assert_eq!((&floor[..], &ceil[..]), (&[0, 2, 4][..], &[1, 3, 5][..]));
    }

    /// 2 as onnxruntime adds, and a little less in another order of the same sum.
    #[test]
    fn a_place_is_summed_from_the_front() {
        let resampling = Resampling {
            scale: [1.5; 2],
            ..resampling(5, 7, Coordinates::HalfPixelSymmetric, Filter::Linear)
        };
        assert_eq!(resampling.columns(5).place(3), 2.0);
        let rounded_down = nearest(5, 3, Coordinates::HalfPixelSymmetric, Rounding::Floor);
        assert_eq!(rounded_down, [0, 1, 3]);
    }

    #[test]
    fn aligned_corners_are_the_corners() {
        let resampling = resampling(3, 5, Coordinates::AlignCorners, Filter::Linear);
        let all: Vec<Between> = resampling.linear_rows(3).collect();
        let places = all.iter().map(|at| at.first as f32 + at.share);
        assert_eq!(places.collect::<Vec<f32>>(), [0.0, 0.5, 1.0, 1.5, 2.0]);
        let last = Between {
            first: 2,
            second: 2,
            share: 0.0,
        };
        assert_eq!(all[4], last);
    }

    #[test]
    fn half_pixels_beyond_the_edges_are_the_edges() {
        let resampling = resampling(2, 4, Coordinates::HalfPixel, Filter::Linear);
        let places = resampling
            .linear_rows(2)
            .map(|at| at.first as f32 + at.share);
        assert_eq!(places.collect::<Vec<f32>>(), [0.0, 0.25, 0.75, 1.0]);
    }

    #[test]
    fn the_same_size_is_the_same_image_unless_the_scale_says_otherwise() {
        let same = resampling(5, 5, Coordinates::Asymmetric, Filter::Linear);
        assert!(same.is_identity(Extent::square(5)));
        let scale = [1.1; 2];
        assert!(!Resampling { scale, ..same }.is_identity(Extent::square(5)));
    }

    #[test]
    fn no_size_and_no_scale_leads_outside_the_image() {
        for scale in [f32::MIN_POSITIVE, 1e-9, 0.3, 1e9, f32::MAX] {
            for coordinates in [
                Coordinates::Asymmetric,
                Coordinates::HalfPixel,
                Coordinates::HalfPixelSymmetric,
                Coordinates::AlignCorners,
            ] {
                let resampling = Resampling {
                    scale: [scale; 2],
                    ..resampling(3, 7, coordinates, Filter::Linear)
                };
                assert!(resampling.nearest_rows(3, Rounding::Ceil).all(|at| at < 3));
                assert!(resampling.linear_columns(3).all(|at| {
                    at.second < 3 && at.first <= at.second && (0.0..1.0).contains(&at.share)
                }));
            }
        }
    }
}
