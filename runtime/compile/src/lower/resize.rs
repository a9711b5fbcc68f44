//! Resizes: other rows and columns, by sizes or by scales. What is no nearest or linear resize of rows and columns is a
//! product with a constant matrix along each dimension that changes.

use std::rc::Rc;

use punctual_model::{Operator, Resize, Tensor};
use punctual_types::{Coordinates, Extent, Filter, Resampling, Rounding};

use super::convolution::dimension;
use super::lowering::Lowering;
use super::value::Value;
use super::views::positions;
use super::vocabulary::{OnnxOperator, family};
use crate::fold::{Folding, fold, resized};
use crate::graph::{Attribute, Attributes, Constant, Data, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::{int, text};
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Resize" => lower resize() fold resized::resize,
};

/// Dimensions of an image: batch, channels, rows, columns.
const RANK: usize = 4;
/// Positions of a resize's operands.
const SCALES: usize = 2;
const SIZES: usize = 3;

impl Lowering<'_> {
    pub(super) fn resize(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 4, 1)?;
        if self.is_by_matrices(node)? {
            return self.resized_by_matrices(node);
        }
        let input = self.image(node)?;
        let shape = self.shape(input);
        let mut attributes = Attributes::of(node);
        let coordinates = coordinates(&mut attributes)?;
        let filter = filter(&mut attributes)?;
        let axes = match attributes.ints("axes")? {
            Some(axes) => positions("axes", axes, self.view(node, 0)?.dims.len())?,
            None => (0..self.view(node, 0)?.dims.len()).collect(),
        };
        // A series has no rows.
        let series = self.is_series(node);
        let axes: Vec<usize> = axes
            .into_iter()
            .map(|axis| if series && axis == 2 { 3 } else { axis })
            .collect();
        attributes.only("antialias", 0, "0")?;
        attributes.only("exclude_outside", 0, "0")?;
        let policy = attributes.text("keep_aspect_ratio_policy", "stretch")?;
        if policy != "stretch" {
            let found = Attribute::Text(policy.to_owned());
            let name = "keep_aspect_ratio_policy";
            return Err(Problem::attribute(name, &found, "stretch"));
        }
        // Of cubic curves, and of boxes that are cut out.
        attributes.ignore("cubic_coeff_a");
        attributes.ignore("extrapolation_value");
        attributes.finish()?;
        let (size, scale) = match self.scales(node, &axes)? {
            Some(scale) => (scaled(shape, scale)?, scale),
            None => {
                let size = self.resized(node, shape, &axes)?;
                (size, ratios(shape.extent(), size))
            }
        };
        let resampling = Resampling {
            size,
            scale,
            coordinates,
            filter,
        };
        if resampling.is_identity(shape.extent()) {
            return self.set_image(node, input);
        }
        let output = self.emit(node, Resize { resampling }, input, &[])?;
        self.set_image(node, output)
    }

    /// Whether it has a curve, or dimensions, that only constants are resized by.
    fn is_by_matrices(&self, node: &Node) -> Result<bool, Problem> {
        let mut attributes = Attributes::of(node);
        let is_cubic = attributes.text("mode", "nearest")? == "cubic";
        let rank = self.view(node, 0)?.dims.len();
        Ok(is_cubic || attributes.int("antialias", 0)? != 0 || !(3..=RANK).contains(&rank))
    }

    fn resized_by_matrices(&mut self, node: &Node) -> Result<(), Problem> {
        let sizes = self.view(node, 0)?.sizes();
        let axes = match Attributes::of(node).ints("axes")? {
            Some(axes) => positions("axes", axes, sizes.len())?,
            None => (0..sizes.len()).collect(),
        };
        let scales = self.optional_floats(node, SCALES, "scales")?;
        let scales = scales
            .map(|scales| scales.data)
            .filter(|scales| !scales.is_empty());
        let asked = match scales {
            Some(_) => None,
            None => Some(self.sizes(node, SIZES, "sizes")?),
        };
        let count = scales
            .as_ref()
            .map_or(asked.as_ref().map_or(0, Vec::len), Vec::len);
        if count != axes.len() {
            let found = self.required(node, 0, "data")?;
            return Err(self.wrong(0, "data", found, "as many dimensions as are resized"));
        }
        let missing = Problem::MissingInput {
            position: 0,
            what: "data",
        };
        let mut result = node.inputs[0].ok_or(missing)?;
        for (at, &axis) in axes.iter().enumerate() {
            let scale = scales.as_ref().map(|scales| scales[at]);
            let size = asked.as_ref().map(|sizes| sizes[at]);
            let is_same = scale.is_none_or(|scale| scale == 1.0)
                && size.is_none_or(|size| {
                    size == sizes[axis]
                        || size == Dim::Batches(1)
                        || self.is_batch_of(size, sizes[axis])
                });
            if is_same {
                continue;
            }
            let Dim::Known(length) = sizes[axis] else {
                let found = self.required(node, 0, "data")?;
                return Err(self.wrong(0, "data", found, "a tensor whose batch stays as it is"));
            };
            let matrix = self.resizing(node, length as usize, scale, size)?;
            let matrix = self.temporary(Value::Constant(Rc::new(matrix)));
            let mut order: Vec<i64> = (0..sizes.len() as i64).collect();
            order.swap(axis, sizes.len() - 1);
            let mut turned = node.standing_in("Transpose");
            turned
                .attributes
                .insert("perm".to_owned(), Attribute::Ints(order));
            result = self
                .nodes_of(node)
                .of_node(turned.clone(), [Some(result)])?;
            result = self.nodes_of(node).of("MatMul", &[result, matrix])?;
            result = self
                .nodes_of(node)
                .of_node(turned.clone(), [Some(result)])?;
        }
        let value = self.value(result).clone();
        self.set(node, value)
    }

    fn is_batch_of(&self, size: Dim, own: Dim) -> bool {
        matches!(own, Dim::Batches(_)) && self.is_batch(size)
    }

    /// What a resize along one dimension makes of the values 1, 0, 0 ..., 0, 1, 0 ..., and so on.
    fn resizing(
        &mut self,
        node: &Node,
        length: usize,
        scale: Option<f32>,
        size: Option<Dim>,
    ) -> Result<Constant, Problem> {
        self.room.take(length.saturating_mul(length))?;
        let cell = |at: usize| f32::from(u8::from(at / length == at % length));
        let ones = (0..length * length).map(cell).collect();
        let ones = Constant::new(vec![length, length], Data::Floats(ones));
        let scale = scale.map(|scale| Constant::new(vec![1], Data::Floats(vec![scale])));
        let size = match size {
            Some(Dim::Known(size)) => Some(Constant::new(vec![1], Data::Ints(vec![size]))),
            _ => None,
        };
        let mut along = node.clone();
        along
            .attributes
            .insert("axes".to_owned(), Attribute::Ints(vec![1]));
        let operands = [Some(&ones), None, scale.as_ref(), size.as_ref()];
        let rule = |folding: &mut Folding<'_>| resized::resize(folding).map(Into::into);
        let matrix = fold(rule, &along, &operands, &mut self.room)?
            .into_iter()
            .next();
        matrix.ok_or(Problem::MissingOutput)
    }

    /// The factors of rows and columns, if there are any.
    fn scales(&self, node: &Node, axes: &[usize]) -> Result<Option<[f32; 2]>, Problem> {
        const WHAT: &str = "scales";
        // Opset 11 has an empty constant where the sizes count.
        let scales = self.optional_floats(node, SCALES, WHAT)?;
        let Some(scales) = scales.filter(|scales| !scales.data.is_empty()) else {
            return Ok(None);
        };
        let mut all = [1.0; RANK];
        let fits = scales.data.len() == axes.len();
        for (&axis, &scale) in axes.iter().zip(&scales.data) {
            all[axis] = scale;
        }
        match all {
            [1.0, 1.0, down, along]
                if fits
                    && [down, along]
                        .into_iter()
                        .all(|s: f32| s.is_normal() && s > 0.0) =>
            {
                Ok(Some([down, along]))
            }
            _ => {
                let found = self.required(node, SCALES, WHAT)?;
                let expected = "a positive number for each axis, 1 for batch and channels";
                Err(self.wrong(SCALES, WHAT, found, expected))
            }
        }
    }

    fn is_batch(&self, size: Dim) -> bool {
        match size {
            Dim::Batches(times) => times == 1,
            Dim::Known(size) => size == 1 || Some(size) == self.fixed,
        }
    }

    /// The rows and columns that are given.
    fn resized(&self, node: &Node, shape: Tensor, axes: &[usize]) -> Result<Extent, Problem> {
        const WHAT: &str = "sizes";
        let sizes = self.sizes(node, SIZES, WHAT)?;
        let [channels, height, width] =
            [shape.channels, shape.height, shape.width].map(|size| Dim::Known(size.into()));
        let mut all = [Dim::Batches(1), channels, height, width];
        let fits = sizes.len() == axes.len();
        for (&axis, &size) in axes.iter().zip(&sizes) {
            all[axis] = size;
        }
        match all {
            // A file that was exported for a fixed batch size names that.
            [images, same, Dim::Known(height), Dim::Known(width)]
                if fits && same == channels && self.is_batch(images) =>
            {
                Ok(Extent {
                    height: dimension(usize::try_from(height).unwrap_or(0))?,
                    width: dimension(usize::try_from(width).unwrap_or(0))?,
                })
            }
            _ => {
                let found = self.required(node, SIZES, WHAT)?;
                let expected = "rows and columns known when compiling, of all images and channels";
                Err(self.wrong(SIZES, WHAT, found, expected))
            }
        }
    }
}

