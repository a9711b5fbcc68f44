//! `Resize` of a constant: networks that take their embedding of positions to another size.

use punctual_types::{Between, Direction, Rounding};

use super::layout::{area, axes, axis};
use super::{BATCH, Folding, HUGE, SIZES, TYPES, refuse};
use crate::graph::{Constant, Data};
use crate::integer::Dim;
use crate::lower::resize::{coordinates, rounding};
use crate::problem::Problem;

/// What the list of taps of one position takes.
const TAPS_WORDS: usize = 32;

/// What is taken at a place of the operand.
enum Mode {
    Nearest(Rounding),
    Linear,
    Cubic {
        coefficient: f64,
        exclude_outside: bool,
    },
}

pub(crate) fn resize(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let Data::Floats(values) = &operand.data else {
        return refuse(TYPES);
    };
    let (mut values, mut dims) = (values.clone(), operand.dims.clone());
    let attributes = &mut folding.attributes;
    let coordinates = coordinates(attributes)?;
    let rounding = rounding(attributes)?;
    let coefficient = attributes.float("cubic_coeff_a", -0.75)?.into();
    let exclude_outside = attributes.int("exclude_outside", 0)? != 0;
    let mode = match attributes.text("mode", "nearest")? {
        "nearest" => Mode::Nearest(rounding),
        "linear" => Mode::Linear,
        "cubic" => Mode::Cubic {
            coefficient,
            exclude_outside,
        },
        _ => return refuse("its attribute mode is not supported"),
    };
    attributes.only("antialias", 0, "0")?;
    attributes.ignore("extrapolation_value"); // Of the refused tf_crop_and_resize.
    let policy = attributes.text("keep_aspect_ratio_policy", "stretch")?;
    let list = attributes.ints("axes")?.map(<[i64]>::to_vec);
    if policy != "stretch" {
        return refuse("its attribute keep_aspect_ratio_policy is not supported");
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
        let [Ok(from), Ok(to)] = [before, size].map(u32::try_from) else {
            return refuse(HUGE);
        };
        let taps = mode.taps(Direction {
            from,
            to,
            scale,
            coordinates,
        });
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
) -> Result<Vec<(usize, f32)>, Problem> {
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
    let found: Vec<(usize, f32)> = if is_there(3) {
        let sizes = folding.sizes(3)?.into_iter().zip(&list);
        // The batch is as large as it was.
        let sizes = sizes.map(|(size, &at)| match size {
            Dim::Known(size) if operand.batch != Some(at) => usize::try_from(size).unwrap_or(0),
            Dim::Batches(1) if operand.batch == Some(at) => 1,
            _ => 0,
        });
        let scale = |(size, own): (usize, &usize)| (size, size as f32 / *own as f32);
        sizes.zip(&own).map(scale).collect()
    } else {
        let scales = folding.floats(2)?.iter().copied();
        let size = |(scale, own): (f32, &usize)| ((*own as f32 * scale).floor() as usize, scale);
        scales.zip(&own).map(size).collect()
    };
    let valid = |&(size, scale): &(usize, f32)| size > 0 && scale.is_finite() && scale > 0.0;
    if found.len() != list.len() || !found.iter().all(valid) {
        return refuse(SIZES);
    }
    let is_batch =
        |(at, target): (&usize, &(usize, f32))| operand.batch == Some(*at) && *target != (1, 1.0);
    if list.iter().zip(&found).any(is_batch) {
        return refuse(BATCH);
    }
    Ok(found)
}

impl Mode {
    /// For each position of the result the positions that make it up, with their weights.
    fn taps(&self, along: Direction) -> Vec<Vec<(usize, f64)>> {
        match *self {
            Self::Nearest(rounding) => {
                let nearest = along.nearest(rounding);
                nearest.map(|from| vec![(from, 1.0)]).collect()
            }
            Self::Linear => {
                let pair = |at: Between| {
                    let share = f64::from(at.share);
                    vec![(at.first, 1.0 - share), (at.second, share)]
                };
                along.linear().map(pair).collect()
            }
            Self::Cubic {
                coefficient,
                exclude_outside,
            } => {
                let cubic = |at| cubic(along, at, coefficient, exclude_outside);
                (0..along.to).map(cubic).collect()
            }
        }
    }
}

fn cubic(along: Direction, at: u32, coefficient: f64, exclude_outside: bool) -> Vec<(usize, f64)> {
    let (place, last) = (f64::from(along.place(at)), i64::from(along.from) - 1);
    let low = place.floor().clamp(-4.0, last as f64 + 5.0) as i64;
    let part = place - place.floor();
    let taps = (-1..=2).map(|step| (low + step, weight(coefficient, part - step as f64)));
    let outside = |at: i64| exclude_outside && !(0..=last).contains(&at);
    let taps: Vec<(i64, f64)> = taps.filter(|&(at, _)| !outside(at)).collect();
    let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
    let shares = taps.into_iter();
    shares
        .map(|(at, weight)| (at.clamp(0, last) as usize, weight / sum))
        .collect()
}

/// The weight of a value so far away.
fn weight(a: f64, distance: f64) -> f64 {
    let x = distance.abs();
    match x {
        ..=1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        ..2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}
