//! Functions of each value of a tensor, or of the values of two: either may be repeated, one may be constant.

use core::ops::Range;

use punctual_types::{Activation, BinaryFunction, UnaryFunction};

use crate::activation::{self, Curve};
use crate::functions;
use crate::simd::{Vector, compiled_for};
use crate::spec::{check_equal, check_finite, check_room};
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part, Weights};

/// One of the two. Its channels, rows and columns are the output's, or one that is repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BinaryOperand {
    /// The next of the image's inputs.
    Tensor(BlockedLayout),
    /// Packed values, without a halo.
    Constant(BlockedLayout),
}

impl BinaryOperand {
    fn layout(&self) -> &BlockedLayout {
        match self {
            BinaryOperand::Tensor(layout) | BinaryOperand::Constant(layout) => layout,
        }
    }

    fn tensor(&self) -> Option<&BlockedLayout> {
        match self {
            BinaryOperand::Tensor(layout) => Some(layout),
            BinaryOperand::Constant(_) => None,
        }
    }
}

/// `activation(function(a, b))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BinarySpec {
    pub function: BinaryFunction,
    /// `a` and `b`, tensors in the order of the image's inputs; at least one of them is a tensor.
    pub operands: [BinaryOperand; 2],
    /// Whether the second one is `a`.
    pub swapped: bool,
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// A function of two values for one instruction set.
#[derive(Clone, Debug)]
pub struct Binary {
    spec: BinarySpec,
    /// Of `a` and `b`.
    readings: [Reading; 2],
    curve: Option<Curve>,
    kernel: unsafe fn(&Row),
}

impl Binary {
    pub fn new(isa: Isa, spec: &BinarySpec) -> Result<Binary, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let BinarySpec {
            operands, output, ..
        } = spec;
        output.check_lanes("output", isa)?;
        for operand in operands {
            let layout = operand.layout();
            layout.check_lanes("operand", isa)?;
            for (what, own, all) in [
                (
                    "the operand's channels",
                    layout.channels(),
                    output.channels(),
                ),
                ("the operand's height", layout.height(), output.height()),
                ("the operand's width", layout.width(), output.width()),
            ] {
                if own != 1 {
                    check_equal(what, own, all)?;
                }
            }
        }
        let constant = |operand: &BinaryOperand| matches!(operand, BinaryOperand::Constant(_));
        for operand in operands.iter().filter(|operand| constant(operand)) {
            check_equal("the constant's halo", operand.layout().halo(), 0)?;
        }
        if operands.iter().all(constant) {
            return Err(KernelError::Zero {
                what: "the operands that are tensors",
            });
        }
        activation::check(spec.activation)?;
        let mut readings = operands.map(|operand| Reading::new(operand.layout(), output));
        if spec.swapped {
            readings.reverse();
        }
        let whole = |reading: &Reading| !reading.splat && reading.step > 0;
        let reach = match &readings {
            [a, b] if whole(a) && whole(b) => Reach::Whole,
            [a, b] if whole(a) && !b.splat => Reach::Pixel,
            _ => Reach::Any,
        };
        Ok(Binary {
            spec: *spec,
            readings,
            curve: activation::curve(spec.activation, isa),
            kernel: kernel(isa, spec.function, reach),
        })
    }

    pub fn spec(&self) -> &BinarySpec {
        &self.spec
    }

    fn constant(&self) -> Option<&BlockedLayout> {
        self.spec.operands.iter().find_map(|operand| match operand {
            BinaryOperand::Constant(layout) => Some(layout),
            BinaryOperand::Tensor(_) => None,
        })
    }

    fn run_row(&self, operands: [&[f32]; 2], block: usize, row: usize, output: &mut [f32]) {
        let [a, b] = &self.readings;
        let (low, high) = self.spec.activation.bounds();
        let elements = output.len();
        let arguments = Row {
            a: a.source(operands[0], block, row),
            b: b.source(operands[1], block, row),
            output: output.as_mut_ptr(),
            elements,
            low,
            high,
        };
        // SAFETY: the constructor saw that the instruction set is available; the slices are as
        // long as the kernel reads, and the output is borrowed for us alone.
        unsafe { (self.kernel)(&arguments) };
        if is_open(self.spec.function) {
            clear_surplus(&self.spec.output, block, output);
        }
        if let Some(curve) = self.curve {
            // SAFETY: as for the row.
            unsafe { curve.apply(output.as_mut_ptr(), elements) };
        }
    }
}

impl Kernel for Binary {
    fn packed_len(&self) -> usize {
        self.constant().map_or(0, BlockedLayout::len)
    }

