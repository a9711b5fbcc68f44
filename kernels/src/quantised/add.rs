//! Addition of bytes: of two tensors with different scales, to a third.

use punctual_types::{Activation, Quantisation};

use super::rounding::{Rounding, steps};
use super::{bytes, bytes_mut};
use crate::simd::vectorised;
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part};

/// `activation(input + addend)`: the same image size, each tensor its own halo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AddSpec {
    /// What it reads first.
    pub input: BlockedLayout,
    /// What it reads second.
    pub addend: BlockedLayout,
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// An addition of bytes for one instruction set.
#[derive(Clone, Debug)]
pub struct Add {
    spec: AddSpec,
    a: Operand,
    b: Operand,
    rounding: Rounding,
    kernel: unsafe fn(&mut Row<'_>),
}

/// How an operand's bytes become steps of the result.
#[derive(Clone, Copy, Debug)]
struct Operand {
    zero: i32,
    scale: f32,
}

impl Operand {
    fn new(of: Quantisation, to: Quantisation) -> Operand {
        Operand {
            zero: i32::from(of.zero),
            scale: (f64::from(of.scale) / f64::from(to.scale)) as f32,
        }
    }
}

impl Add {
    /// Checks the shapes. All three tensors are bytes.
    pub fn new(isa: Isa, spec: &AddSpec) -> Result<Add, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let AddSpec {
            input,
            addend,
            output,
            activation,
        } = spec;
        let to = output.check_bytes("output", isa)?;
        let operand = |tensor: &'static str, layout: &BlockedLayout| {
            layout.check_same_image(output)?;
            layout
                .check_bytes(tensor, isa)
                .map(|of| Operand::new(of, to))
        };
        Ok(Add {
            spec: *spec,
            a: operand("input", input)?,
            b: operand("addend", addend)?,
            rounding: Rounding::new(to, *activation)?,
            kernel: vectorised!(isa, add_row, Row<'_>),
        })
    }

    pub fn spec(&self) -> &AddSpec {
        &self.spec
    }
}

impl Kernel for Add {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let AddSpec {
            input,
            addend,
            output,
            ..
        } = &self.spec;
        let (range, floats) = (output.part(part), output.width() * output.pixel());
        for image in images {
            image.prepare([input.len(), addend.len()], output, part);
            let second = image.inputs[1];
            for (block, row) in output.block_rows(part) {
                let a = input.row_start(block, row);
                let b = addend.row_start(block, row);
                let to = output.row_start(block, row) - range.start;
                let mut row = Row {
                    a: bytes(&image.input()[a..a + floats]),
                    b: bytes(&second[b..b + floats]),
                    output: bytes_mut(&mut image.output[to..to + floats]),
                    of_a: self.a,
                    of_b: self.b,
                    rounding: self.rounding,
                };
                // SAFETY: the constructor saw that the instruction set is available.
                unsafe { (self.kernel)(&mut row) };
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

/// A row of one block's pixels: three slices of one length.
struct Row<'a> {
    a: &'a [u8],
    b: &'a [u8],
    output: &'a mut [u8],
    of_a: Operand,
    of_b: Operand,
    rounding: Rounding,
}

#[inline(always)]
fn add_row(row: &mut Row<'_>) {
    let len = row.output.len();
    let (a, b, output) = (&row.a[..len], &row.b[..len], &mut row.output[..len]);
    let (of_a, of_b, rounding) = (row.of_a, row.of_b, row.rounding);
    for at in 0..len {
        let a = steps(a[at], of_a.zero) * of_a.scale;
        let b = steps(b[at], of_b.zero) * of_b.scale;
        output[at] = rounding.byte(a + b);
    }
}
