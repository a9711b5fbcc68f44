//! Pooling, by windows and over the whole image.

use punctual_model::{Operator, Pool, TensorId};
use punctual_types::{Extent, PoolKind, Window};

use super::convolution::{read_window, window_attributes};
use super::lowering::Lowering;
use super::value::Value;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Node};
use crate::problem::Problem;
use crate::schema::attribute::int;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "AveragePool" => lower average_pool(),
    "GlobalAveragePool" => lower global_average_pool(),
    "GlobalMaxPool" => lower global_max_pool(),
    "MaxPool" => lower max_pool() makes Positions,
};

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
        let counts_padding = padded && attributes.int("count_include_pad", 0)? != 0;
        if counts_padding && attributes.int("ceil_mode", 0)? != 0 {
            // Rounding up adds padding of its own, which does not count.
            let found = Attribute::Int(1);
            let supported = "0, where padding counts";
            return Err(Problem::attribute("ceil_mode", &found, supported));
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
        if window.is_dilated() {
            let Extent { height, width } = window.dilation;
            let found = Attribute::Ints(vec![height.into(), width.into()]);
            return Err(Problem::attribute("dilations", &found, "[1, 1]"));
        }
        if attributes.int("ceil_mode", 0)? != 0 {
            let Window {
                kernel,
                stride,
                padding,
                ..
            } = &mut window;
            let (before, after) = (padding.top, padding.bottom);
            padding.bottom = ceiling(shape.height, before, after, kernel.height, stride.height);
            let (before, after) = (padding.left, padding.right);
            padding.right = ceiling(shape.width, before, after, kernel.width, stride.width);
        }
        attributes.finish()?;
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
