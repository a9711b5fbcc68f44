//! Operators that move nothing: they give a tensor another shape, or name a constant.

use std::rc::Rc;

use punctual_model::Tensor;

use super::operands::{are_rows_and_columns, describe_dims};
use super::{Lowering, Value};
use crate::fold::Dim;
use crate::graph::{Attribute, Attributes, Constant, Data, Node};
use crate::problem::Problem;

impl Lowering<'_> {
    /// (N, C, H, W) → (N, C * H * W).
    pub(super) fn flatten(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.finish()?;
        let id = self.tensor(node)?;
        let rank = self.tensor_dims(self.required(node, 0, "data")?).len() as i64;
        if axis != 1 && axis != 1 - rank {
            return Err(Problem::attribute("axis", &Attribute::Int(axis), "1"));
        }
        self.set(node, Value::Features(id))
    }

    pub(super) fn reshape(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let zero_is_zero = attributes.int("allowzero", 0)? != 0;
        attributes.finish()?;
        let id = self.tensor(node)?;
        let from = self.tensor_dims(self.required(node, 0, "data")?);
        let target = self.required(node, 1, "shape")?;
        let dims = self.dims(node.inputs[1].expect("it is there"), false);
        let Some(mut to) = dims.map(|dims| dims.elements) else {
            return Err(self.wrong(1, "shape", target, "integers known when compiling"));
        };
        if !zero_is_zero {
            for (at, dim) in to
                .iter_mut()
                .enumerate()
                .filter(|(_, dim)| **dim == Dim::Known(0))
            {
                *dim = from.get(at).copied().unwrap_or(*dim);
            }
        }
        let refused = || Problem::Reshape {
            from: describe_dims(&from),
            to: describe_dims(&to),
        };
        let image = self.each_image(&to, self.shape(id)).ok_or_else(refused)?;
        let view = match image[..] {
            [_] => Value::Features(id),
            [channels, height, width] => {
                let Tensor {
                    channels: c,
                    height: h,
                    width: w,
                } = self.shape(id);
                if [channels, height, width] != [c, h, w].map(u64::from) {
                    return Err(refused());
                }
                Value::Image(id)
            }
            _ => return Err(refused()),
        };
        self.set(node, view)
    }

    /// The dimensions of each image in the reshape's target, -1 resolved; `None` unless the target
    /// keeps the batch first and each image's elements together.
    fn each_image(&self, to: &[Dim], shape: Tensor) -> Option<Vec<u64>> {
        let (batch, image) = to.split_first()?;
        // A file exported for a fixed batch size names it.
        let fixed = self.graph.input_dims.first().copied().flatten();
        let batch_is_inferred = *batch == Dim::Known(-1);
        let keeps_batch = match *batch {
            Dim::Batch => true,
            Dim::Known(value) => batch_is_inferred || Some(value) == fixed,
        };
        let inferred = image.iter().filter(|dim| **dim == Dim::Known(-1)).count();
        if !keeps_batch || inferred + usize::from(batch_is_inferred) > 1 {
            return None;
        }
        let known = |dim: &Dim| match *dim {
            Dim::Known(-1) => Some(1),
            Dim::Known(value) => u64::try_from(value).ok(),
            Dim::Batch => None,
        };
        let mut sides: Vec<u64> = image.iter().map(known).collect::<Option<_>>()?;
        let product = sides
            .iter()
            .try_fold(1_u64, |product, &side| product.checked_mul(side))?;
        let elements = shape.elements();
        if let Some(at) = image.iter().position(|dim| *dim == Dim::Known(-1)) {
            sides[at] = elements.checked_div(product)?;
        }
        (sides.iter().product::<u64>() == elements).then_some(sides)
    }

    /// (N, C, 1, 1) → (N, C).
    pub(super) fn squeeze(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let from_attribute = attributes.ints("axes")?.map(<[i64]>::to_vec);
        attributes.finish()?;
        let id = self.image(node)?;
        let from_operand = self.optional_ints(node, 1, "axes")?;
        let axes = from_operand.or(from_attribute).unwrap_or_default();
        let Tensor { height, width, .. } = self.shape(id);
        if !are_rows_and_columns(&axes) || height != 1 || width != 1 {
            let found = Attribute::Ints(axes);
            let supported = "[2, 3], of an image of one pixel";
            return Err(Problem::attribute("axes", &found, supported));
        }
        self.set(node, Value::Features(id))
    }

    pub(super) fn constant(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let mut found = None;
        for name in [
            "value",
            "value_float",
            "value_floats",
            "value_int",
            "value_ints",
        ] {
            found = found.or(attributes.take(name));
        }
        attributes.finish()?;
        let floats = |dims, values| {
            let data = Data::Floats(values);
            Rc::new(Constant { dims, data })
        };
        let ints = |dims, values| {
            let data = Data::Ints(values);
            Rc::new(Constant { dims, data })
        };
        let constant = match found {
            Some(Attribute::Tensor(tensor)) => Rc::clone(tensor),
            Some(Attribute::Float(value)) => floats(vec![], vec![*value]),
            Some(Attribute::Floats(values)) => floats(vec![values.len()], values.clone()),
            Some(Attribute::Int(value)) => ints(vec![], vec![*value]),
            Some(Attribute::Ints(values)) => ints(vec![values.len()], values.clone()),
            Some(other) => return Err(Problem::attribute("value", other, "a tensor or numbers")),
            None => return Err(Problem::MissingAttribute { name: "value" }),
        };
        self.set(node, Value::Constant(constant))
    }
}
