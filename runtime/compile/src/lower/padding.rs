//! Pad: constants, or some of a tensor's own values, joined before and behind it.

use std::rc::Rc;

use punctual_model::TENSOR_ELEMENTS_MAX;
use punctual_types::{Padding, Window};

use super::joined::Part;
use super::lowering::{Lowering, Padded};
use super::value::Value;
use super::view_algebra::View;
use super::views::positions;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Constant, Data, Node};
use crate::integer::Dim;
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Pad" => lower pad() fold arranged::pad,
};

/// What stands around a tensor.
#[derive(Clone, Copy)]
enum Border {
    Constant(f32),
    /// The values next to the outermost one, away from the border.
    Reflected,
    /// The outermost value.
    Edge,
    /// The values at the opposite end.
    Wrapped,
}

/// The padding of an image's or a series's rows and columns; `None` if other dimensions are padded, or values are cut
/// off.
fn image_padding(axes: &[usize], before: &[i64], behind: &[i64], rank: usize) -> Option<Padding> {
    let mut sides = [[0_u32; 2]; 4];
    for (at, &axis) in axes.iter().enumerate() {
        let place = if rank == 3 && axis == 2 { 3 } else { axis };
        let [before, behind] = [before[at], behind[at]].map(|side| u32::try_from(side).ok());
        *sides.get_mut(place)? = [before?, behind?];
    }
    let [batch, channels, [top, bottom], [left, right]] = sides;
    let only_pixels = matches!(rank, 3 | 4) && [batch, channels] == [[0; 2]; 2];
    only_pixels.then_some(Padding {
        top,
        left,
        bottom,
        right,
    })
}

impl Lowering<'_> {
    /// The image inside of the zeros around a node's operand, and the window with these zeros as its own padding, if a
    /// window may have this much padding.
    pub(super) fn inside_padding(&self, node: &Node, window: &Window) -> Option<(View, Window)> {
        let view = self.view(node, 0).ok()?;
        let padded = self.padded.get(&view.tensor)?;
        let (own, more) = (window.padding, padded.padding);
        let padding = Padding {
            top: own.top.checked_add(more.top)?,
            left: own.left.checked_add(more.left)?,
            bottom: own.bottom.checked_add(more.bottom)?,
            right: own.right.checked_add(more.right)?,
        };
        let span = window.span();
        let fits = padding.top.max(padding.bottom) < span.height
            && padding.left.max(padding.right) < span.width
            && padded.seen == *view;
        fits.then(|| (padded.inner.clone(), Window { padding, ..*window }))
    }

    pub(super) fn pad(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 4, 1)?;
        let mut attributes = Attributes::of(node);
        let mode = attributes.text("mode", "constant")?;
        let value = match self.operand(node, 2) {
            None => 0.0,
            Some(found) => self.scalar(node, 2).ok_or_else(|| {
                let expected = "one number known when compiling";
                self.wrong(2, "value", found, expected)
            })?,
        };
        let border = match mode {
            "constant" => Border::Constant(value),
            "reflect" => Border::Reflected,
            "edge" => Border::Edge,
            "wrap" => Border::Wrapped,
            other => {
                let found = Attribute::Text(other.to_owned());
                return Err(Problem::attribute(
                    "mode",
                    &found,
                    "constant, reflect, edge or wrap",
                ));
            }
        };
        attributes.finish()?;
        let mut view = self.view(node, 0)?.clone();
        let missing = Problem::MissingInput {
            position: 1,
            what: "pads",
        };
        let pads = self.optional_ints(node, 1, "pads")?.ok_or(missing)?;
        let axes = match self.optional_ints(node, 3, "axes")? {
            Some(axes) => positions("axes", &axes, view.dims.len())?,
            None => (0..view.dims.len()).collect(),
        };
        if pads.len() != 2 * axes.len() {
            let found = self.required(node, 1, "pads")?;
            return Err(self.wrong(1, "pads", found, "two numbers for each axis"));
        }
        let (before, behind) = pads.split_at(axes.len());
        let inner = view.clone();
        for (at, &dim) in axes.iter().enumerate() {
            view = self.padded(node, &view, dim, [before[at], behind[at]], border)?;
        }
        if matches!(border, Border::Constant(0.0))
            && let Some(padding) = image_padding(&axes, before, behind, inner.dims.len())
        {
            let (seen, inner) = (view.clone(), inner);
            let padded = Padded {
                seen,
                inner,
                padding,
            };
            self.padded.insert(view.tensor, padded);
        }
        self.set(node, Value::View(view))
    }

    /// With more positions along a dimension, `before` and `behind` it, or fewer where these are negative.
    fn padded(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        [before, behind]: [i64; 2],
        border: Border,
    ) -> Result<View, Problem> {
        if (before, behind) == (0, 0) {
            return Ok(view.clone());
        }
        let Dim::Known(size) = view.sizes()[dim] else {
            return Err(self.no_slice(node));
        };
        let kept = [
            before.min(0).saturating_neg(),
            size.saturating_add(behind.min(0)).max(0),
            1,
        ];
        let mut view = view.clone();
        if kept != [0, size, 1] {
            view = self.sliced(node, &view, dim, kept)?;
        }
        let (before, behind) = (before.max(0), behind.max(0));
        let value = match border {
            Border::Constant(value) => value,
            Border::Reflected | Border::Edge | Border::Wrapped => {
                let size = kept[1] - kept[0];
                let inside = |at: i64| match border {
                    Border::Wrapped => at.rem_euclid(size.max(1)),
                    Border::Reflected if at < 0 => -at,
                    Border::Reflected if at >= size => 2 * (size - 1) - at,
                    _ => at.clamp(0, size - 1),
                };
                let reach = if matches!(border, Border::Reflected) {
                    size - 1
                } else {
                    i64::from(u16::MAX)
                };
                if before.max(behind) > reach {
                    let found = Attribute::Ints(vec![before, behind]);
                    return Err(Problem::attribute(
                        "pads",
                        &found,
                        "less than the dimension",
                    ));
                }
                let indices: Vec<i64> = (-before..size + behind).map(inside).collect();
                return self.taken(node, &view, dim, &indices);
            }
        };
        let around = |count: i64| match count {
            0 => Ok::<_, Problem>(None),
            _ => {
                let constant = filled(&view, dim, count, value)?;
                Ok(Some(Part::Constant(Rc::new(constant))))
            }
        };
        let parts = [
            around(before)?,
            Some(Part::View(view.clone())),
            around(behind)?,
        ];
        let parts: Vec<Part> = parts.into_iter().flatten().collect();
        self.join_parts(node, dim, &parts)
    }
}

/// A constant of the view's sizes, but for one dimension.
fn filled(view: &View, dim: usize, count: i64, value: f32) -> Result<Constant, Problem> {
    let mut sizes = view.sizes();
    sizes[dim] = Dim::Known(count);
    let dims = sizes.iter().map(|size| match *size {
        Dim::Known(size) => usize::try_from(size).unwrap_or(usize::MAX),
        Dim::Batches(_) => 1,
    });
    let dims: Vec<usize> = dims.collect();
    let elements = dims
        .iter()
        .try_fold(1_usize, |all, &dim| all.checked_mul(dim));
    let limit = TENSOR_ELEMENTS_MAX as usize;
    match elements.filter(|&elements| elements <= limit) {
        Some(elements) => Ok(Constant::new(dims, Data::Floats(vec![value; elements]))),
        None => Err(Problem::Limit {
            what: "values around a tensor",
            limit,
        }),
    }
}
