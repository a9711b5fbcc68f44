//! Conv, and what all operators with windows share.

use punctual_model::{Conv2d, Operator, Tensor, window_output};
use punctual_types::{Extent, Padding, Window};

use super::lowering::Lowering;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Node};
use crate::problem::Problem;
use crate::schema::AttributeProto;
use crate::schema::attribute::{int, ints};
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Conv" => lower conv(),
};

/// The window that a node has, by the attributes that all operators with windows share.
pub(super) fn read_window(
    attributes: &mut Attributes,
    input: Tensor,
    kernel: Option<[i64; 2]>,
    series: bool,
) -> Result<Window, Problem> {
    const FOUR: &str = "four numbers, none negative: top, left, bottom, right";
    let default = kernel.unwrap_or([i64::from(series), 0]);
    let declared = two(attributes, "kernel_shape", default, series)?;
    if kernel.is_some_and(|kernel| kernel != declared) {
        let found = Attribute::Ints(declared.to_vec());
        return Err(Problem::attribute(
            "kernel_shape",
            &found,
            "the weights' own shape",
        ));
    }
    let kernel = extent("kernel_shape", declared)?;
    let stride = extent("strides", two(attributes, "strides", [1, 1], series)?)?;
    let dilation = extent("dilations", two(attributes, "dilations", [1, 1], series)?)?;
    let window = Window {
        dilation,
        ..Window::new(kernel, stride, Padding::default())
    };
    let pads = pads(attributes, series)?;
    let [top, left, bottom, right] = side_lengths("pads", pads, FOUR)?;
    let padding = match attributes.text("auto_pad", "NOTSET")? {
        "NOTSET" => Padding {
            top,
            left,
            bottom,
            right,
        },
        "VALID" => Padding::default(),
        "SAME_UPPER" => same(input, &window, false),
        "SAME_LOWER" => same(input, &window, true),
        other => {
            let found = Attribute::Text(other.to_owned());
            let supported = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
            return Err(Problem::attribute("auto_pad", &found, supported));
        }
    };
    Ok(Window { padding, ..window })
}

/// A number for rows and one for columns; for a series the file has the latter only.
pub(super) fn two(
    attributes: &mut Attributes,
    name: &'static str,
    default: [i64; 2],
    series: bool,
) -> Result<[i64; 2], Problem> {
    if !series {
        let expected = "two positive numbers, rows and columns";
        return attributes.int_array(name, default, expected);
    }
    let [rows, columns] = default;
    let [columns] = attributes.int_array(name, [columns], "one positive number")?;
    Ok([rows, columns])
}

/// Top, left, bottom and right; for a series the file has left and right only.
pub(super) fn pads(attributes: &mut Attributes, series: bool) -> Result<[i64; 4], Problem> {
    if !series {
        return attributes.int_array("pads", [0; 4], "four numbers");
    }
    let [left, right] = attributes.int_array("pads", [0; 2], "two numbers")?;
    Ok([0, left, 0, right])
}

/// The sizes of weights: two dimensions, then rows and columns. Weights of a series have no rows.
pub(super) fn of_weights(dims: &[usize], series: bool) -> Option<[usize; 4]> {
    match *dims {
        [a, b, rows, columns] if !series => Some([a, b, rows, columns]),
        [a, b, columns] if series => Some([a, b, 1, columns]),
        _ => None,
    }
}

fn side_lengths<const N: usize>(
    name: &'static str,
    values: [i64; N],
    expected: &'static str,
) -> Result<[u32; N], Problem> {
    let mut lengths = [0; N];
    for (length, value) in lengths.iter_mut().zip(values) {
        *length = u32::try_from(value)
            .map_err(|_| Problem::attribute(name, &Attribute::Ints(values.to_vec()), expected))?;
    }
    Ok(lengths)
}

fn extent(name: &'static str, values: [i64; 2]) -> Result<Extent, Problem> {
    let [height, width] = side_lengths(name, values, "two positive numbers, rows and columns")?;
    // Zero and huge figures are refused by `window_output`.
    Ok(Extent { height, width })
}

/// The padding that makes the output `ceil(input / stride)`; an odd pixel goes behind, or with `lower` before.
fn same(input: Tensor, window: &Window, lower: bool) -> Padding {
    let (kernel, stride) = (window.span(), window.stride);
    let split = |length: u32, kernel: u32, stride: u32| {
        let (length, kernel, stride) = (i64::from(length), i64::from(kernel), i64::from(stride));
        let outputs = (length + stride - 1) / stride.max(1);
        let total = ((outputs - 1) * stride + kernel - length).max(0);
        let (small, large) = (total / 2, total - total / 2);
        let (before, after) = if lower {
            (large, small)
        } else {
            (small, large)
        };
        // Kernel and stride are below 2^32, so this saturates only where the window is refused.
        let side = |pixels: i64| u32::try_from(pixels).unwrap_or(u32::MAX);
        (side(before), side(after))
    };
    let (top, bottom) = split(input.height, kernel.height, stride.height);
    let (left, right) = split(input.width, kernel.width, stride.width);
    Padding {
        top,
        left,
        bottom,
        right,
    }
}

