//! `Resize` of a constant: networks that take their embedding of positions to another size.

use punctual_types::{Between, Coordinates, Direction, Rounding};

use super::layout::{area, axes, axis};
use super::{BATCH, Folding, HUGE, Room, SIZES, TYPES, refuse};
use crate::graph::{Attribute, Attributes, Constant, Data};
use crate::integer::Dim;
use crate::lower::resize::{coordinates, rounding};
use crate::problem::Problem;

/// What the list of taps of one position takes.
const TAPS_WORDS: usize = 32;

/// What is taken at a place of the operand.
enum Mode {
    Nearest(Rounding),
    Linear,
    /// By the weights that a curve gives to values around the place.
    Spread(Spread),
}

/// A curve that is stretched, so that nothing between two places of a smaller result is left out, or is not.
#[derive(Clone, Copy)]
struct Spread {
    curve: Curve,
    antialias: bool,
    exclude_outside: bool,
}

#[derive(Clone, Copy)]
enum Curve {
    Triangle,
    Cubic { coefficient: f64 },
}

/// What is taken where: of each dimension that is resized in the same way.
pub(crate) struct Resizing {
    mode: Mode,
    coordinates: Coordinates,
}

/// Whether dimensions that are resized together keep their proportions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

impl Policy {
    pub(crate) fn of(attributes: &mut Attributes<'_>) -> Result<Self, Problem> {
        const NAME: &str = "keep_aspect_ratio_policy";
        match attributes.text(NAME, "stretch")? {
            "stretch" => Ok(Self::Stretch),
            "not_larger" => Ok(Self::NotLarger),
            "not_smaller" => Ok(Self::NotSmaller),
            other => {
                let found = Attribute::Text(other.to_owned());
                let supported = "stretch, not_larger or not_smaller";
                Err(Problem::attribute(NAME, &found, supported))
            }
        }
    }

    /// For each dimension its new size and the factor that this is, of the sizes that are asked for.
    pub(crate) fn targets(self, own: &[usize], asked: &[usize]) -> Vec<(usize, f32)> {
        let ratios = asked.iter().zip(own);
        let ratios = ratios.map(|(asked, own)| *asked as f32 / *own as f32);
        let common = match self {
            Self::Stretch => return asked.iter().copied().zip(ratios).collect(),
            Self::NotLarger => ratios.fold(f32::INFINITY, f32::min),
            Self::NotSmaller => ratios.fold(0.0, f32::max),
        };
        let size = |own: &usize| ((common * *own as f32).round() as usize, common);
        own.iter().map(size).collect()
    }
}

pub(crate) fn resize(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let Data::Floats(values) = &operand.data else {
        return refuse(TYPES);
    };
    let (mut values, mut dims) = (values.clone(), operand.dims.clone());
    let attributes = &mut folding.attributes;
    let resizing = Resizing::of(attributes)?;
    let policy = Policy::of(attributes)?;
    let list = attributes.ints("axes")?.map(<[i64]>::to_vec);
    let list = list.unwrap_or_else(|| (0..dims.len() as i64).collect());
    axes(&list, dims.len())?;
    let targets = targets(folding, operand, &list, policy)?;
    for (named, (size, scale)) in list.iter().zip(targets) {
        let at = axis(*named, dims.len())?;
        if size == dims[at] && scale == 1.0 {
            continue;
        }
        let (outer, inner) = (area(&dims[..at]), area(&dims[at + 1..]));
        let before = std::mem::replace(&mut dims[at], size);
        let count = folding.count(&dims)?;
        let taps = resizing.taps(before, size, scale, folding.room)?;
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
    policy: Policy,
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
        policy.targets(&own, &sizes.collect::<Vec<_>>())
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

impl Resizing {
    pub(crate) fn of(attributes: &mut Attributes<'_>) -> Result<Self, Problem> {
        let coordinates = coordinates(attributes)?;
        let rounding = rounding(attributes)?;
        let coefficient = attributes.float("cubic_coeff_a", -0.75)?.into();
        let exclude_outside = attributes.int("exclude_outside", 0)? != 0;
        let antialias = attributes.int("antialias", 0)? != 0;
        attributes.ignore("extrapolation_value"); // Of the refused tf_crop_and_resize.
        let spread = |curve| {
            Mode::Spread(Spread {
                curve,
                antialias,
                exclude_outside,
            })
        };
        let mode = match attributes.text("mode", "nearest")? {
            "nearest" if !antialias => Mode::Nearest(rounding),
            "linear" if antialias => spread(Curve::Triangle),
            "linear" => Mode::Linear,
            "cubic" => spread(Curve::Cubic { coefficient }),
            _ => return refuse("its attribute mode is not supported"),
        };
        Ok(Self { mode, coordinates })
    }

    /// For each position of a result the positions that make it up, with their weights.
    fn taps(
        &self,
        from: usize,
        to: usize,
        scale: f32,
        room: &mut Room,
    ) -> Result<Vec<Vec<(usize, f64)>>, Problem> {
        room.take(to.saturating_mul(TAPS_WORDS))?;
        let [Ok(from), Ok(to)] = [from, to].map(u32::try_from) else {
            return refuse(HUGE);
        };
        Ok(self.mode.taps(Direction {
            from,
            to,
            scale,
            coordinates: self.coordinates,
        }))
    }

    /// By which a dimension is multiplied.
    pub(crate) fn matrix(
        &self,
        from: usize,
        to: usize,
        scale: f32,
        room: &mut Room,
    ) -> Result<Constant, Problem> {
        room.take(from.saturating_mul(to))?;
        let mut weights = vec![0.0; from * to];
        for (at, taps) in self.taps(from, to, scale, room)?.iter().enumerate() {
            for (from, weight) in taps {
                weights[from * to + at] += weight;
            }
        }
        let weights = weights.into_iter().map(|weight| weight as f32).collect();
        Ok(Constant::new(vec![from, to], Data::Floats(weights)))
    }
}

impl Mode {
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
            Self::Spread(spread) => (0..along.to).map(|at| spread.taps(along, at)).collect(),
        }
    }
}

impl Spread {
    fn taps(&self, along: Direction, at: u32) -> Vec<(usize, f64)> {
        let (place, last) = (f64::from(along.place(at)), i64::from(along.from) - 1);
        let stretch = if self.antialias {
            f64::from(1.0 / along.scale).max(1.0)
        } else {
            1.0
        };
        let reach = self.curve.reach() * stretch;
        // Places far outside have the values at the edge all the same.
        let place = place.clamp(-reach - 1.0, last as f64 + reach + 1.0);
        let first = (place - reach).ceil() as i64;
        let taps = first..=(place + reach).floor() as i64;
        let taps = taps.filter(|at| !self.exclude_outside || (0..=last).contains(at));
        let taps: Vec<(i64, f64)> = taps
            .map(|at| (at, self.curve.weight((at as f64 - place) / stretch)))
            .collect();
        let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
        let shares = taps.into_iter();
        shares
            .map(|(at, weight)| (at.clamp(0, last) as usize, weight / sum))
            .collect()
    }
}

impl Curve {
    /// How far it goes to each side.
    fn reach(self) -> f64 {
        match self {
            Self::Triangle => 1.0,
            Self::Cubic { .. } => 2.0,
        }
    }

    /// The weight of a value so far away.
    fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Self::Triangle => (1.0 - x).max(0.0),
            Self::Cubic { coefficient } => cubic(coefficient, x),
        }
    }
}

fn cubic(a: f64, x: f64) -> f64 {
    match x {
        ..=1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        ..2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}