    /// The constant, `[channel][row][column]`, if there is one.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let values = weights.floats.first().copied().unwrap_or_default();
        check_room(packed.len(), self.packed_len());
        let elements = self
            .constant()
            .map_or(0, |layout| layout.shape().elements());
        check_equal("the constant's values", values.len(), elements)?;
        check_finite("constant", values)?;
        if let Some(layout) = self.constant() {
            layout.pack(values, packed);
        }
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        let output = self.spec.output;
        let range = output.part(part);
        for image in images {
            let tensors = self.spec.operands.iter().filter_map(BinaryOperand::tensor);
            image.prepare(tensors.map(BlockedLayout::len), &output, part);
            let mut tensors = image.inputs.iter();
            let mut operands = self.spec.operands.each_ref().map(|operand| match operand {
                BinaryOperand::Constant(_) => packed,
                BinaryOperand::Tensor(_) => match tensors.next() {
                    Some(tensor) => tensor,
                    None => panic!("the operator needs an operand"),
                },
            });
            if self.spec.swapped {
                operands.reverse();
            }
            for (block, row) in output.block_rows(part) {
                let to = output.row_start(block, row) - range.start;
                let to = to..to + output.width() * output.lanes();
                self.run_row(operands, block, row, &mut image.output[to]);
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        let operands = self.spec.operands.iter();
        let constants = operands.filter_map(|operand| match operand {
            BinaryOperand::Constant(layout) => Some(layout),
            BinaryOperand::Tensor(_) => None,
        });
        let sizes = constants.flat_map(|of| [of.channels(), of.height(), of.width()]);
        Some(sizes.collect())
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

/// How an operand's rows are found for those of the output; strides are 0 where it is repeated.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Where its first row starts.
    first: usize,
    block_stride: usize,
    row_stride: usize,
    /// Values of a row.
    elements: usize,
    /// From pixel to pixel.
    step: usize,
    /// Whether the pixel's first lane stands for all.
    splat: bool,
}

impl Reading {
    fn new(layout: &BlockedLayout, output: &BlockedLayout) -> Reading {
        let splat = repeats_lanes(layout, output);
        let unless = |repeats: bool, stride: usize| if repeats { 0 } else { stride };
        Reading {
            first: layout.row_start(0, 0),
            block_stride: unless(splat, layout.block_stride()),
            row_stride: unless(layout.height() != output.height(), layout.row_stride()),
            elements: layout.width() * layout.lanes(),
            step: unless(layout.width() != output.width(), layout.lanes()),
            splat,
        }
    }

    fn source(&self, values: &[f32], block: usize, row: usize) -> Source {
        let start = self.first + block * self.block_stride + row * self.row_stride;
        Source {
            values: values[start..start + self.elements].as_ptr(),
            step: self.step,
            splat: self.splat,
        }
    }
}

/// Whether an operand's only channel is that of all of the output's.
fn repeats_lanes(operand: &BlockedLayout, output: &BlockedLayout) -> bool {
    operand.channels() == 1 && output.channels() > 1
}

/// Whether a result may be infinite or NaN for finite operands, such as surplus lanes hold.
fn is_open(function: BinaryFunction) -> bool {
    matches!(
        function,
        BinaryFunction::Divide
            | BinaryFunction::Power
            | BinaryFunction::Modulo
            | BinaryFunction::Remainder
    )
}

/// Writes zeros to the surplus lanes of a block's row: nothing was divided by nothing there.
fn clear_surplus(layout: &BlockedLayout, block: usize, row: &mut [f32]) {
    let lanes = layout.lanes();
    let used: Range<usize> = 0..layout.channels().saturating_sub(block * lanes).min(lanes);
    if used.end < lanes {
        row.chunks_exact_mut(lanes)
            .for_each(|pixel| pixel[used.end..].fill(0.0));
    }
}

/// Of which values the inner loop goes through all.
#[derive(Clone, Copy)]
enum Reach {
    /// Each pixel and lane of both.
    Whole,
    /// Each of the first, one pixel of the second.
    Pixel,
    /// Whatever the operands say.
    Any,
}

/// A row of one block's pixels, as its [`Reading`] says.
struct Source {
    values: *const f32,
    step: usize,
    splat: bool,
}

struct Row {
    a: Source,
    b: Source,
    output: *mut f32,
    elements: usize,
    low: f32,
    high: f32,
}

/// # Safety
/// The processor has the instruction set; the source is valid at `at`.
#[inline(always)]
unsafe fn load<V: Vector>(source: &Source, at: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        if source.splat {
            V::splat(*source.values.add(at))
        } else {
            V::load(source.values.add(at))
        }
    }
}

/// The three loops of a function of two vectors.
///
/// # Safety
/// Of all of them: the processor has the instruction set; the output is valid for `elements`, a
/// multiple of the lanes, each source for as many or for one pixel, and nothing aliases the output.
macro_rules! loops {
    ($($name:ident: |$a:ident, $b:ident| $value:expr),*) => {$(
        mod $name {
            use super::{Row, Vector, load};

            /// # Safety
            /// The processor has the instruction set.
            #[allow(unused_unsafe, reason = "some have a condition of their own")]
            #[inline(always)]
            unsafe fn of<V: Vector>($a: V, $b: V) -> V {
                // SAFETY: the caller's promise.
                unsafe { $value }
            }

            /// # Safety
            /// See [`loops`](super).
            #[inline(always)]
            pub(super) unsafe fn whole<V: Vector>(row: &Row) {
                let mut at = 0;
                while at < row.elements {
                    // SAFETY: `at + LANES <= elements`.
                    unsafe {
                        of(V::load(row.a.values.add(at)), V::load(row.b.values.add(at)))
                            .clamp(V::splat(row.low), V::splat(row.high))
                            .store(row.output.add(at));
                    }
                    at += V::LANES;
                }
            }

            /// # Safety
            /// See [`loops`](super).
            #[inline(always)]
            pub(super) unsafe fn pixel<V: Vector>(row: &Row) {
                // SAFETY: the caller's promise; `at + LANES <= elements`.
                unsafe {
                    let b = V::load(row.b.values);
                    let mut at = 0;
                    while at < row.elements {
                        of(V::load(row.a.values.add(at)), b)
                            .clamp(V::splat(row.low), V::splat(row.high))
                            .store(row.output.add(at));
                        at += V::LANES;
                    }
                }
            }

            /// # Safety
            /// See [`loops`](super).
            #[inline(always)]
            pub(super) unsafe fn any<V: Vector>(row: &Row) {
                let (mut at, mut a, mut b) = (0, 0, 0);
                while at < row.elements {
                    // SAFETY: the caller's promise; `at + LANES <= elements`.
                    unsafe {
                        of(load::<V>(&row.a, a), load::<V>(&row.b, b))
                            .clamp(V::splat(row.low), V::splat(row.high))
                            .store(row.output.add(at));
                    }
                    (at, a, b) = (at + V::LANES, a + row.a.step, b + row.b.step);
                }
            }
        }
    )*};
}
loops!(
    add: |a, b| a.add(b),
    subtract: |a, b| a.sub(b),
    multiply: |a, b| a.mul(b),
    divide: |a, b| a.div(b),
    minimum: |a, b| b.smaller(a),
    maximum: |a, b| b.larger(a),
    equal: |a, b| super::functions::equal(a, b),
    not_equal: |a, b| super::functions::not_equal(a, b),
    less: |a, b| super::functions::less(a, b),
    less_or_equal: |a, b| super::functions::less_or_equal(a, b),
    keep_where: |a, b| super::functions::keep_where(a, b),
    keep_unless: |a, b| super::functions::keep_unless(a, b),
    slope: |a, b| super::functions::slope(a, b),
    power: |a, b| super::functions::lane_by_lane(a, b, super::power_of),
    modulo: |a, b| super::functions::lane_by_lane(a, b, super::modulo_of),
    remainder: |a, b| super::functions::lane_by_lane(a, b, super::remainder_of)
);

fn power_of(a: f32, b: f32) -> f32 {
    BinaryFunction::Power.of(a, b)
}

fn modulo_of(a: f32, b: f32) -> f32 {
    BinaryFunction::Modulo.of(a, b)
}

fn remainder_of(a: f32, b: f32) -> f32 {
    BinaryFunction::Remainder.of(a, b)
}

fn kernel(isa: Isa, function: BinaryFunction, reach: Reach) -> unsafe fn(&Row) {
    macro_rules! of {
        ($name:ident) => {{
            use $name::{any, pixel, whole};
            match reach {
                Reach::Whole => compiled_for!(isa, whole, Row),
                Reach::Pixel => compiled_for!(isa, pixel, Row),
                Reach::Any => compiled_for!(isa, any, Row),
            }
        }};
    }
    match function {
        BinaryFunction::Add => of!(add),
        BinaryFunction::Subtract => of!(subtract),
        BinaryFunction::Multiply => of!(multiply),
        BinaryFunction::Divide => of!(divide),
        BinaryFunction::Minimum => of!(minimum),
        BinaryFunction::Maximum => of!(maximum),
        BinaryFunction::Equal => of!(equal),
        BinaryFunction::NotEqual => of!(not_equal),
        BinaryFunction::Less => of!(less),
        BinaryFunction::LessOrEqual => of!(less_or_equal),
        BinaryFunction::KeepWhere => of!(keep_where),
        BinaryFunction::KeepUnless => of!(keep_unless),
        BinaryFunction::Slope => of!(slope),
        BinaryFunction::Power => of!(power),
        BinaryFunction::Modulo => of!(modulo),
        BinaryFunction::Remainder => of!(remainder),
    }
}

/// A function of each value for one instruction set.
#[derive(Clone, Debug)]
pub struct Unary {
    function: UnaryFunction,
    input: BlockedLayout,
    output: BlockedLayout,
    kernel: unsafe fn(&Pair),
}

impl Unary {
    pub fn new(
        isa: Isa,
        function: UnaryFunction,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Unary, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        input.check_lanes("input", isa)?;
        output.check_lanes("output", isa)?;
        input.check_same_image(&output)?;
        let kernel = match function {
            UnaryFunction::Absolute => compiled_for!(isa, absolute, Pair),
            UnaryFunction::Exponential => compiled_for!(isa, exponential, Pair),
            UnaryFunction::Reciprocal => compiled_for!(isa, reciprocal, Pair),
            UnaryFunction::SquareRoot => compiled_for!(isa, square_root, Pair),
            UnaryFunction::Logarithm => compiled_for!(isa, logarithm, Pair),
            UnaryFunction::Sign => compiled_for!(isa, sign, Pair),
            UnaryFunction::Floor => compiled_for!(isa, floor, Pair),
            UnaryFunction::Ceiling => compiled_for!(isa, ceiling, Pair),
            UnaryFunction::Round => compiled_for!(isa, round, Pair),
            UnaryFunction::Truncate => compiled_for!(isa, truncate, Pair),
            UnaryFunction::Sine
            | UnaryFunction::Cosine
            | UnaryFunction::Tangent
            | UnaryFunction::ArcSine
            | UnaryFunction::ArcCosine
            | UnaryFunction::ArcTangent
            | UnaryFunction::HyperbolicSine
            | UnaryFunction::HyperbolicCosine
            | UnaryFunction::ArcHyperbolicSine
            | UnaryFunction::ArcHyperbolicCosine
            | UnaryFunction::ArcHyperbolicTangent
            | UnaryFunction::ErrorFunction => one_by_one,
        };
        Ok(Unary {
            function,
            input,
            output,
            kernel,
        })
    }