impl Lowering<'_> {
    /// Applies a node with a window to its operand with zeros around it.
    fn on_bordered(&mut self, node: &Node, window: &Window, series: bool) -> Result<(), Problem> {
        let mut inside = node.clone();
        inside.attributes.remove("pads");
        inside.attributes.remove("auto_pad");
        inside.inputs[0] = Some(self.bordered(node, window, series, 0.0)?);
        self.convolution(&inside)
    }

    fn conv(&mut self, node: &Node) -> Result<(), Problem> {
        self.convolution(node)?;
        self.note_steps(node, 1.0);
        Ok(())
    }

    fn convolution(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        if self.is_view(node, 1) {
            return self.computed_kernel(node);
        }
        let input = self.image(node)?;
        let shape = self.shape(input);
        let weights = self.floats(node, 1, "weights")?;
        let series = self.is_series(node);
        let Some([outputs, inputs, rows, columns]) = of_weights(&weights.dims, series) else {
            let found = self.required(node, 1, "weights")?;
            let expected = "of the operand's number of dimensions, 3 or 4";
            return Err(self.wrong(1, "weights", found, expected));
        };
        let outputs = dimension(outputs)?;
        let mut attributes = Attributes::of(node);
        let kernel = Some([rows as i64, columns as i64]);
        let window = read_window(&mut attributes, shape, kernel, series)?;
        let group = attributes.int("group", 1)?;
        attributes.finish()?;
        if is_wide(&window) {
            return self.on_bordered(node, &window, series);
        }
        let groups = u32::try_from(group).unwrap_or(0);
        let divides = groups > 0
            && shape.channels.is_multiple_of(groups)
            && outputs.is_multiple_of(groups)
            && (shape.channels / groups) as usize == inputs;
        if !divides {
            let supported = "a divisor of both numbers of channels that fits the weights";
            return Err(Problem::attribute(
                "group",
                &Attribute::Int(group),
                supported,
            ));
        }
        let bias = match self.optional_floats(node, 2, "bias")? {
            None => vec![0.0; outputs as usize],
            Some(bias) if bias.dims == [outputs as usize] => bias.data,
            Some(_) => {
                let found = self.required(node, 2, "bias")?;
                return Err(self.wrong(2, "bias", found, "one value an output channel"));
            }
        };
        // Zeros around the image become the window's padding.
        let (input, window) = match self.inside_padding(node, &window) {
            Some((inner, window)) => (self.image_of(node, &inner)?, window),
            None => (input, window),
        };
        let output = window_output(self.shape(input), outputs, &window)?;
        let one_pixel =
            [self.shape(input), output].map(|image| image.height * image.width) == [1, 1];
        let (window, weights) = if one_pixel {
            on_one_pixel(&window, &weights.data)
        } else {
            (window, weights.data)
        };
        let conv = Computation::convolution(window, groups, weights, bias);
        let output = self.emit(node, conv, input, &[])?;
        self.set_image(node, output)
    }
}

/// Whether padding is as large as the kernel somewhere: then some outputs see nothing else.
fn is_wide(window: &Window) -> bool {
    let (span, padding) = (window.span(), window.padding);
    padding.top.max(padding.bottom) >= span.height || padding.left.max(padding.right) >= span.width
}

/// The window on an image of one pixel, of which one tap at most is not in the padding, and that tap's weights.
fn on_one_pixel(window: &Window, weights: &[f32]) -> (Window, Vec<f32>) {
    let tap = |padding: u32, dilation: u32, taps: u32| {
        let tap = padding / dilation.max(1);
        (padding.is_multiple_of(dilation.max(1)) && tap < taps).then_some(tap as usize)
    };
    let Window {
        kernel,
        dilation,
        padding,
        ..
    } = *window;
    let row = tap(padding.top, dilation.height, kernel.height);
    let column = tap(padding.left, dilation.width, kernel.width);
    let at = row.zip(column);
    let at = at.map(|(row, column)| row * kernel.width as usize + column);
    let planes = weights.chunks_exact(kernel.area().max(1));
    let seen = planes.map(|plane| at.map_or(0.0, |at| plane[at])).collect();
    let one = Extent::square(1);
    (Window::new(one, one, Padding::default()), seen)
}

/// A dimension of a constant as a tensor's.
pub(super) fn dimension(value: usize) -> Result<u32, Problem> {
    u32::try_from(value).map_err(|_| Problem::Dimension { value })
}

impl Written for Conv2d {
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let &Conv2d { window, groups, .. } = self;
        let channels = writer.shape(operator.input).channels;
        let outputs = writer.shape(operator.output).channels;
        let kernel = window.kernel;
        let dims = [outputs, channels / groups, kernel.height, kernel.width].map(i64::from);
        let weights = writer.weights(operator.weights[0], &dims);
        let bias = writer.weights(operator.weights[1], &[outputs.into()]);
        let mut attributes = window_attributes(&window);
        attributes.push(ints("dilations", along_both(window.dilation)));
        attributes.push(int("group", groups.into()));
        let input = tensor_name(operator.input);
        let mut sum = writer.node("Conv", &[&input, &weights, &bias], attributes);
        if let Some(&residual) = operator.others.first() {
            sum = writer.node("Add", &[&sum, &tensor_name(residual)], Vec::new());
        }
        writer.activate(self.activation, &sum, operator.output)
    }
}

/// What [`read_window`] reads, but for dilations.
pub(super) fn window_attributes(window: &Window) -> Vec<AttributeProto> {
    let pads = window.padding;
    let pads = [pads.top, pads.left, pads.bottom, pads.right];
    vec![
        ints("kernel_shape", along_both(window.kernel)),
        ints("strides", along_both(window.stride)),
        ints("pads", pads.map(i64::from)),
    ]
}

fn along_both(extent: Extent) -> [i64; 2] {
    [extent.height, extent.width].map(i64::from)
}
