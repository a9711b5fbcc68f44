//! Values written to places that are computed: each place is compared with the index of each update of its line.

use super::Row;
use crate::graph::{Attribute, Data, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::views::position;
use crate::problem::Problem;

/// Most comparisons.
const COMPARED_MAX: i64 = 1 << 24;

impl Lowering<'_> {
    /// ScatterElements along a dimension that is not the batch.
    pub(in crate::lower) fn scattered_at_computed(&mut self, node: &Node) -> Result<(), Problem> {
        self.materialise(node)?;
        for constant in [0, 2] {
            self.materialise_images(node, constant)?;
        }
        let mut row = self.row(node, 3, 1)?;
        let mut attributes = row.attributes();
        let axis = attributes.int("axis", 0)?;
        let reduction = attributes.text("reduction", "none")?;
        attributes.finish()?;
        let sizes = row.sizes(0, "data")?;
        let axis = position("axis", axis, sizes.len())?;
        let of_indices = row.sizes(1, "indices")?;
        let (Some(places), Some(updates)) = (
            row.compared(&sizes, axis)?,
            row.compared(&of_indices, axis)?,
        ) else {
            return Err(row.lowering.unknown_places(node));
        };
        let others = |sizes: &[Dim]| [&sizes[..axis], &sizes[axis + 1..]].concat();
        let few = places
            .lines
            .checked_mul(places.along)
            .and_then(|all| all.checked_mul(updates.along));
        let fits = of_indices.len() == sizes.len() && others(&sizes) == others(&of_indices);
        if !fits || few.is_none_or(|few| few > COMPARED_MAX) {
            return Err(row.lowering.unknown_places(node));
        }
        let last: Vec<i64> = (0..sizes.len() as i64)
            .filter(|dim| *dim != axis as i64)
            .collect();
        let mut order = last.clone();
        order.push(axis as i64);
        let data = row.ending_in_places(0, &order)?;
        let indices = row.ending_in_places(1, &order)?;
        let updates = row.ending_in_places(2, &order)?;
        let hits = row.hits(indices, places.along)?;
        let result = match reduction {
            "none" => row.last_update(data, updates, hits)?,
            "add" => row.combined_updates(data, updates, hits, ["ReduceSum", "Add"], 0.0)?,
            "max" => {
                row.combined_updates(data, updates, hits, ["ReduceMax", "Max"], f32::NEG_INFINITY)?
            }
            "min" => {
                row.combined_updates(data, updates, hits, ["ReduceMin", "Min"], f32::INFINITY)?
            }
            other => {
                let found = Attribute::Text(other.to_owned());
                let expected = "none, add, max or min at computed places";
                return Err(Problem::attribute("reduction", &found, expected));
            }
        };
        let mut back: Vec<i64> = (0..last.len() as i64).collect();
        back.insert(axis, last.len() as i64);
        let result = row.transpose(result, &back)?;
        row.give(0, result);
        Ok(())
    }
}

/// The lines along a dimension, of each image, and how long they are.
struct Lines {
    lines: i64,
    along: i64,
}

impl Row<'_, '_, '_> {
    fn compared(&self, sizes: &[Dim], axis: usize) -> Result<Option<Lines>, Problem> {
        let one = self.lowering.fixed == Some(1);
        let mut lines = 1_i64;
        for (at, size) in sizes.iter().enumerate().filter(|(at, _)| *at != axis) {
            lines = match *size {
                Dim::Batches(1) => lines,
                Dim::Known(1) if at == 0 && one => lines,
                Dim::Known(size) => lines.saturating_mul(size),
                Dim::Batches(_) => return Ok(None),
            };
        }
        Ok(match sizes.get(axis) {
            Some(&Dim::Known(along)) => Some(Lines { lines, along }),
            _ => None,
        })
    }

    /// An operand with the dimension of the places behind the others.
    fn ending_in_places(&mut self, position: usize, order: &[i64]) -> Result<ValueId, Problem> {
        let operand = self.operand(position, "data")?;
        self.transpose(operand, order)
    }

    /// Whether each update is written to each place, (..., places, updates). A negative index counts from the end.
    fn hits(&mut self, indices: ValueId, places: i64) -> Result<ValueId, Problem> {
        self.lowering.room.take(places as usize)?;
        let (zero, all) = (self.integers([0]), self.integers([places]));
        let negative = self.of("Less", &[indices, zero])?;
        let from_end = self.of("Add", &[indices, all])?;
        let indices = self.of("Where", &[negative, from_end, indices])?;
        let indices = self.unsqueeze(indices, -2)?;
        let each = self.constant(vec![places as usize, 1], Data::Ints((0..places).collect()));
        self.of("Equal", &[indices, each])
    }

    /// At each place the last update that is written there, if there is one.
    fn last_update(
        &mut self,
        data: ValueId,
        updates: ValueId,
        hits: ValueId,
    ) -> Result<ValueId, Problem> {
        let hits = self.with("Cast", &[hits], [("to", Attribute::Int(1))])?;
        let axis = || ("axis", Attribute::Int(-1));
        let axes = || ("axes", Attribute::Ints(vec![-1]));
        let keep = || ("keepdims", Attribute::Int(0));
        let last = ("select_last_index", Attribute::Int(1));
        let last = self.with("ArgMax", &[hits], [axis(), keep(), last])?;
        let written = self.with("GatherElements", &[updates, last], [axis()])?;
        let any = self.with("ReduceMax", &[hits], [axes(), keep()])?;
        let any = self.with("Cast", &[any], [("to", Attribute::Int(9))])?;
        self.of("Where", &[any, written, data])
    }

    /// The data and all updates of each place together.
    fn combined_updates(
        &mut self,
        data: ValueId,
        updates: ValueId,
        hits: ValueId,
        [of_line, of_two]: [&str; 2],
        neutral: f32,
    ) -> Result<ValueId, Problem> {
        let neutral = self.number(neutral);
        let updates = self.unsqueeze(updates, -2)?;
        let written = self.of("Where", &[hits, updates, neutral])?;
        let axes = ("axes", Attribute::Ints(vec![-1]));
        let keep = ("keepdims", Attribute::Int(0));
        let written = self.with(of_line, &[written], [axes, keep])?;
        self.of(of_two, &[data, written])
    }
}
