//! Sequences of tokens: looked up in a table, made of an image's pixels, or one of them taken.
//! These kernels only move and add, so there is one code for all instruction sets.

use crate::spec::{check_equal, check_finite, check_room};
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part, Weights};

/// A row of a table for each pixel, whose only channel holds the row's number. What is no row's
/// number takes the nearest.
#[derive(Clone, Debug)]
pub struct Embedding {
    input: BlockedLayout,
    output: BlockedLayout,
    rows: usize,
}

impl Embedding {
    /// Looks up `rows` rows.
    pub fn new(
        isa: Isa,
        input: BlockedLayout,
        output: BlockedLayout,
        rows: usize,
    ) -> Result<Embedding, KernelError> {
        check_isa(isa, &input, &output)?;
        check_equal("the channels that hold a row's number", input.channels(), 1)?;
        check_equal("the output's height", output.height(), input.height())?;
        check_equal("the output's width", output.width(), input.width())?;
        if rows == 0 {
            return Err(KernelError::Zero {
                what: "rows of the table",
            });
        }
        Ok(Embedding {
            input,
            output,
            rows,
        })
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn row(&self) -> usize {
        self.output.blocks() * self.output.lanes()
    }
}

impl Kernel for Embedding {
    fn packed_len(&self) -> usize {
        self.rows * self.row()
    }

    /// A table, `[row][channel]`.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let table = weights.floats[0];
        check_room(packed.len(), self.packed_len());
        let channels = self.output.channels();
        check_equal("the table's values", table.len(), self.rows * channels)?;
        check_finite("table", table)?;
        packed.fill(0.0);
        let rows = packed.chunks_exact_mut(self.row());
        for (packed, row) in rows.zip(table.chunks_exact(channels)) {
            packed[..channels].copy_from_slice(row);
        }
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        let (range, lanes) = (self.output.part(part), self.output.lanes());
        for image in images {
            image.prepare([self.input.len()], &self.output, part);
            for (block, row) in self.output.block_rows(part) {
                let from = self.input.row_start(0, row);
                let to = self.output.row_start(block, row) - range.start;
                for pixel in 0..self.output.width() {
                    // A cast of a float saturates, and takes a NaN to 0.
                    let number = image.input()[from + pixel * lanes] as usize;
                    let found = number.min(self.rows - 1) * self.row() + block * lanes;
                    image.output[to + pixel * lanes..][..lanes]
                        .copy_from_slice(&packed[found..][..lanes]);
                }
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(vec![self.rows()])
    }
}

/// The pixels of an image in one row behind constant ones, a table added to all.
#[derive(Clone, Debug)]
pub struct Tokens {
    input: BlockedLayout,
    output: BlockedLayout,
    prefix: usize,
}

impl Tokens {
    /// Puts `prefix` constant tokens before the pixels.
    pub fn new(
        isa: Isa,
        input: BlockedLayout,
        output: BlockedLayout,
        prefix: usize,
    ) -> Result<Tokens, KernelError> {
        check_isa(isa, &input, &output)?;
        check_equal("the output's channels", output.channels(), input.channels())?;
        check_equal("the output's height", output.height(), 1)?;
        let tokens = prefix + input.height() * input.width();
        check_equal("the output's width", output.width(), tokens)?;
        Ok(Tokens {
            input,
            output,
            prefix,
        })
    }

    pub fn count(&self) -> usize {
        self.output.width()
    }
}

impl Kernel for Tokens {
    fn packed_len(&self) -> usize {
        self.output.blocks() * self.output.width() * self.output.lanes()
    }

    /// A table, `[token][channel]`.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let table = weights.floats[0];
        check_room(packed.len(), self.packed_len());
        let (channels, tokens) = (self.output.channels(), self.output.width());
        check_equal("the table's values", table.len(), tokens * channels)?;
        check_finite("table", table)?;
        packed.fill(0.0);
        let lanes = self.output.lanes();
        for (token, row) in table.chunks_exact(channels).enumerate() {
            for (block, values) in row.chunks(lanes).enumerate() {
                let at = (block * tokens + token) * lanes;
                packed[at..at + values.len()].copy_from_slice(values);
            }
        }
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        let (range, lanes) = (self.output.part(part), self.output.lanes());
        let (tokens, pixels) = (self.output.width(), self.input.width() * lanes);
        for image in images {
            image.prepare([self.input.len()], &self.output, part);
            for (block, _) in self.output.block_rows(part) {
                let to = self.output.row_start(block, 0) - range.start;
                let output = &mut image.output[to..][..tokens * lanes];
                output.copy_from_slice(&packed[block * tokens * lanes..][..tokens * lanes]);
                let rows = output[self.prefix * lanes..].chunks_exact_mut(pixels);
                for (row, output) in rows.enumerate() {
                    let from = self.input.row_start(block, row);
                    let input = &image.inputs[0][from..][..pixels];
                    output
                        .iter_mut()
                        .zip(input)
                        .for_each(|(to, from)| *to += from);
                }
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(vec![self.count()])
    }
}

fn check_isa(isa: Isa, input: &BlockedLayout, output: &BlockedLayout) -> Result<(), KernelError> {
    if !isa.is_available() {
        return Err(KernelError::IsaUnavailable { isa });
    }
    input.check_lanes("input", isa)?;
    output.check_lanes("output", isa)
}
