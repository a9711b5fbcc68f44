//! Tables of signal processing: windows, and the weights of frequencies in bands that ears tell apart.

use std::f64::consts::TAU;

use super::{Folding, TYPES, refuse};
use crate::graph::{Constant, Data};
use crate::problem::Problem;
use crate::schema::data_type;

/// A sum of cosines of a turn.
pub(crate) fn window(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let weights = match folding.node.operator.as_str() {
        "BlackmanWindow" => [0.42, -0.5, 0.08],
        "HammingWindow" => [25.0 / 46.0, -21.0 / 46.0, 0.0],
        _ => [0.5, -0.5, 0.0],
    };
    let periodic = folding.attributes.int("periodic", 1)? != 0;
    check_floats(folding)?;
    let size = folding.positive(0)?;
    let size = folding.count(&[size])?;
    let turn = if periodic { size } else { size - 1 };
    let value = |at: usize| {
        let angle = TAU * at as f64 / turn as f64;
        let terms = weights.iter().enumerate();
        let terms = terms.map(|(times, weight)| weight * (times as f64 * angle).cos());
        terms.sum::<f64>() as f32
    };
    let values = (0..size).map(value).collect();
    Ok(Constant::new(vec![size], Data::Floats(values)))
}

/// Triangles over the frequencies of a transform, of which each begins where the one before has its top.
pub(crate) fn mel_weights(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    check_floats(folding)?;
    let [bands, length, rate] = [0, 1, 2].map(|at| folding.positive(at));
    let (bands, length, rate) = (bands?, length?, rate? as f64);
    let edges = [folding.floats(3)?, folding.floats(4)?];
    let &[&[low], &[high]] = &edges else {
        return refuse("its edges are not one number each");
    };
    let frequencies = length / 2 + 1;
    folding.count(&[frequencies, bands])?;
    let mel = |hertz: f32| 2595.0 * (1.0 + f64::from(hertz) / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    let bin = |at: usize| {
        let hertz = 700.0 * (10_f64.powf((mel(low) + at as f64 * step) / 2595.0) - 1.0);
        ((length as f64 + 1.0) * hertz / rate).floor()
    };
    let bins: Vec<f64> = (0..bands + 2).map(bin).collect();
    let is_inside = |bin: &f64| (0.0..frequencies as f64).contains(bin);
    if !bins.iter().all(is_inside) {
        return refuse("its edges lie outside of what the sample rate tells apart");
    }
    let weight = |at: usize| {
        let (frequency, band) = ((at / bands) as f64, at % bands);
        let [from, top, to] = [bins[band], bins[band + 1], bins[band + 2]];
        if (top..to).contains(&frequency) {
            (to - frequency) / (to - top)
        } else if frequency == top && from == top {
            1.0
        } else if (from..=top).contains(&frequency) {
            (frequency - from) / (top - from)
        } else {
            0.0
        }
    };
    let weights = (0..frequencies * bands).map(|at| weight(at) as f32);
    let dims = vec![frequencies, bands];
    Ok(Constant::new(dims, Data::Floats(weights.collect())))
}

fn check_floats(folding: &mut Folding<'_>) -> Result<(), Problem> {
    let default = i64::from(data_type::FLOAT);
    let kind = folding.attributes.int("output_datatype", default)?;
    if data_type::FLOATS.map(i64::from).contains(&kind) {
        Ok(())
    } else {
        refuse(TYPES)
    }
}

impl Folding<'_> {
    /// One integer that fits 31 bits and is above zero.
    fn positive(&self, at: usize) -> Result<usize, Problem> {
        match self.one_integer(at, 0)? {
            size @ 1..=0x7fff_ffff => Ok(size as usize),
            _ => refuse("a size is not positive, or huge"),
        }
    }
}
