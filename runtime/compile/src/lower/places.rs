//! Positions that count through all images of a batch, as exporters write the values that each image takes at positions
//! of its own: the images are flattened into one list, and to each position is added where its image begins. What is
//! taken there is of the image itself.

use super::lowering::Lowering;
use super::numbers::Numbers;
use super::value::Value;
use super::view_algebra::View;
use crate::fold::layout::broadcast;
use crate::graph::{Attribute, Attributes, Constant, Node};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;

impl Lowering<'_> {
    /// What a node makes of such positions; `None` if it reads and makes none.
    pub(super) fn on_places(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        match node.operator.as_str() {
            "Add" => return Ok(self.begun(node)),
            "Concat" => return self.tuples_of_images(node),
            "Gather" => return self.rows_at_places(node),
            "GatherND" => {
                return match self.at_tuples(node)? {
                    None => self.rows_at_places(node),
                    taken => Ok(taken),
                };
            }
            "Max" | "Min" => return Ok(self.only_sized(node)),
            _ => {}
        }
        let Some(Value::Places(view, each)) = self.operand(node, 0) else {
            return Ok(None);
        };
        let (view, each) = (view.clone(), *each);
        if node.operator == "Cast" && self.numbers[node_output(node)?] == Numbers::Integers {
            return Ok(Some(Value::Places(view, each)));
        }
        let moved = self.moved(node, view)?;
        Ok(moved.map(|view| Value::Places(view, each)))
    }

    /// The sum of computed positions and of where each image begins.
    fn begun(&self, node: &Node) -> Option<Value> {
        let operands = [0, 1].map(|at| self.operand(node, at));
        let (at, view, begins) = match operands {
            [Some(Value::View(view)), Some(Value::Constant(begins))] => (0, view, begins),
            [Some(Value::Constant(begins)), Some(Value::View(view))] => (1, view, begins),
            _ => return None,
        };
        let each = first_of_images(begins)?;
        let sizes = view.sizes();
        let same = broadcast(&sizes, &begins.sizes()).is_some_and(|all| all == sizes);
        let fits = same && self.numbers(node, at) == Numbers::Integers;
        fits.then(|| Value::Places(view.clone(), each))
    }

    /// Positions compared with numbers of images, which exporters do for the common dimensions.
    fn only_sized(&self, node: &Node) -> Option<Value> {
        let [first, second] = [0, 1].map(|at| self.operand(node, at));
        let sizes = match (first?, second?) {
            (Value::Constant(images), other) | (other, Value::Constant(images)) => {
                first_of_images(images)?;
                broadcast(&images.sizes(), &other.sizes()?)?
            }
            _ => return None,
        };
        (node.inputs.len() == 2).then_some(Value::Sized(sizes))
    }

    /// Positions behind the number of the image itself.
    fn tuples_of_images(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        let Some(Value::Constant(images)) = self.operand(node, 0) else {
            return Ok(None);
        };
        let axis = Attributes::of(node).int("axis", 1)?;
        let is_last = axis == -1 || axis.checked_add(1) == Some(images.dims.len() as i64);
        let is_own = |image: &Integer| {
            let of_only = self.fixed == Some(1) && image.known() == Some(0);
            of_only || first_of(image) == Some(1)
        };
        let are_own = images.dims.last() == Some(&1)
            && images
                .integers()
                .is_some_and(|all| !all.is_empty() && all.iter().all(is_own));
        let positions = (1..node.inputs.len())
            .all(|at| self.is_view(node, at) && self.numbers(node, at) == Numbers::Integers);
        if !is_last || !are_own || !positions {
            return Ok(None);
        }
        let positions: Vec<_> = node.inputs[1..].iter().copied().flatten().collect();
        let all = match positions[..] {
            [] => return Ok(None),
            [only] => only,
            _ => self
                .nodes_of(node)
                .with("Concat", &positions, [("axis", Attribute::Int(-1))])?,
        };
        Ok(match self.value(all) {
            Value::View(view) if view.is_batch(0) => Some(Value::Tuples(view.clone())),
            _ => None,
        })
    }

    /// The values of each image at tuples that name the image itself.
    fn at_tuples(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        let (Some(Value::View(data)), Some(Value::Tuples(places))) =
            (self.operand(node, 0), self.operand(node, 1))
        else {
            return Ok(None);
        };
        let (data, places) = (data.clone(), places.clone());
        let mut attributes = Attributes::of(node);
        attributes.only("batch_dims", 0, "0")?;
        attributes.finish()?;
        if !data.is_batch(0) {
            return Ok(None);
        }
        self.at_own(node, data, places)
            .map(|view| Some(Value::View(view)))
    }

    /// What `GatherND` takes of each image, at places of (N, ..., 1).
    fn at_own(&mut self, node: &Node, data: View, places: View) -> Result<View, Problem> {
        let of_places = places.sizes();
        let outer = of_places.split_last().map_or(&[][..], |(_, outer)| outer);
        let Some(count) = of_each_image(outer).filter(|_| data.dims.len() > 1) else {
            return Err(self.wrong(
                1,
                "indices",
                &Value::View(places),
                "positions of each image",
            ));
        };
        let flat = [Dim::Batches(1), Dim::Known(count), of_places[outer.len()]];
        let places = self.reshaped(node, &places, &flat)?;
        let taken = self.gathered_of_each(node, data.clone(), places)?;
        let sizes = [outer, &data.sizes()[2..]].concat();
        self.reshaped(node, &taken, &sizes)
    }

    fn gathered_of_each(&mut self, node: &Node, data: View, places: View) -> Result<View, Problem> {
        let operands = [data, places].map(|view| self.temporary(Value::View(view)));
        let alone = [("batch_dims", Attribute::Int(1))];
        let result = self.nodes_of(node).with("GatherND", &operands, alone)?;
        let value = self.value(result).clone();
        self.tensor_of(node, &value)
    }

    /// The rows of a list of all images' at such positions.
    fn rows_at_places(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        let Some(Value::View(rows)) = self.operand(node, 0) else {
            return Ok(None);
        };
        let (rows, of_rows) = (rows.clone(), rows.sizes());
        let Some(&Dim::Batches(each)) = of_rows.first() else {
            return Ok(None);
        };
        let places = match self.operand(node, 1) {
            Some(Value::Places(view, of_image)) if *of_image == each => view.clone(),
            // Those of one image are those of all.
            Some(Value::View(view)) if self.fixed == Some(1) && each > 1 => view.clone(),
            _ => return Ok(None),
        };
        let mut attributes = Attributes::of(node);
        let mut of_places = places.sizes();
        if node.operator == "GatherND" {
            attributes.only("batch_dims", 0, "0")?;
            if of_places.pop() != Some(Dim::Known(1)) {
                return Ok(None);
            }
        } else if attributes.int("axis", 0)? != 0 {
            return Ok(None);
        }
        attributes.finish()?;
        let images = [Dim::Batches(1), Dim::Known(each)];
        let of_one = &of_rows[1..];
        let rows = self.reshaped(node, &rows, &[&images, of_one].concat())?;
        of_places.push(Dim::Known(1));
        let places = self.reshaped(node, &places, &of_places)?;
        self.at_own(node, rows, places)
            .map(|view| Some(Value::View(view)))
    }
}

/// How many positions each image has of those of these dimensions, the first of which is the batch.
fn of_each_image(sizes: &[Dim]) -> Option<i64> {
    let (&Dim::Batches(first), rest) = sizes.split_first()? else {
        return None;
    };
    rest.iter().try_fold(first, |all, size| match size {
        Dim::Known(size) => all.checked_mul(*size),
        Dim::Batches(_) => None,
    })
}

/// What each image begins with, of a number that is a multiple of its own.
fn first_of(integer: &Integer) -> Option<i64> {
    let begin = Integer {
        images: integer.images,
        ..Integer::of(0)
    };
    (integer.images > 0 && *integer == begin).then_some(integer.images)
}

/// How many positions an image has, by a constant of the first position of each image.
fn first_of_images(constant: &Constant) -> Option<i64> {
    let integers = constant.integers()?;
    let each = first_of(integers.first()?)?;
    integers
        .iter()
        .all(|integer| first_of(integer) == Some(each))
        .then_some(each)
}

fn node_output(node: &Node) -> Result<usize, Problem> {
    let first = node.outputs.first().copied().flatten();
    first.map(|id| id.0).ok_or(Problem::MissingOutput)
}