    pub fn function(&self) -> UnaryFunction {
        self.function
    }
}

impl Kernel for Unary {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let range = self.output.part(part);
        let elements = self.output.width() * self.output.lanes();
        for image in images {
            image.prepare([self.input.len()], &self.output, part);
            for (block, row) in self.output.block_rows(part) {
                let from = self.input.row_start(block, row);
                let to = self.output.row_start(block, row) - range.start;
                let pair = Pair {
                    input: image.inputs[0][from..from + elements].as_ptr(),
                    output: image.output[to..to + elements].as_mut_ptr(),
                    elements,
                    function: self.function,
                };
                // SAFETY: the constructor saw that the instruction set is available; the slices
                // are `elements` long, and the output is borrowed for us alone.
                unsafe { (self.kernel)(&pair) };
                // A root or a reciprocal of what lies there may be no number.
                clear_surplus(&self.output, block, &mut image.output[to..to + elements]);
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

/// A row of one block's pixels.
struct Pair {
    input: *const f32,
    output: *mut f32,
    elements: usize,
    function: UnaryFunction,
}

/// Computes in f64, as the reference does: for functions that are not critical for any network's time.
///
/// # Safety
/// Both pointers are valid for `elements`, and nothing aliases the output.
unsafe fn one_by_one(pair: &Pair) {
    for at in 0..pair.elements {
        // SAFETY: the caller's promise.
        unsafe { *pair.output.add(at) = pair.function.of(*pair.input.add(at)) };
    }
}

/// The loop of a function of a vector.
macro_rules! each {
    ($($name:ident: |$x:ident| $value:expr),*) => {$(
        /// # Safety
        /// The processor has the instruction set; both pointers are valid for `elements`, a multiple
        /// of the lanes, and nothing aliases the output.
        #[inline(always)]
        unsafe fn $name<V: Vector>(pair: &Pair) {
            let mut at = 0;
            while at < pair.elements {
                // SAFETY: `at + LANES <= elements`.
                unsafe {
                    let $x = V::load(pair.input.add(at));
                    $value.store(pair.output.add(at));
                }
                at += V::LANES;
            }
        }
    )*};
}
each!(
    absolute: |x| x.max(V::splat(0.0).sub(x)),
    exponential: |x| functions::exp(x),
    reciprocal: |x| V::splat(1.0).div(x),
    square_root: |x| x.sqrt(),
    logarithm: |x| functions::logarithm(x),
    sign: |x| functions::sign(x),
    floor: |x| functions::floor(x),
    ceiling: |x| functions::ceiling(x),
    round: |x| x.round(),
    truncate: |x| functions::truncate(x)
);
