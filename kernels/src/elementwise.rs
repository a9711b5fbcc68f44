//! Sums and products of two tensors that could not be fused into a convolution.

use punctual_types::Activation;

use crate::activation::{self, Curve, Values};
use crate::simd::{Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, KernelError, Part};

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

/// An addition for one instruction set.
#[derive(Clone, Debug)]
pub struct Add {
    spec: AddSpec,
    pairs: Pairs,
}

impl Add {
    pub fn new(isa: Isa, spec: &AddSpec) -> Result<Add, KernelError> {
        let pairs = Pairs {
            input: spec.input,
            second: spec.addend,
            output: spec.output,
            activation: spec.activation,
            curve: activation::curve(spec.activation, isa),
            kernel: compiled_for!(isa, add_row, Row),
        };
        pairs.check(isa)?;
        spec.addend.check_same_image(&spec.output)?;
        Ok(Add { spec: *spec, pairs })
    }

    pub fn spec(&self) -> &AddSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image: the input, then the addend.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        self.pairs.run(part, images);
    }
}

/// `activation(input * factor)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiplySpec {
    /// What it reads first.
    pub input: BlockedLayout,
    /// What it reads second: the same image size with its own halo, or a vector with one value a
    /// channel, for all of the channel's pixels.
    pub factor: BlockedLayout,
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// A multiplication for one instruction set.
#[derive(Clone, Debug)]
pub struct Multiply {
    spec: MultiplySpec,
    pairs: Pairs,
}

impl Multiply {
    pub fn new(isa: Isa, spec: &MultiplySpec) -> Result<Multiply, KernelError> {
        let is_vector = spec.factor.height() == 1 && spec.factor.width() == 1;
        let kernel = if is_vector {
            compiled_for!(isa, multiply_row_by_pixel, Row)
        } else {
            compiled_for!(isa, multiply_row, Row)
        };
        let pairs = Pairs {
            input: spec.input,
            second: spec.factor,
            output: spec.output,
            activation: spec.activation,
            curve: activation::curve(spec.activation, isa),
            kernel,
        };
        pairs.check(isa)?;
        if !is_vector {
            spec.factor.check_same_image(&spec.output)?;
        }
        Ok(Multiply { spec: *spec, pairs })
    }

    pub fn spec(&self) -> &MultiplySpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image: the input, then the factor.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        self.pairs.run(part, images);
    }
}

/// Two tensors that become one, row by row.
#[derive(Clone, Debug)]
struct Pairs {
    input: BlockedLayout,
    /// An image like the input, or one pixel.
    second: BlockedLayout,
    output: BlockedLayout,
    activation: Activation,
    curve: Option<Curve>,
    kernel: unsafe fn(&Row),
}

impl Pairs {
    /// All but the second tensor's height and width.
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        self.input.check_lanes("input", isa)?;
        self.second.check_lanes("addend", isa)?;
        self.output.check_lanes("output", isa)?;
        self.input.check_same_image(&self.output)?;
        let (second, output) = (self.second.channels(), self.output.channels());
        check_equal("the addend's channels", second, output)?;
        activation::check(self.activation)
    }

    fn run(&self, part: Part, images: &mut [Image<'_>]) {
        let range = self.output.part(part);
        for image in images {
            assert_eq!(
                image.input().len(),
                self.input.len(),
                "the input is the whole tensor"
            );
            let Some(second) = image.second() else {
                panic!("the operator needs a second operand")
            };
            assert_eq!(
                second.len(),
                self.second.len(),
                "the second operand is the whole tensor"
            );
            assert_eq!(
                image.output.len(),
                range.len(),
                "the output is the part's slice"
            );
            self.output.clear_halo(part, image.output);
            for (block, row) in self.output.block_rows(part) {
                self.run_row(image, second, block, row, range.start);
            }
        }
    }

    fn run_row(
        &self,
        image: &mut Image<'_>,
        second: &[f32],
        block: usize,
        row: usize,
        part_start: usize,
    ) {
        let elements = self.output.width() * self.output.lanes();
        let second_elements = self.second.width() * self.second.lanes();
        let a = self.input.row_start(block, row);
        let b = self
            .second
            .row_start(block, row.min(self.second.height() - 1));
        let to = self.output.row_start(block, row) - part_start;
        let (low, high) = self.activation.bounds();
        let row = Row {
            a: image.input()[a..a + elements].as_ptr(),
            b: second[b..b + second_elements].as_ptr(),
            output: image.output[to..to + elements].as_mut_ptr(),
            elements,
            low,
            high,
        };
        // SAFETY: the constructor saw that the instruction set is available; the slices are as
        // long as the kernel reads, and the output is borrowed for us alone.
        unsafe { (self.kernel)(&row) };
        if let Some(curve) = self.curve {
            let values = row.output;
            // SAFETY: as for the row.
            unsafe { curve(&Values { values, elements }) };
        }
    }
}

/// A row of one block's pixels.
struct Row {
    a: *const f32,
    /// As many, or one pixel for all of them.
    b: *const f32,
    output: *mut f32,
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

/// # Safety
/// As of [`add_row`].
#[inline(always)]
unsafe fn multiply_row<V: Vector>(row: &Row) {
    let mut at = 0;
    while at < row.elements {
        // SAFETY: `at + LANES <= elements`.
        unsafe {
            V::load(row.a.add(at))
                .mul(V::load(row.b.add(at)))
                .clamp(V::splat(row.low), V::splat(row.high))
                .store(row.output.add(at));
        }
        at += V::LANES;
    }
}

/// # Safety
/// As of [`add_row`], but `b` is valid for one pixel.
#[inline(always)]
unsafe fn multiply_row_by_pixel<V: Vector>(row: &Row) {
    // SAFETY: the caller's promise; `at + LANES <= elements`.
    unsafe {
        let factor = V::load(row.b);
        let mut at = 0;
        while at < row.elements {
            V::load(row.a.add(at))
                .mul(factor)
                .clamp(V::splat(row.low), V::splat(row.high))
                .store(row.output.add(at));
            at += V::LANES;
        }
    }
}
