//! Where a detector's boxes lie in the areas of its answers.

use std::ops::Range;

use punctual_decode::ROW_VALUES;
use punctual_model::{Exit, PlacedExit};
use punctual_plan::TaskPlan;
use punctual_types::Element;

use crate::validate::Validated;

/// Where rows, and how many of them are detections, lie in an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub rows: Range<usize>,
    pub count: Range<usize>,
}

/// By task, by exit; none where there are no boxes, or clients do not get them.
pub type Places = Box<[Box<[Option<Place>]>]>;

/// A detector's rows, as they lie in an area.
pub struct FoundRows<'a> {
    /// Numbers, [`ROW_VALUES`] a row.
    pub values: &'a [[u8; 4]],
    /// How many rows are detections, as the network says.
    pub count: i32,
}

/// By exit.
pub fn places(validated: &Validated, task: &TaskPlan) -> Box<[Option<Place>]> {
    let layout = &validated.plan.models[task.model.index()].outputs;
    let stages = validated.package(task.model).network().stages.iter();
    let place = |(stage, exit): (usize, Option<&Exit>)| {
        let wanted = |name: &str| task.outputs.iter().any(|output| output == name);
        let placed = layout
            .stage(stage)
            .filter(|_| wanted("detections") && wanted("count"));
        Place::of(placed?, exit?)
    };
    let exits = stages.map(|stage| stage.exit.as_ref());
    exits.enumerate().map(place).collect()
}

impl Place {
    /// Of an exit that ends in Punctual's own decoder, whose outputs have these names and shapes.
    fn of(placed: &PlacedExit, exit: &Exit) -> Option<Self> {
        let find = |name: &str, element: Element| {
            let mut outputs = placed.outputs.iter();
            let placed = outputs.find(|placed| {
                let output = &exit.outputs[placed.output];
                output.name == name && output.element == element
            })?;
            let (start, bytes) = (placed.offset as usize, placed.bytes as usize);
            Some(start..start.checked_add(bytes)?)
        };
        let rows = find("detections", Element::F32)?;
        let count = find("count", Element::I32)?;
        (rows.len().is_multiple_of(4 * ROW_VALUES) && count.len() == 4)
            .then_some(Self { rows, count })
    }

    /// None of an area that is too short.
    pub fn of_area<'a>(&self, area: &'a [u8]) -> Option<FoundRows<'a>> {
        let (count, _) = area.get(self.count.clone())?.as_chunks::<4>();
        let (values, _) = area.get(self.rows.clone())?.as_chunks::<4>();
        Some(FoundRows {
            values,
            count: i32::from_le_bytes(*count.first()?),
        })
    }
}
