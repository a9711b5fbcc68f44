//! Which of a window's taps lie in the image. Where the halo is narrower than the padding, the
//! others are left out: they would only add zeros.

use core::ops::Range;

use super::spec::Conv2dSpec;
use crate::shape::Shape;

/// Neighbouring output rows or columns that read the same taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub outputs: Range<usize>,
    pub taps: Range<usize>,
}

impl Run {
    /// A part of the run's outputs, which read the same taps.
    pub fn part(&self, outputs: Range<usize>) -> Run {
        let taps = self.taps.clone();
        Run { outputs, taps }
    }
}

/// One direction of a convolution: its rows, or its columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    /// Rows or columns of the image.
    size: usize,
    taps: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
    /// Without it every output reads all taps.
    clipped: bool,
}

impl Direction {
    pub fn rows(spec: &Conv2dSpec) -> Direction {
        let (window, Shape { height, .. }) = (&spec.window, spec.input.sizes());
        Direction {
            size: height,
            taps: window.kernel.height as usize,
            stride: window.stride.height as usize,
            dilation: window.dilation.height as usize,
            padding: window.padding.top as usize,
            clipped: spec.is_clipped(),
        }
    }

    pub fn columns(spec: &Conv2dSpec) -> Direction {
        let (window, Shape { width, .. }) = (&spec.window, spec.input.sizes());
        Direction {
            size: width,
            taps: window.kernel.width as usize,
            stride: window.stride.width as usize,
            dilation: window.dilation.width as usize,
            padding: window.padding.left as usize,
            clipped: spec.is_clipped(),
        }
    }

    /// The outputs in runs, in order.
    pub fn runs(self, outputs: Range<usize>) -> impl Iterator<Item = Run> {
        let mut start = outputs.start;
        core::iter::from_fn(move || {
            if start == outputs.end {
                return None;
            }
            let taps = self.taps(start);
            let mut end = start + 1;
            while end < outputs.end && (!self.clipped || self.taps(end) == taps) {
                end += 1;
            }
            let outputs = start..end;
            start = end;
            Some(Run { outputs, taps })
        })
    }

    /// The taps that an output reads: tap `k` lies on pixel
    /// `output * stride + k * dilation - padding`. None are `0..0`.
    fn taps(&self, output: usize) -> Range<usize> {
        if !self.clipped {
            return 0..self.taps;
        }
        let first = output * self.stride;
        let before = self.padding.saturating_sub(first);
        let until = (self.size + self.padding).saturating_sub(first);
        let end = until.div_ceil(self.dilation).min(self.taps);
        let start = before.div_ceil(self.dilation);
        if start < end { start..end } else { 0..0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(size: usize, dilation: usize, padding: usize) -> Direction {
        Direction {
            size,
            taps: 3,
            stride: 1,
            dilation,
            padding,
            clipped: true,
        }
    }

    fn runs(direction: Direction, outputs: usize) -> Vec<(Range<usize>, Range<usize>)> {
        let runs = direction.runs(0..outputs);
        runs.map(|run| (run.outputs, run.taps)).collect()
    }

    #[test]
    fn outputs_near_an_edge_read_fewer_taps() {
        let expected = [(0..12, 1..3), (12..53, 0..3), (53..65, 0..2)];
        assert_eq!(runs(direction(65, 12, 12), 65), expected);
        let all = Direction {
            clipped: false,
            ..direction(65, 12, 12)
        };
        assert_eq!(runs(all, 65), [(0..65, 0..3)]);
    }

    #[test]
    fn a_dilation_wider_than_the_image_leaves_the_tap_in_the_middle() {
        assert_eq!(runs(direction(28, 36, 36), 28), [(0..28, 1..2)]);
    }

    #[test]
    fn a_window_may_see_nothing_of_the_image() {
        // Taps at -3, 1 and 5 of one pixel.
        assert_eq!(runs(direction(1, 4, 3), 1), [(0..1, 0..0)]);
    }
}
