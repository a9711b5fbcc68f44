//! Resizes: other rows and columns, by sizes or by scales. What is no nearest or linear resize of rows and columns is a
//! product with a constant matrix along each dimension that changes.

use std::rc::Rc;

use punctual_model::{Operator, Resize};
use punctual_types::{Coordinates, Extent, Filter, Resampling, Rounding};

use super::convolution::dimension;
use super::lowering::Lowering;
use super::value::Value;
use super::views::positions;
use super::vocabulary::{OnnxOperator, family};
use crate::fold::resized::{Policy, Resizing};
use crate::graph::{Attribute, Attributes, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::{int, text};
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Resize" => lower resize() fold resized::resize,
};

/// Positions of a resize's operands.
const SCALES: usize = 2;
const SIZES: usize = 3;

/// A dimension that a resize changes.
struct Target {
    axis: usize,
    from: usize,
    to: usize,
    scale: f32,
}

impl Lowering<'_> {
    pub(super) fn resize(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 4, 1)?;
        let targets = self.resized(node)?;
        if self.is_by_matrices(node, &targets)? {
            return self.resized_by_matrices(node, &targets);
        }
        let input = self.image(node)?;
        let shape = self.shape(input);
        let mut attributes = Attributes::of(node);
        let coordinates = coordinates(&mut attributes)?;
        let filter = filter(&mut attributes)?;
        attributes.only("antialias", 0, "0")?;
        attributes.only("exclude_outside", 0, "0")?;
        // Known already, of cubic curves, and of boxes that are cut out.
        attributes.ignore("axes");
        attributes.ignore("keep_aspect_ratio_policy");
        attributes.ignore("cubic_coeff_a");
        attributes.ignore("extrapolation_value");
        attributes.finish()?;
        let last = self.view(node, 0)?.dims.len() - 1;
        let (mut size, mut scale) = (shape.extent(), [1.0; 2]);
        for target in targets {
            let to = dimension(target.to)?;
            if target.axis == last {
                (size.width, scale[1]) = (to, target.scale);
            } else {
                (size.height, scale[0]) = (to, target.scale);
            }
        }
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

    /// The dimensions that change, in the order of the axes.
    fn resized(&self, node: &Node) -> Result<Vec<Target>, Problem> {
        let sizes = self.view(node, 0)?.sizes();
        let mut attributes = Attributes::of(node);
        let policy = Policy::of(&mut attributes)?;
        let axes = match attributes.ints("axes")? {
            Some(axes) => positions("axes", axes, sizes.len())?,
            None => (0..sizes.len()).collect(),
        };
        let own: Vec<usize> = axes
            .iter()
            .map(|axis| match sizes[*axis] {
                Dim::Known(size) => size as usize,
                Dim::Batches(_) => 1,
            })
            .collect();
        // Opset 11 has an empty constant where the sizes count.
        let scales = self.optional_floats(node, SCALES, "scales")?;
        let scales = scales.filter(|scales| !scales.data.is_empty());
        let (found, position, what, expected) = if let Some(scales) = scales {
            let all = own.iter().zip(&scales.data);
            // Rounded down in f32, as onnxruntime does.
            let all = all.map(|(own, scale)| ((*own as f32 * scale).floor() as usize, *scale));
            let is_valid = |scale: &f32| scale.is_normal() && *scale > 0.0;
            let fits = scales.data.len() == axes.len() && scales.data.iter().all(is_valid);
            let expected = "a positive number for each axis, 1 for the batch";
            (fits.then(|| all.collect()), SCALES, "scales", expected)
        } else {
            let asked = self.sizes(node, SIZES, "sizes")?;
            let fits = asked.len() == axes.len();
            let known = axes.iter().zip(asked);
            let known = known.map(|(axis, size)| self.size_of(sizes[*axis], size));
            let known: Option<Vec<usize>> = known.collect();
            let found = known.filter(|_| fits);
            let found = found.map(|asked| policy.targets(&own, &asked));
            let expected = "sizes known when compiling, one for each axis, and the batch as it is";
            (found, SIZES, "sizes", expected)
        };
        let wrong = || match self.required(node, position, what) {
            Ok(found) => self.wrong(position, what, found, expected),
            Err(problem) => problem,
        };
        let found: Vec<(usize, f32)> = found.ok_or_else(wrong)?;
        let all = axes.into_iter().zip(own).zip(found);
        let all = all.map(|((axis, from), (to, scale))| Target {
            axis,
            from,
            to,
            scale,
        });
        let targets: Vec<Target> = all.filter(Target::changes).collect();
        let is_batch = |target: &Target| matches!(sizes[target.axis], Dim::Batches(_));
        if targets.iter().any(is_batch) {
            return Err(wrong());
        }
        Ok(targets)
    }

    /// A size that is asked for; of the batch it must be its own.
    fn size_of(&self, own: Dim, asked: Dim) -> Option<usize> {
        match (own, asked) {
            (Dim::Batches(_), Dim::Known(size)) if size == 1 || Some(size) == self.fixed => Some(1),
            (Dim::Batches(_), asked) => (asked == own).then_some(1),
            (Dim::Known(_), Dim::Known(size)) => usize::try_from(size).ok(),
            // In a file for one image it may be a number.
            (Dim::Known(1), Dim::Batches(1)) => Some(1),
            _ => None,
        }
    }

    /// Whether it has a curve, or dimensions, that only constants are resized by.
    fn is_by_matrices(&self, node: &Node, targets: &[Target]) -> Result<bool, Problem> {
        let mut attributes = Attributes::of(node);
        let is_cubic = attributes.text("mode", "nearest")? == "cubic";
        let antialiased = attributes.int("antialias", 0)? != 0;
        let rank = self.view(node, 0)?.dims.len();
        let in_plane = |target: &Target| (3..=4).contains(&rank) && target.axis >= 2;
        Ok(is_cubic || antialiased || !targets.iter().all(in_plane))
    }

    fn resized_by_matrices(&mut self, node: &Node, targets: &[Target]) -> Result<(), Problem> {
        let rank = self.view(node, 0)?.dims.len();
        let mut attributes = Attributes::of(node);
        let resizing = Resizing::of(&mut attributes)?;
        attributes.ignore("axes");
        attributes.ignore("keep_aspect_ratio_policy");
        attributes.finish()?;
        let missing = Problem::MissingInput {
            position: 0,
            what: "data",
        };
        let mut result = node.inputs[0].ok_or(missing)?;
        for target in targets {
            dimension(target.to)?;
            let matrix = resizing.matrix(target.from, target.to, target.scale, &mut self.room)?;
            let matrix = self.temporary(Value::Constant(Rc::new(matrix)));
            let mut order: Vec<i64> = (0..rank as i64).collect();
            order.swap(target.axis, rank - 1);
            let mut turned = node.standing_in("Transpose");
            turned
                .attributes
                .insert("perm".to_owned(), Attribute::Ints(order));
            let mut row = self.nodes_of(node);
            result = row.of_node(turned.clone(), [Some(result)])?;
            result = row.of("MatMul", &[result, matrix])?;
            result = row.of_node(turned, [Some(result)])?;
        }
        let value = self.value(result).clone();
        self.set(node, value)
    }
}

impl Target {
    fn changes(&self) -> bool {
        self.from != self.to || self.scale != 1.0
    }
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
            // The same, where the scale has nothing that the sizes have not, but for its roundings, which a nearest pixel
            // hangs on.
            Coordinates::HalfPixelSymmetric if by_size && with.filter == Filter::Linear => {
                "half_pixel"
            }
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
