//! Addition that could not be fused into a convolution.

use crate::activation::{Curve, Values};
use crate::simd::{Vector, compiled_for};
use crate::{Activation, BlockedLayout, Image, Isa, KernelError, Part};

/// `activation(input + addend)`: the same image size, each tensor its own halo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AddSpec {
    /// What it reads first.
    pub input: BlockedLayout,
    /// What it reads second, the image's second input.
    pub addend: BlockedLayout,
    /// What it writes.
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// An addition for one instruction set.
#[derive(Clone, Debug)]
pub struct Add {
    spec: AddSpec,
    kernel: unsafe fn(&Row),
    curve: Option<Curve>,
}

impl Add {
    /// Checks the shapes.
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
        for (tensor, layout) in [("input", input), ("addend", addend), ("output", output)] {
            layout.check_lanes(tensor, isa)?;
            layout.check_same_image(output)?;
        }
        activation.check()?;
        Ok(Add {
            spec: *spec,
            kernel: compiled_for!(isa, add_row, Row),
            curve: activation.curve(isa),
        })
    }

    /// Its specification.
    pub fn spec(&self) -> &AddSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        let AddSpec {
            input,
            addend,
            output,
            activation,
        } = &self.spec;
        let (low, high) = activation.bounds();
        let (range, elements) = (output.part(part), output.width() * output.lanes());
        for image in images {
            let Some(second) = image.second() else {
                panic!("an addition needs an addend")
            };
            assert_eq!(
                image.input().len(),
                input.len(),
                "the input is the whole tensor"
            );
            assert_eq!(second.len(), addend.len(), "the addend is the whole tensor");
            assert_eq!(
                image.output.len(),
                range.len(),
                "the output is the part's slice"
            );
            output.clear_halo(part, image.output);
            for (block, row) in output.block_rows(part) {
                let a = input.row_start(block, row);
                let b = addend.row_start(block, row);
                let to = output.row_start(block, row) - range.start;
                let row = Row {
                    a: image.input()[a..a + elements].as_ptr(),
                    b: second[b..b + elements].as_ptr(),
                    output: image.output[to..to + elements].as_mut_ptr(),
                    elements,
                    low,
                    high,
                };
                // SAFETY: the constructor saw that the instruction set is available; the three
                // slices are `elements` long, and the output is borrowed for us alone.
                unsafe { (self.kernel)(&row) };
                if let Some(curve) = self.curve {
                    let values = row.output;
                    // SAFETY: as for the row.
                    unsafe { curve(&Values { values, elements }) };
                }
            }
        }
    }
}

/// A row of one block's pixels.
struct Row {
    a: *const f32,
    b: *const f32,
    output: *mut f32,
    /// A multiple of the lanes.
    elements: usize,
    low: f32,
    high: f32,
}

/// # Safety
/// The processor has the instruction set; the pointers are valid for `elements`, a multiple of the
/// lanes, and nothing aliases `output`.
#[inline(always)]
unsafe fn add_row<V: Vector>(row: &Row) {
    let mut at = 0;
    while at < row.elements {
        // SAFETY: `at + LANES <= elements`.
        unsafe {
            V::load(row.a.add(at))
                .add(V::load(row.b.add(at)))
                .clamp(V::splat(row.low), V::splat(row.high))
                .store(row.output.add(at));
        }
        at += V::LANES;
    }
}
