//! `Resize` of a constant: networks that take their embedding of positions to another size.

use super::layout::{area, axes, axis};
use super::{BATCH, Dim, Folding, SIZES, TYPES, refuse};
use crate::graph::{Constant, Data};
use crate::problem::Problem;

/// What the list of taps of one position takes.
const TAPS_WORDS: usize = 32;

/// How a place of the result becomes one of the operand, and what is taken there.
struct Way<'a> {
    coordinates: &'a str,
    mode: &'a str,
    nearest: &'a str,
    /// Of cubic interpolation.
    coefficient: f64,
    exclude_outside: bool,
}

pub(crate) fn resize(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let Data::Floats(values) = &operand.data else {
        return refuse(TYPES);
    };
    let (mut values, mut dims) = (values.clone(), operand.dims.clone());
    let attributes = &mut folding.attributes;
    let way = Way {
        coordinates: attributes.text("coordinate_transformation_mode", "half_pixel")?,
        mode: attributes.text("mode", "nearest")?,
        nearest: attributes.text("nearest_mode", "round_prefer_floor")?,
        coefficient: attributes.float("cubic_coeff_a", -0.75)?.into(),
        exclude_outside: attributes.int("exclude_outside", 0)? != 0,
    };
    attributes.only("antialias", 0, "0")?;
    attributes.ignore("extrapolation_value"); // Of the refused tf_crop_and_resize.
    let policy = attributes.text("keep_aspect_ratio_policy", "stretch")?;
    let list = attributes.ints("axes")?.map(<[i64]>::to_vec);
    if policy != "stretch" || !["nearest", "linear", "cubic"].contains(&way.mode) {
        return refuse("its attribute mode or keep_aspect_ratio_policy is not supported");
    }
    let list = list.unwrap_or_else(|| (0..dims.len() as i64).collect());
    axes(&list, dims.len())?;
    let targets = targets(folding, operand, &list)?;
    for (named, (size, scale)) in list.iter().zip(targets) {
        let at = axis(*named, dims.len())?;
        if size == dims[at] && scale == 1.0 {
            continue;
        }
        let (outer, inner) = (area(&dims[..at]), area(&dims[at + 1..]));
        let before = std::mem::replace(&mut dims[at], size);
        let count = folding.count(&dims)?;
        folding.room.take(size.saturating_mul(TAPS_WORDS))?;
        let taps = (0..size).map(|to| way.taps(to, size, before, scale));
        let Some(taps) = taps.collect::<Option<Vec<_>>>() else {
            return refuse("its coordinate_transformation_mode or nearest_mode is not supported");
        };
        let mut resized = Vec::with_capacity(count);
        for row in 0..outer {
            for taps in &taps {
                for column in 0..inner {
                    let value = |&(from, weight): &(usize, f64)| {
                        f64::from(values[(row * before + from) * inner + column]) * weight
                    };
                    resized.push(taps.iter().map(value).sum::<f64>() as f32);
                }
            }
        }
        values = resized;
    }
    Ok(Constant {
        dims,
        ..operand.with(Data::Floats(values))
    })
}

/// For each axis that is resized its new size and the factor that this is.
fn targets(
    folding: &Folding<'_>,
    operand: &Constant,
    list: &[i64],
) -> Result<Vec<(usize, f64)>, Problem> {
    let rank = operand.dims.len();
    let list = list.iter().map(|&named| axis(named, rank));
    let list: Vec<usize> = list.collect::<Result<_, _>>()?;
    let own: Vec<usize> = list.iter().map(|&at| operand.dims[at]).collect();
    if own.contains(&0) {
        return refuse(SIZES);
    }
    let is_there = |at: usize| {
        folding
            .optional(at)
            .is_some_and(|operand| operand.elements() > 0)
    };
    let found: Vec<(usize, f64)> = if is_there(3) {
        let sizes = folding.sizes(3)?.into_iter().zip(&list);
        // The batch is as large as it was.
        let sizes = sizes.map(|(size, &at)| match size {
            Dim::Known(size) if operand.batch != Some(at) => usize::try_from(size).unwrap_or(0),
            Dim::Batches(1) if operand.batch == Some(at) => 1,
            _ => 0,
        });
        let scale = |(size, own): (usize, &usize)| (size, size as f64 / *own as f64);
        sizes.zip(&own).map(scale).collect()
    } else {
        let scales = folding.floats(2)?.iter().map(|&scale| f64::from(scale));
        let size = |(scale, own): (f64, &usize)| ((*own as f64 * scale).floor() as usize, scale);
        scales.zip(&own).map(size).collect()
    };
    let valid = |&(size, scale): &(usize, f64)| size > 0 && scale.is_finite() && scale > 0.0;
    if found.len() != list.len() || !found.iter().all(valid) {
        return refuse(SIZES);
    }
    let is_batch =
        |(at, target): (&usize, &(usize, f64))| operand.batch == Some(*at) && *target != (1, 1.0);
    if list.iter().zip(&found).any(is_batch) {
        return refuse(BATCH);
    }
    Ok(found)
}

impl Way<'_> {
    /// What makes up position `to` of `size`, from positions below `own`; `None` if the way is not supported.
    fn taps(&self, to: usize, size: usize, own: usize, scale: f64) -> Option<Vec<(usize, f64)>> {
        let (place, last) = (self.place(to, size, own, scale)?, own as i64 - 1);
        let clamp = |at: i64| at.clamp(0, last) as usize;
        let floor = place.floor();
        let (low, part) = (floor.clamp(-4.0, own as f64 + 4.0) as i64, place - floor);
        Some(match self.mode {
            "nearest" => vec![(clamp(self.rounded(place)?), 1.0)],
            "linear" => vec![(clamp(low), 1.0 - part), (clamp(low + 1), part)],
            _ => {
                let taps = (-1..=2).map(|step| (low + step, self.cubic(part - step as f64)));
                let outside = |at: i64| self.exclude_outside && !(0..=last).contains(&at);
                let taps: Vec<(i64, f64)> = taps.filter(|&(at, _)| !outside(at)).collect();
                let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
                taps.into_iter()
                    .map(|(at, weight)| (clamp(at), weight / sum))
                    .collect()
            }
        })
    }

    fn place(&self, to: usize, size: usize, own: usize, scale: f64) -> Option<f64> {
        let (to, half) = (to as f64, (to as f64 + 0.5) / scale - 0.5);
        Some(match self.coordinates {
            "half_pixel" => half,
            "pytorch_half_pixel" => {
                if size > 1 {
                    half
                } else {
                    0.0
                }
            }
            "asymmetric" => to / scale,
            "align_corners" if size > 1 => to * (own as f64 - 1.0) / (size as f64 - 1.0),
            "align_corners" => 0.0,
            "half_pixel_symmetric" => {
                let adjusted = size as f64 / (scale * own as f64);
                let centre = own as f64 / 2.0;
                centre * (1.0 - adjusted) + half
            }
            _ => return None,
        })
    }

    fn rounded(&self, place: f64) -> Option<i64> {
        let rounded = match self.nearest {
            "round_prefer_floor" => (place - 0.5).ceil(),
            "round_prefer_ceil" => (place + 0.5).floor(),
            "floor" => place.floor(),
            "ceil" => place.ceil(),
            _ => return None,
        };
        Some(rounded as i64)
    }

    /// The weight of a value so far away.
    fn cubic(&self, distance: f64) -> f64 {
        let (a, x) = (self.coefficient, distance.abs());
        match x {
            ..=1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            ..2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            _ => 0.0,
        }
    }
}
