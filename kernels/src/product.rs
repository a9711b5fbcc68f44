//! Products of two computed matrices.
//!
//! A tile of the result, some columns of the first operand times some blocks of the second's channels, stays in
//! registers while the kernel walks over the terms. Each term loads a vector of the second operand for each block and
//! broadcasts a value of the first for each column: neither operand is packed.

use crate::simd::{Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// `output[n][b][m] = sum_k first[k][b][m] * second[n][b][k]`, indexed by channel, row, column: for each row a product
/// of matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductSpec {
    /// The operator's first input. Its channels are the terms.
    pub first: BlockedLayout,
    /// The second input, of as many rows. Its columns are the terms.
    pub second: BlockedLayout,
    /// The first one's rows and columns, the second one's channels.
    pub output: BlockedLayout,
}

/// A product for one instruction set.
#[derive(Clone, Debug)]
pub struct Product {
    spec: ProductSpec,
    kernel: unsafe fn(&Strip),
}

impl Product {
    pub fn new(isa: Isa, spec: &ProductSpec) -> Result<Product, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let ProductSpec {
            first,
            second,
            output,
        } = spec;
        first.check_lanes("first operand", isa)?;
        second.check_lanes("second operand", isa)?;
        output.check_lanes("output", isa)?;
        let terms = first.channels();
        check_equal("the second operand's columns", second.width(), terms)?;
        check_equal(
            "the second operand's height",
            second.height(),
            first.height(),
        )?;
        check_equal(
            "the output's channels",
            output.channels(),
            second.channels(),
        )?;
        check_equal("the output's height", output.height(), first.height())?;
        check_equal("the output's width", output.width(), first.width())?;
        Ok(Product {
            spec: *spec,
            kernel: compiled_for!(isa, multiply, Strip),
        })
    }

    pub fn spec(&self) -> &ProductSpec {
        &self.spec
    }
}

impl Kernel for Product {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let ProductSpec {
            first,
            second,
            output,
        } = &self.spec;
        let start = output.part(part).start;
        for image in images {
            image.prepare([first.len(), second.len()], output, part);
            for span in output.spans(part) {
                for row in span.rows.clone() {
                    let strip = Strip {
                        first: image.inputs[0][first.row_start(0, row)..].as_ptr(),
                        first_block: first.block_stride(),
                        terms: first.channels(),
                        second: image.inputs[1][second.row_start(span.block, row)..].as_ptr(),
                        second_block: second.block_stride(),
                        output: image.output[output.row_start(span.block, row) - start..]
                            .as_mut_ptr(),
                        output_block: output.block_stride(),
                        blocks: span.blocks,
                        columns: output.width(),
                    };
                    // SAFETY: the constructor saw that the instruction set is available and that
                    // the operands fit each other; they are as long as their layouts say, and the
                    // part's slice has this row of the span's blocks.
                    unsafe { (self.kernel)(&strip) };
                }
            }
            output.clear_surplus(part, image.output);
        }
    }
}

/// A row of a few blocks of the result. Strides are in floats.
struct Strip {
    /// The row of the first operand's first block.
    first: *const f32,
    first_block: usize,
    terms: usize,
    /// The row of the second operand's first of these blocks.
    second: *const f32,
    second_block: usize,
    output: *mut f32,
    output_block: usize,
    blocks: usize,
    columns: usize,
}

/// Tiles of as many blocks as there are registers for, then of fewer.
///
/// # Safety
/// The processor has the instruction set. The operands are valid for their columns, terms and blocks, the output for
/// what is written, which nothing else aliases.
#[inline(always)]
unsafe fn multiply<V: Vector>(strip: &Strip) {
    let mut block = 0;
    // SAFETY: the blocks are the strip's.
    unsafe {
        // Instruction sets of eight lanes have 16 registers, the others 32.
        while V::LANES != 8 && strip.blocks - block >= 4 {
            tiles::<V, 4, 6>(strip, block);
            block += 4;
        }
        while strip.blocks - block >= 2 {
            match V::LANES {
                8 => tiles::<V, 2, 6>(strip, block),
                _ => tiles::<V, 2, 12>(strip, block),
            }
            block += 2;
        }
        if block < strip.blocks {
            tiles::<V, 1, 12>(strip, block);
        }
    }
}

/// All columns of `B` blocks, `C` at a time. The last tile is moved back to end with the row, and computes some columns
/// again.
///
/// # Safety
/// As of [`multiply`].
#[inline(always)]
unsafe fn tiles<V: Vector, const B: usize, const C: usize>(strip: &Strip, block: usize) {
    let mut column = 0;
    // SAFETY: the tiles lie inside the strip.
    unsafe {
        if strip.columns < C {
            while column < strip.columns {
                tile::<V, B, 1>(strip, block, column);
                column += 1;
            }
            return;
        }
        while column < strip.columns {
            tile::<V, B, C>(strip, block, column.min(strip.columns - C));
            column += C;
        }
    }
}

/// # Safety
/// As of [`multiply`]; the tile lies inside the strip.
#[inline(always)]
unsafe fn tile<V: Vector, const B: usize, const C: usize>(
    strip: &Strip,
    block: usize,
    column: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::splat(0.0); B]; C];
        let mut first = strip.first.add(column * V::LANES);
        let mut second = strip.second.add(block * strip.second_block);
        let mut left = strip.terms;
        while left >= V::LANES {
            let mut lane = 0;
            while lane < V::LANES {
                add_term::<V, B, C>(strip, first.add(lane), second, &mut sums);
                second = second.add(V::LANES);
                lane += 1;
            }
            // Wrapping, as behind the last block the pointer leaves the tensor; it is not read there.
            first = first.wrapping_add(strip.first_block);
            left -= V::LANES;
        }
        let mut lane = 0;
        while lane < left {
            add_term::<V, B, C>(strip, first.add(lane), second, &mut sums);
            second = second.add(V::LANES);
            lane += 1;
        }
        let output = strip
            .output
            .add(block * strip.output_block + column * V::LANES);
        for (column, sums) in sums.iter().enumerate() {
            for (block, sum) in sums.iter().enumerate() {
                sum.store(output.add(block * strip.output_block + column * V::LANES));
            }
        }
    }
}

/// Adds one term: its value of each column times its vector of each block.
///
/// # Safety
/// As of [`tile`].
#[inline(always)]
unsafe fn add_term<V: Vector, const B: usize, const C: usize>(
    strip: &Strip,
    first: *const f32,
    second: *const f32,
    sums: &mut [[V; B]; C],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut vectors = [V::splat(0.0); B];
        for (block, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(second.add(block * strip.second_block));
        }
        for (column, sums) in sums.iter_mut().enumerate() {
            let value = V::splat(*first.add(column * V::LANES));
            for (sum, vector) in sums.iter_mut().zip(vectors) {
                *sum = sum.mul_add(value, vector);
            }
        }
    }
}