/// Rows and columns of an image times their factors, rounded down in f32 as onnxruntime does.
fn scaled(shape: Tensor, [down, along]: [f32; 2]) -> Result<Extent, Problem> {
    let times = |size: u32, scale: f32| dimension((size as f32 * scale).floor() as usize);
    Ok(Extent {
        height: times(shape.height, down)?,
        width: times(shape.width, along)?,
    })
}

fn ratios(from: Extent, to: Extent) -> [f32; 2] {
    let ratio = |to: u32, from: u32| to as f32 / from as f32;
    [ratio(to.height, from.height), ratio(to.width, from.width)]
}

pub(crate) fn coordinates(attributes: &mut Attributes<'_>) -> Result<Coordinates, Problem> {
    const NAME: &str = "coordinate_transformation_mode";
    match attributes.text(NAME, "half_pixel")? {
        "asymmetric" => Ok(Coordinates::Asymmetric),
        "half_pixel" => Ok(Coordinates::HalfPixel),
        "half_pixel_symmetric" => Ok(Coordinates::HalfPixelSymmetric),
        "pytorch_half_pixel" => Ok(Coordinates::PytorchHalfPixel),
        "align_corners" => Ok(Coordinates::AlignCorners),
        other => {
            let found = Attribute::Text(other.to_owned());
            let supported = "asymmetric, half_pixel, half_pixel_symmetric, pytorch_half_pixel or \
                             align_corners";
            Err(Problem::attribute(NAME, &found, supported))
        }
    }
}

