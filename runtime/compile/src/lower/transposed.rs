//! Transposed convolutions.
//!
//! With a stride of `s` each of the `s * s` places inside a block of the result is an ordinary convolution of the input
//! with every `s`-th value of the kernel. One convolution computes all of them as channels, and a view brings these to
//! their pixels.

use punctual_model::{DIMENSION_MAX, KERNEL_MAX, Tensor, TensorId, WEIGHTS_MAX};
use punctual_types::{Extent, Padding, Window};

use super::convolution::{dimension, of_weights, pads, two};
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::View;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Node};
use crate::integer::Dim;
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "ConvTranspose" => lower transposed_conv(),
};

/// Along rows or columns.
#[derive(Clone, Copy)]
struct Side {
    kernel: i64,
    dilation: i64,
    stride: i64,
    before: i64,
    /// Positions of the operand.
    input: i64,
    /// Positions of the result.
    output: i64,
}

impl Side {
    /// From the kernel's first to its last position.
    fn span(&self) -> i64 {
        (self.kernel - 1) * self.dilation + 1
    }

    /// Positions of the result that one input position makes, rounded up.
    fn blocks(&self) -> i64 {
        (self.output + self.stride - 1) / self.stride
    }

    /// The first and the last input position that a block reads, relative to its own.
    fn reach(&self) -> [i64; 2] {
        let first = -((self.span() - 1 - self.before) / self.stride);
        let last = (self.stride - 1 + self.before) / self.stride;
        // Padding is less than a kernel: blocks behind the input take a larger one.
        [first.min(self.input - self.blocks()), last]
    }

    /// The kernel's position by which an input position, relative to the block's, counts at a place of the block.
    fn tap(&self, place: i64, relative: i64) -> Option<i64> {
        let at = place + self.before - relative * self.stride;
        let is_one = (0..self.span()).contains(&at) && at % self.dilation == 0;
        is_one.then_some(at / self.dilation)
    }

    /// Kernel, and padding before and behind, of the ordinary convolution.
    fn window(&self) -> Option<[u32; 3]> {
        let [first, last] = self.reach();
        let kernel = last - first + 1;
        let behind = (self.blocks() - self.input + last).max(0);
        let [kernel, before, behind] =
            [kernel, -first, behind].map(|side| u32::try_from(side).ok());
        Some([kernel?, before?, behind?])
    }
}

