//! Pooling, by windows and over the whole image.

use punctual_model::{Operator, Pool, Tensor, TensorId, window_output};
use punctual_types::{Extent, Padding, PoolKind, Window};

use super::convolution::{read_window, window_attributes};
use super::lowering::Lowering;
use super::value::Value;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Node, ValueId};
use crate::problem::Problem;
use crate::schema::attribute::int;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "AveragePool" => lower average_pool(),
    "GlobalAveragePool" => lower global_average_pool(),
    "GlobalMaxPool" => lower global_max_pool(),
    "MaxPool" => lower max_pool() makes Positions,
};

/// Most positions of a kernel with gaps.
const TAPS_MAX: usize = 64;

/// Padding behind that makes a pool count in whole windows count every started one: what
/// `ceil_mode` means. A window may begin inside the image or the padding before it, never behind
/// (the rule of PyTorch and onnxruntime).
pub(super) fn ceiling(length: u32, before: u32, after: u32, kernel: u32, stride: u32) -> u32 {
    let [length, before, after, kernel, stride] =
        [length, before, after, kernel, stride].map(i64::from);
    let room = length + before + after - kernel;
    if room < 0 || stride == 0 {
        return after as u32; // Refused when the output's shape is computed.
    }
    let mut last = (room + stride - 1) / stride;
    if last * stride >= length + before {
        last -= 1;
    }
    let needed = last * stride + kernel - length - before;
    u32::try_from(needed.max(0)).unwrap_or(u32::MAX)
}

/// The padding with which a window's result has each started window.
fn started(window: &Window, shape: Tensor) -> Padding {
    let (span, stride, padding) = (window.span(), window.stride, window.padding);
    let (top, left) = (padding.top, padding.left);
    Padding {
        bottom: ceiling(
            shape.height,
            top,
            padding.bottom,
            span.height,
            stride.height,
        ),
        right: ceiling(shape.width, left, padding.right, span.width, stride.width),
        ..padding
    }
}

