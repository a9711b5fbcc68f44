//! Floats to bytes, bytes to floats, and bytes to bytes of another scale.

use punctual_types::Activation;

use super::rounding::{Rounding, steps};
use super::{bytes, bytes_mut};
use crate::simd::vectorised;
use crate::spec::check_equal;
use crate::{
    BlockedLayout, ConvInput, Element, Image, Isa, Kernel, KernelError, Part, PlanarLayout,
};

/// Channels that a planar input may have: they must fit one quad, which its readers take at once.
pub const PLANES_MAX: usize = 4;
/// Pixels of a planar input that are converted at once.
const PIXELS: usize = 64;

/// The same values, kept as something else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvertSpec {
    /// What it reads: planes of floats (at most four), or blocks of floats or bytes.
    pub input: ConvInput,
    /// What it writes: bytes, or floats if it reads bytes.
    pub output: BlockedLayout,
}

/// A conversion for one instruction set.
#[derive(Clone, Debug)]
pub struct Convert {
    spec: ConvertSpec,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Planes {
        planes: PlanarLayout,
        kernel: unsafe fn(&mut Row<'_, f32, u8>),
        rounding: Rounding,
        scale: f32,
    },
    Quantise {
        kernel: unsafe fn(&mut Row<'_, f32, u8>),
        rounding: Rounding,
        scale: f32,
    },
    Dequantise {
        kernel: unsafe fn(&mut Row<'_, u8, f32>),
        zero: i32,
        scale: f32,
    },
    Requantise {
        kernel: unsafe fn(&mut Row<'_, u8, u8>),
        rounding: Rounding,
        zero: i32,
        scale: f32,
    },
}

impl Convert {
    pub fn new(isa: Isa, spec: &ConvertSpec) -> Result<Convert, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let ConvertSpec { input, output } = spec;
        let (shape, written) = (input.sizes(), output.shape());
        check_equal("the output's channels", written.channels, shape.channels)?;
        check_equal("the output's height", written.height, shape.height)?;
        check_equal("the output's width", written.width, shape.width)?;
        let way = match (input, output.element()) {
            (ConvInput::Planar(planes), _) => {
                let to = output.check_bytes("output", isa)?;
                crate::spec::check_limit("planes", planes.channels(), PLANES_MAX)?;
                Way::Planes {
                    planes: *planes,
                    kernel: vectorised!(isa, quantise_row, Row<'_, f32, u8>),
                    rounding: Rounding::new(to, Activation::None)?,
                    scale: to.scale,
                }
            }
            (ConvInput::Blocked(input), Element::F32) => {
                let of = input.check_bytes("input", isa)?;
                output.check_lanes("output", isa)?;
                Way::Dequantise {
                    kernel: vectorised!(isa, dequantise_row, Row<'_, u8, f32>),
                    zero: i32::from(of.zero),
                    scale: of.scale,
                }
            }
            (ConvInput::Blocked(input), Element::U8(to)) => {
                input.check_blocks("input", isa)?;
                output.check_bytes("output", isa)?;
                let rounding = Rounding::new(to, Activation::None)?;
                match input.element() {
                    Element::F32 => Way::Quantise {
                        kernel: vectorised!(isa, quantise_row, Row<'_, f32, u8>),
                        rounding,
                        scale: to.scale,
                    },
                    Element::U8(of) => Way::Requantise {
                        kernel: vectorised!(isa, requantise_row, Row<'_, u8, u8>),
                        rounding,
                        zero: i32::from(of.zero),
                        scale: (f64::from(of.scale) / f64::from(to.scale)) as f32,
                    },
                }
            }
        };
        Ok(Convert { spec: *spec, way })
    }

    pub fn spec(&self) -> &ConvertSpec {
        &self.spec
    }

    fn blocks(&self, input: &[f32], output: &mut [f32]) {
        // SAFETY (of every block): the constructor saw that the instruction set is available.
        #[allow(clippy::undocumented_unsafe_blocks)]
        match self.way {
            Way::Planes { .. } => unreachable!("planes are no blocks"),
            Way::Quantise {
                kernel,
                rounding,
                scale,
            } => unsafe {
                kernel(&mut Row {
                    input,
                    output: bytes_mut(output),
                    rounding,
                    zero: 0,
                    scale,
                });
            },
            Way::Dequantise {
                kernel,
                zero,
                scale,
            } => unsafe {
                kernel(&mut Row {
                    input: bytes(input),
                    output,
                    rounding: Rounding::IDLE,
                    zero,
                    scale,
                });
            },
            Way::Requantise {
                kernel,
                rounding,
                zero,
                scale,
            } => unsafe {
                kernel(&mut Row {
                    input: bytes(input),
                    output: bytes_mut(output),
                    rounding,
                    zero,
                    scale,
                });
            },
        }
    }

    /// A row of all planes becomes a row of the only block; in surplus lanes stays what is there,
    /// but in those of the first quad, which become the byte of zero.
    fn planes(&self, input: &[f32], row: usize, output: &mut [f32]) {
        let Way::Planes {
            planes,
            kernel,
            rounding,
            scale,
        } = self.way
        else {
            unreachable!("only planes are planes")
        };
        let pixel = self.spec.output.pixel();
        let mut quads = [[rounding.zero as u8; PIXELS]; PLANES_MAX];
        for left in (0..planes.width()).step_by(PIXELS) {
            let width = PIXELS.min(planes.width() - left);
            for (channel, quad) in quads.iter_mut().enumerate().take(planes.channels()) {
                let start = planes.index(channel, row, left);
                let mut row = Row {
                    input: &input[start..start + width],
                    output: &mut quad[..width],
                    rounding,
                    zero: 0,
                    scale,
                };
                // SAFETY: the constructor saw that the instruction set is available.
                unsafe { kernel(&mut row) };
            }
            let pixels = output[left * pixel..].chunks_exact_mut(pixel);
            for (column, to) in pixels.take(width).enumerate() {
                to[0] = f32::from_ne_bytes(quads.map(|quad| quad[column]));
            }
        }
    }
}

impl Kernel for Convert {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let ConvertSpec { input, output } = &self.spec;
        let range = output.part(part);
        for image in images {
            image.prepare([input.len()], output, part);
            for (block, row) in output.block_rows(part) {
                let start = output.row_start(block, row) - range.start;
                let written = output.width() * output.pixel();
                let output = &mut image.output[start..start + written];
                let input = image.inputs[0];
                match &self.spec.input {
                    ConvInput::Planar(_) => self.planes(input, row, output),
                    ConvInput::Blocked(layout) => {
                        let start = layout.row_start(block, row);
                        let read = layout.width() * layout.pixel();
                        self.blocks(&input[start..start + read], output);
                    }
                }
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

/// A row of values, and how to convert them: slices of one length.
struct Row<'a, From, To> {
    input: &'a [From],
    output: &'a mut [To],
    rounding: Rounding,
    /// Of the input's bytes.
    zero: i32,
    /// A quantised value's scale; of bytes to bytes, the scales' ratio.
    scale: f32,
}

#[inline(always)]
fn quantise_row(row: &mut Row<'_, f32, u8>) {
    let (scale, rounding) = (row.scale, row.rounding);
    for (to, &value) in row.output.iter_mut().zip(row.input) {
        *to = rounding.byte(value / scale);
    }
}

#[inline(always)]
fn dequantise_row(row: &mut Row<'_, u8, f32>) {
    let (scale, zero) = (row.scale, row.zero);
    for (to, &byte) in row.output.iter_mut().zip(row.input) {
        *to = steps(byte, zero) * scale;
    }
}

#[inline(always)]
fn requantise_row(row: &mut Row<'_, u8, u8>) {
    let (scale, zero, rounding) = (row.scale, row.zero, row.rounding);
    for (to, &byte) in row.output.iter_mut().zip(row.input) {
        *to = rounding.byte(steps(byte, zero) * scale);
    }
}