impl Lowering<'_> {
    pub(super) fn transposed_conv(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let input = self.image(node)?;
        let shape = self.shape(input);
        let weights = self.floats(node, 1, "weights")?;
        let mut attributes = Attributes::of(node);
        let groups = attributes.int("group", 1)?;
        let groups = usize::try_from(groups).unwrap_or(0);
        let series = self.is_series(node);
        let Some([inputs, each, rows, columns]) = of_weights(&weights.dims, series) else {
            let found = self.required(node, 1, "weights")?;
            let expected = "of the operand's number of dimensions, 3 or 4";
            return Err(self.wrong(1, "weights", found, expected));
        };
        if inputs != shape.channels as usize || groups == 0 || !inputs.is_multiple_of(groups) {
            let found = self.required(node, 1, "weights")?;
            let expected = "one kernel for each input channel";
            return Err(self.wrong(1, "weights", found, expected));
        }
        let outputs = each.saturating_mul(groups);
        let sides = sides(&mut attributes, shape, [rows, columns], series)?;
        attributes.finish()?;
        let bias = match self.optional_floats(node, 2, "bias")? {
            None => vec![0.0; outputs],
            Some(bias) if bias.dims == [outputs] => bias.data,
            Some(_) => {
                let found = self.required(node, 2, "bias")?;
                return Err(self.wrong(2, "bias", found, "one value an output channel"));
            }
        };
        let window = window(sides, shape)?;
        let places = (sides[0].stride * sides[1].stride) as usize;
        let channels = dimension(outputs.saturating_mul(places))?;
        let taps = window.kernel.area().saturating_mul(inputs / groups);
        let count = taps.saturating_mul(channels as usize);
        // Before they are made, which may be far more than the file has.
        if self.weights.saturating_add(count) > WEIGHTS_MAX {
            return Err(Problem::Limit {
                what: "weights",
                limit: WEIGHTS_MAX,
            });
        }
        let weights = by_place(&weights.data, [inputs, each, groups], sides);
        let bias = bias.iter().flat_map(|&bias| vec![bias; places]).collect();
        let conv = Computation::convolution(window, groups as u32, weights, bias);
        let blocks = self.emit(node, conv, input, &[])?;
        let mut pixels = self.pixels_of(node, blocks, sides)?;
        if series {
            pixels.dims.remove(2); // One row.
        }
        self.set(node, Value::View(pixels))
    }

    /// Channels (channel, row and column in a block) as pixels of an image.
    fn pixels_of(
        &mut self,
        node: &Node,
        blocks: TensorId,
        sides: [Side; 2],
    ) -> Result<View, Problem> {
        let shape = self.shape(blocks);
        let [rows, columns] = sides.map(|side| side.stride);
        let outputs = Dim::Known(i64::from(shape.channels) / (rows * columns));
        let (height, width) = (i64::from(shape.height), i64::from(shape.width));
        let one = Dim::Batches(1);
        let split = [rows, columns, height, width].map(Dim::Known);
        let split = [&[one, outputs][..], &split].concat();
        let view = self.reshaped(node, &View::image(blocks, shape), &split)?;
        let view = view.permute(&[0, 1, 4, 2, 5, 3]);
        let merged = [
            one,
            outputs,
            Dim::Known(height * rows),
            Dim::Known(width * columns),
        ];
        let view = self.reshaped(node, &view, &merged)?;
        let view = self.sliced(node, &view, 2, [0, sides[0].output, 1])?;
        self.sliced(node, &view, 3, [0, sides[1].output, 1])
    }
}

/// Rows and columns, as the node's attributes have them.
fn sides(
    attributes: &mut Attributes,
    shape: Tensor,
    kernel: [usize; 2],
    series: bool,
) -> Result<[Side; 2], Problem> {
    let kernel = kernel.map(|side| side as i64);
    let padding = attributes.text("auto_pad", "NOTSET")?.to_owned();
    let declared = two(attributes, "kernel_shape", kernel, series)?;
    let dilation = two(attributes, "dilations", [1, 1], series)?;
    let stride = two(attributes, "strides", [1, 1], series)?;
    let more = two(attributes, "output_padding", [0, 0], series)?;
    let asked = two(attributes, "output_shape", [i64::from(series), 0], series)?;
    let pads = pads(attributes, series)?;
    let length = [shape.height, shape.width].map(i64::from);
    let fits = |at: usize| {
        let side = 1..=i64::from(KERNEL_MAX);
        side.contains(&kernel[at])
            && side.contains(&stride[at])
            && side.contains(&dilation[at])
            && (0..stride[at].max(dilation[at])).contains(&more[at])
            && (0..=i64::from(DIMENSION_MAX)).contains(&asked[at])
            && [pads[at], pads[at + 2]]
                .iter()
                .all(|pad| (0..1 << 24).contains(pad))
    };
    let unfit = || {
        let found = Attribute::Ints([&kernel[..], &dilation, &stride, &pads, &more].concat());
        let supported = "the weights' own shape, pads less than the kernel and output_padding less than the stride";
        Problem::attribute("kernel_shape", &found, supported)
    };
    if declared != kernel || !(fits(0) && fits(1)) {
        return Err(unfit());
    }
    let is_same = match padding.as_str() {
        "NOTSET" | "VALID" => false,
        "SAME_UPPER" | "SAME_LOWER" => true,
        _ => {
            let found = Attribute::Text(padding);
            let supported = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
            return Err(Problem::attribute("auto_pad", &found, supported));
        }
    };
    let sides = [0, 1].map(|at| {
        let whole = Side {
            kernel: kernel[at],
            dilation: dilation[at],
            stride: stride[at],
            before: 0,
            input: length[at],
            output: 0,
        };
        let all = (length[at] - 1) * stride[at] + whole.span() + more[at];
        let output = match asked[at] {
            0 if is_same => all.min(length[at] * stride[at]),
            0 if padding == "VALID" => all,
            0 => all - pads[at] - pads[at + 2],
            asked => asked,
        };
        // Where the result's size says how much is left out, an odd position is left out before, or behind.
        let cut = (all - output).max(0);
        let before = match padding.as_str() {
            "VALID" if asked[at] == 0 => 0,
            "NOTSET" if asked[at] == 0 => pads[at],
            "SAME_UPPER" => cut / 2,
            _ => cut - cut / 2,
        };
        let inside = (0..whole.span()).contains(&before) && all - output - before < whole.span();
        let fits = inside && output - (all - before) < stride[at];
        (
            Side {
                before,
                output,
                ..whole
            },
            fits,
        )
    });
    match sides {
        [(rows, true), (columns, true)] => Ok([rows, columns]),
        _ => Err(unfit()),
    }
}