impl Lowering<'_> {
    pub(super) fn max_pool(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        // It orders the indices of a second result, which is not supported anyway.
        attributes.ignore("storage_order");
        self.pool(node, attributes, PoolKind::Max)
    }

    pub(super) fn average_pool(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let padded = match attributes.ints("pads")? {
            Some(pads) => pads.iter().any(|&pad| pad != 0),
            None => !matches!(attributes.text("auto_pad", "NOTSET")?, "NOTSET" | "VALID"),
        };
        let counts_padding = attributes.int("count_include_pad", 0)? != 0 && padded;
        if counts_padding && attributes.int("ceil_mode", 0)? != 0 {
            return self.counted_pool(node);
        }
        let mut attributes = Attributes::of(node);
        attributes.ignore("count_include_pad");
        self.pool(node, attributes, PoolKind::Average { counts_padding })
    }

    fn pool(
        &mut self,
        node: &Node,
        mut attributes: Attributes,
        kind: PoolKind,
    ) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let image = self.channelwise(node)?;
        let shape = self.shape(image.tensor);
        let mut window = read_window(&mut attributes, shape, None, self.is_series(node))?;
        if attributes.int("ceil_mode", 0)? != 0 {
            window.padding = started(&window, shape);
        }
        attributes.finish()?;
        if window.is_dilated() {
            return match kind {
                PoolKind::Max => self.dilated_pool(node, &window, shape),
                PoolKind::Average { .. } => {
                    let Extent { height, width } = window.dilation;
                    let found = Attribute::Ints(vec![height.into(), width.into()]);
                    Err(Problem::attribute("dilations", &found, "[1, 1]"))
                }
            };
        }
        let Window {
            kernel,
            stride,
            padding,
            ..
        } = window;
        let pool = Pool {
            kind,
            kernel,
            stride,
            padding,
        };
        let output = self.emit(node, pool, image.tensor, &[])?;
        self.set_channelwise(node, &image, output)
    }

    /// A pool whose kernel has gaps: the maximum of what each of its positions sees.
    fn dilated_pool(&mut self, node: &Node, window: &Window, shape: Tensor) -> Result<(), Problem> {
        let series = self.is_series(node);
        let Extent { height, width } = window.kernel;
        if window.kernel.area() > TAPS_MAX {
            let found = Attribute::Ints(vec![height.into(), width.into()]);
            return Err(Problem::attribute(
                "kernel_shape",
                &found,
                "at most 64 positions, with gaps",
            ));
        }
        let padded = self.bordered(node, window, series, f32::MIN)?;
        let result = window_output(shape, shape.channels, window)?;
        let (stride, dilation) = (window.stride, window.dilation);
        let mut taps = Vec::with_capacity(window.kernel.area());
        for (row, column) in (0..height).flat_map(|row| (0..width).map(move |at| (row, at))) {
            let rows = [row * dilation.height, result.height, stride.height];
            let columns = [column * dilation.width, result.width, stride.width];
            taps.push(Some(self.seen(node, padded, [rows, columns], series)?));
        }
        let most = match taps[..] {
            [Some(only)] => only,
            _ => self.nodes_of(node).of_node(node.standing_in("Max"), taps)?,
        };
        self.nodes_of(node).give(0, most);
        Ok(())
    }

    /// A mean that counts padding, and of windows that only begin inside what lies inside: that of an image that has zeros
    /// around it.
    fn counted_pool(&mut self, node: &Node) -> Result<(), Problem> {
        let image = self.channelwise(node)?;
        let shape = self.shape(image.tensor);
        let series = self.is_series(node);
        let mut attributes = Attributes::of(node);
        let window = read_window(&mut attributes, shape, None, series)?;
        let padded = self.bordered(node, &window, series, 0.0)?;
        let mut inside = node.clone();
        for name in ["pads", "auto_pad", "count_include_pad"] {
            inside.attributes.remove(name);
        }
        let mean = self
            .nodes_of(node)
            .of_node(inside.clone(), vec![Some(padded)])?;
        // A window may begin in the padding before the image, not in that behind it.
        let all = Window {
            padding: started(&window, shape),
            ..window
        };
        let result = window_output(shape, shape.channels, &all)?;
        let seen = self.seen(
            node,
            mean,
            [[0, result.height, 1], [0, result.width, 1]],
            series,
        )?;
        self.nodes_of(node).give(0, seen);
        Ok(())
    }

    /// The node's operand with a value around it.
    pub(super) fn bordered(
        &mut self,
        node: &Node,
        window: &Window,
        series: bool,
        value: f32,
    ) -> Result<ValueId, Problem> {
        let Padding {
            top,
            left,
            bottom,
            right,
        } = window.padding;
        let pads = if series {
            vec![0, 0, left, 0, 0, right]
        } else {
            vec![0, 0, top, left, 0, 0, bottom, right]
        };
        let pads = self
            .nodes_of(node)
            .integers(pads.into_iter().map(i64::from).collect::<Vec<_>>());
        let border = self.nodes_of(node).number(value);
        let inputs = vec![node.inputs[0], Some(pads), Some(border)];
        self.nodes_of(node).of_node(node.standing_in("Pad"), inputs)
    }

    /// Positions of rows and columns: the first, how many, and how far apart.
    fn seen(
        &mut self,
        node: &Node,
        of: ValueId,
        sides: [[u32; 3]; 2],
        series: bool,
    ) -> Result<ValueId, Problem> {
        let sides = &sides[usize::from(series)..];
        let list = |number: fn(&[u32; 3]) -> i64| sides.iter().map(number).collect::<Vec<i64>>();
        let starts = self.nodes_of(node).integers(list(|side| side[0].into()));
        let last =
            |side: &[u32; 3]| i64::from(side[0]) + i64::from(side[1] - 1) * i64::from(side[2]);
        let ends = self
            .nodes_of(node)
            .integers(sides.iter().map(|side| last(side) + 1).collect::<Vec<_>>());
        let axes = self
            .nodes_of(node)
            .integers((2..).take(sides.len()).collect::<Vec<_>>());
        let steps = self.nodes_of(node).integers(list(|side| side[2].into()));
        self.nodes_of(node)
            .of("Slice", &[of, starts, ends, axes, steps])
    }

    pub(super) fn global_average_pool(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let input = self.image(node)?;
        let output = self.global_average(node, input)?;
        self.set_image(node, output)
    }

    pub(super) fn global_max_pool(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let view = self.view(node, 0)?.clone();
        let pixels: Vec<usize> = (2..view.dims.len()).collect();
        if pixels.is_empty() || !view.is_batch(0) || !view.has_one_batch() {
            return Err(self.wrong(0, "data", &Value::View(view), "an image"));
        }
        let largest = self.largest(node, &view, &pixels)?;
        self.set(node, Value::View(largest))
    }

    pub(super) fn global_average(
        &mut self,
        node: &Node,
        input: TensorId,
    ) -> Result<TensorId, Problem> {
        let mean = Pool::mean_of_all(self.shape(input).extent());
        self.emit(node, mean, input, &[])
    }
}

impl Written for Pool {
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let (input, output) = (tensor_name(operator.input), operator.output);
        if self.is_mean_of_all(writer.shape(operator.input).extent()) {
            return writer.node_into("GlobalAveragePool", &[&input], output, Vec::new());
        }
        let mut attributes = window_attributes(&self.window());
        let name = match self.kind {
            PoolKind::Max => "MaxPool",
            PoolKind::Average { counts_padding } => {
                attributes.push(int("count_include_pad", counts_padding.into()));
                "AveragePool"
            }
        };
        writer.node_into(name, &[&input], output, attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_window_counts_and_one_behind_the_image_does_not() {
        // 6 pixels, kernel 3, stride 2: windows at 0 and 2; the one at 4 is started.
        assert_eq!(ceiling(6, 0, 0, 3, 2), 1);
        // 5 pixels: windows at 0 and 2 end exactly.
        assert_eq!(ceiling(5, 0, 0, 3, 2), 0);
        // 2 pixels, kernel 1, stride 2: a second window would begin behind the image.
        assert_eq!(ceiling(2, 0, 0, 1, 2), 0);
    }
}
