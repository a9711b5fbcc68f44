//! Values at computed positions of an axis.

use punctual_types::{Axis, position};

use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// The values at the indices' positions along an axis. Indices have one channel, row or column where all of the input's
/// share them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TakeSpec {
    pub input: BlockedLayout,
    pub indices: BlockedLayout,
    /// Has the input's channels, rows and columns, but along the axis the indices'.
    pub output: BlockedLayout,
    pub axis: Axis,
}

/// It only copies values, so all instruction sets share its code.
#[derive(Clone, Debug)]
pub struct Take {
    spec: TakeSpec,
}

impl Take {
    pub fn new(isa: Isa, spec: &TakeSpec) -> Result<Take, KernelError> {
        spec.check(isa)?;
        Ok(Take { spec: *spec })
    }

    pub fn spec(&self) -> &TakeSpec {
        &self.spec
    }

    /// Copies a row of a block, whole pixels at a time.
    fn pixels(&self, image: &mut Image<'_>, block: usize, row: usize, to: usize) {
        let TakeSpec { input, output, .. } = &self.spec;
        let lanes = output.lanes();
        for column in 0..output.width() {
            let [_, from_row, from_column] = self.place(image.inputs[1], [0, row, column]);
            let from = input.row_start(block, from_row) + from_column * lanes;
            image.output[to + column * lanes..][..lanes]
                .copy_from_slice(&image.inputs[0][from..][..lanes]);
        }
    }

    /// Copies a row of a block value by value.
    fn values(&self, image: &mut Image<'_>, block: usize, row: usize, to: usize) {
        let TakeSpec { input, output, .. } = &self.spec;
        let lanes = output.lanes();
        let used = lanes.min(output.channels() - block * lanes);
        for column in 0..output.width() {
            let pixel = &mut image.output[to + column * lanes..][..lanes];
            pixel[used..].fill(0.0);
            for (lane, value) in pixel[..used].iter_mut().enumerate() {
                let at = [block * lanes + lane, row, column];
                let [channel, row, column] = self.place(image.inputs[1], at);
                *value = image.inputs[0][input.index(channel, row, column)];
            }
        }
    }

    /// The place in the input of the output's value at a place.
    fn place(&self, indices: &[f32], at: [usize; 3]) -> [usize; 3] {
        let TakeSpec {
            input,
            indices: layout,
            axis,
            ..
        } = &self.spec;
        let shared = |at: usize, size: usize| if size == 1 { 0 } else { at };
        let [channel, row, column] = at;
        let channel = shared(channel, layout.channels());
        let (row, column) = (shared(row, layout.height()), shared(column, layout.width()));
        let index = indices[layout.index(channel, row, column)];
        let sizes = [input.channels(), input.height(), input.width()];
        let along = axis.index().unwrap_or(0);
        let mut place = at;
        place[along] = position(index, sizes[along] as u32) as usize;
        place
    }
}

impl Kernel for Take {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let TakeSpec {
            input,
            indices,
            output,
            axis,
        } = &self.spec;
        let by_pixels = *axis != Axis::Channel && indices.channels() == 1;
        for image in images {
            image.prepare([input.len(), indices.len()], output, part);
            for (block, row) in output.block_rows(part) {
                let to = output.row_start(block, row) - output.part(part).start;
                if by_pixels {
                    self.pixels(image, block, row, to)
                } else {
                    self.values(image, block, row, to)
                }
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

impl TakeSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let TakeSpec {
            input,
            indices,
            output,
            axis,
        } = self;
        input.check_lanes("input", isa)?;
        indices.check_lanes("indices", isa)?;
        output.check_lanes("output", isa)?;
        let sizes = |layout: &BlockedLayout| [layout.channels(), layout.height(), layout.width()];
        let (inputs, outputs, indices) = (sizes(input), sizes(output), sizes(indices));
        let Some(along) = axis.index() else {
            return Err(KernelError::Zero {
                what: "the positions of the axis",
            });
        };
        for at in 0..3 {
            if at == along {
                check_equal("the output's positions", outputs[at], indices[at])?;
                continue;
            }
            check_equal("the output's size", outputs[at], inputs[at])?;
            if indices[at] != 1 {
                check_equal("the indices' size", indices[at], inputs[at])?;
            }
        }
        Ok(())
    }
}