pub(crate) fn rounding(attributes: &mut Attributes<'_>) -> Result<Rounding, Problem> {
    const NAME: &str = "nearest_mode";
    match attributes.text(NAME, "round_prefer_floor")? {
        "floor" => Ok(Rounding::Floor),
        "ceil" => Ok(Rounding::Ceil),
        "round_prefer_floor" => Ok(Rounding::PreferFloor),
        "round_prefer_ceil" => Ok(Rounding::PreferCeil),
        other => {
            let found = Attribute::Text(other.to_owned());
            let supported = "floor, ceil, round_prefer_floor or round_prefer_ceil";
            Err(Problem::attribute(NAME, &found, supported))
        }
    }
}

fn filter(attributes: &mut Attributes<'_>) -> Result<Filter, Problem> {
    let rounding = rounding(attributes)?;
    match attributes.text("mode", "nearest")? {
        "nearest" => Ok(Filter::Nearest(rounding)),
        "linear" => Ok(Filter::Linear),
        other => {
            let found = Attribute::Text(other.to_owned());
            Err(Problem::attribute("mode", &found, "nearest or linear"))
        }
    }
}

impl Written for Resize {
    /// By its sizes, where these say all; else by its scales. Before operator set 19 there are no symmetric coordinates.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let with = self.resampling;
        let (shape, to) = (writer.shape(operator.input), with.size);
        let by_size = with.scale == ratios(shape.extent(), to);
        let coordinates = match with.coordinates {
            Coordinates::Asymmetric => "asymmetric",
            Coordinates::HalfPixel => "half_pixel",
            // The same, where the scale has nothing that the sizes have not.
            Coordinates::HalfPixelSymmetric if by_size => "half_pixel",
            Coordinates::HalfPixelSymmetric => return false,
            Coordinates::PytorchHalfPixel => "pytorch_half_pixel",
            Coordinates::AlignCorners => "align_corners",
        };
        let mut attributes = vec![text("coordinate_transformation_mode", coordinates)];
        match with.filter {
            Filter::Linear => attributes.push(text("mode", "linear")),
            Filter::Nearest(rounding) => {
                let rounding = match rounding {
                    Rounding::Floor => "floor",
                    Rounding::Ceil => "ceil",
                    Rounding::PreferFloor => "round_prefer_floor",
                    Rounding::PreferCeil => "round_prefer_ceil",
                };
                attributes.push(text("mode", "nearest"));
                attributes.push(text("nearest_mode", rounding));
            }
        }
        let (input, output) = (tensor_name(operator.input), operator.output);
        if by_size {
            let batch = writer.node("Shape", &[&input], vec![int("end", 1)]);
            let rest = [shape.channels, to.height, to.width].map(i64::from);
            let rest = writer.integers(&rest);
            let sizes = writer.node("Concat", &[&batch, &rest], vec![int("axis", 0)]);
            writer.node_into("Resize", &[&input, "", "", &sizes], output, attributes)
        } else {
            let [down, along] = with.scale;
            let scales = writer.floats(&[1.0, 1.0, down, along], &[4]);
            writer.node_into("Resize", &[&input, "", &scales], output, attributes)
        }
    }
}