fn window(sides: [Side; 2], shape: Tensor) -> Result<Window, Problem> {
    let [rows, columns] = sides;
    let rows = rows.window().filter(|_| rows.output > 0);
    let columns = columns.window().filter(|_| columns.output > 0);
    let Some(([height, top, bottom], [width, left, right])) = rows.zip(columns) else {
        return Err(Problem::ResultSize { shape });
    };
    let padding = Padding {
        top,
        left,
        bottom,
        right,
    };
    Ok(Window::new(
        Extent { height, width },
        Extent::square(1),
        padding,
    ))
}

/// `[output][row in block][column in block][input][row][column]` of `[input][output][row][column]`, both of groups.
fn by_place(weights: &[f32], [inputs, each, groups]: [usize; 3], sides: [Side; 2]) -> Vec<f32> {
    let [rows, columns] = sides;
    let mut found = Vec::new();
    let kernel = (rows.kernel * columns.kernel) as usize;
    let range = |side: Side| side.reach()[0]..=side.reach()[1];
    for output in 0..each * groups {
        let (group, own) = (output / each, output % each);
        for place in
            (0..rows.stride).flat_map(|row| (0..columns.stride).map(move |column| [row, column]))
        {
            for input in group * (inputs / groups)..(group + 1) * (inputs / groups) {
                let kernels = &weights[(input * each + own) * kernel..][..kernel];
                for row in range(rows).map(|at| rows.tap(place[0], at)) {
                    for column in range(columns).map(|at| columns.tap(place[1], at)) {
                        let at = row
                            .zip(column)
                            .map(|(row, column)| row * columns.kernel + column);
                        found.push(at.map_or(0.0, |at| kernels[at as usize]));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_as_large_as_its_stride_reads_one_position() {
        let side = Side {
            kernel: 2,
            dilation: 1,
            stride: 2,
            before: 0,
            input: 4,
            output: 8,
        };
        assert_eq!((side.reach(), side.blocks()), ([0, 0], 4));
        assert_eq!(side.window(), Some([1, 0, 0]));
        assert_eq!([0, 1].map(|place| side.tap(place, 0)), [Some(0), Some(1)]);
    }

    #[test]
    fn a_block_behind_the_input_has_padding_to_read() {
        let side = Side {
            kernel: 3,
            dilation: 1,
            stride: 3,
            before: 0,
            input: 4,
            output: 14,
        };
        assert_eq!((side.reach(), side.blocks()), ([-1, 0], 5));
        assert_eq!(side.window(), Some([2, 1, 1]));
    }

    #[test]
    fn a_kernel_larger_than_its_stride_reads_neighbours() {
        let side = Side {
            kernel: 4,
            dilation: 1,
            stride: 2,
            before: 1,
            input: 4,
            output: 8,
        };
        assert_eq!(side.reach(), [-1, 1]);
        assert_eq!(side.window(), Some([3, 1, 1]));
        assert_eq!(
            [-1, 0, 1].map(|at| side.tap(0, at)),
            [Some(3), Some(1), None]
        );
        assert_eq!(
            [-1, 0, 1].map(|at| side.tap(1, at)),
            [None, Some(2), Some(0)]
        );
    }
}
