//! Inputs for a network, drawn: ordinary ones, extremes that are still finite, zeros of both signs.

use punctual_model::{InputForm, Network, OperatorKind};
use punctual_types::Random;

/// What values an input has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All over the range.
    Ordinary,
    /// Ends of the range; of numbers without one some very small and some large.
    Extreme,
    /// Zeros of either sign, and a few other values.
    Zeros,
}

/// Most numbers of a table of tokens that are tried if the network has no table.
const TOKENS: u64 = 1_000;

/// The first input and the vectors of drawing `number`, in the order of
/// [`Network::input_tensors`].
pub(super) fn draw(network: &Network, seed: u64, number: u32) -> Vec<Vec<f32>> {
    let kind = [Kind::Ordinary, Kind::Extreme, Kind::Zeros][number as usize % 3];
    let mut random = Random::new(seed).stream("input", number.into());
    let mut inputs = vec![first(network, kind, &mut random)];
    for vector in &network.vectors {
        inputs.push(numbers(vector.length as usize, kind, &mut random));
    }
    inputs
}

fn first(network: &Network, kind: Kind, random: &mut Random) -> Vec<f32> {
    let shape = network.input.tensor();
    let plane = shape.height as usize * shape.width as usize;
    match network.input.form {
        InputForm::Prepared => numbers(plane * shape.channels as usize, kind, random),
        InputForm::Image { mean, std } => {
            let channels = mean.iter().zip(&std).take(shape.channels as usize);
            let planes = channels.map(|(mean, std)| {
                let pixels = (0..plane).map(|_| pixel(kind, random));
                pixels
                    .map(|pixel| pixel.map_or(0.0, |p| (p - mean) / std))
                    .collect()
            });
            // A normalised pixel that is zero has either sign.
            let planes: Vec<Vec<f32>> = planes.collect();
            let mut all = planes.concat();
            for value in all.iter_mut().filter(|value| **value == 0.0) {
                *value = if random.one_in(2) { 0.0 } else { -0.0 };
            }
            all
        }
        InputForm::Tokens { mask } => {
            let mut tokens = tokens(network, plane, kind, random);
            if mask {
                let counted = match kind {
                    Kind::Ordinary => random.within(1, plane as u64) as usize,
                    Kind::Extreme => plane,
                    Kind::Zeros => 1,
                };
                tokens.extend((0..plane).map(|at| if at < counted { 1.0 } else { 0.0 }));
            }
            tokens
        }
    }
}

/// A pixel in 0 to 1; none for one that is zero when it is normalised.
fn pixel(kind: Kind, random: &mut Random) -> Option<f32> {
    match kind {
        Kind::Ordinary => Some(random.below(256) as f32 / 255.0),
        Kind::Extreme => Some(random.below(2) as f32),
        Kind::Zeros if random.one_in(8) => Some(random.below(256) as f32 / 255.0),
        Kind::Zeros => None,
    }
}

/// Numbers of rows of the network's smallest table.
fn tokens(network: &Network, count: usize, kind: Kind, random: &mut Random) -> Vec<f32> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let rows = operators.filter_map(|operator| match &operator.kind {
        OperatorKind::Embedding(of) => Some(u64::from(operator.weights[0].len / of.channels)),
        _ => None,
    });
    let rows = rows.min().unwrap_or(TOKENS);
    let token = |random: &mut Random| match kind {
        Kind::Ordinary => random.below(rows),
        Kind::Extreme => (rows - 1) * random.below(2),
        Kind::Zeros => 0,
    };
    (0..count).map(|_| token(random) as f32).collect()
}

fn numbers(count: usize, kind: Kind, random: &mut Random) -> Vec<f32> {
    let number = |random: &mut Random| {
        let ordinary = 2.0 * random.signed_unit();
        let sign = if random.one_in(2) { 1.0 } else { -1.0 };
        match kind {
            Kind::Ordinary => ordinary,
            // From a millionth to a hundred.
            Kind::Extreme => sign * 10.0_f32.powi(random.below(9) as i32 - 6),
            Kind::Zeros if random.one_in(8) => ordinary,
            Kind::Zeros => sign * 0.0,
        }
    };
    (0..count).map(|_| number(random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_conformance::networks;

    #[test]
    fn pictures_are_in_their_normalised_range_and_zeros_have_both_signs() {
        let mut network = networks::residual(1);
        network.input.form = InputForm::image(&[0.4, 0.5, 0.6], &[0.2, 0.25, 0.5]);
        for number in 0..6 {
            let image = &draw(&network, 1, number)[0];
            assert_eq!(image.len() as u64, network.input.tensor().elements());
            let plane = image.len() / 3;
            for (channel, (low, high)) in [(-2.0, 3.0), (-2.0, 2.0), (-1.2, 0.8)]
                .into_iter()
                .enumerate()
            {
                let plane = &image[channel * plane..][..plane];
                assert!(plane.iter().all(|v| (low - 1e-5..=high + 1e-5).contains(v)));
            }
        }
        let zeros = &draw(&network, 1, 2)[0];
        let negative = zeros
            .iter()
            .filter(|v| **v == 0.0 && v.is_sign_negative())
            .count();
        let positive = zeros
            .iter()
            .filter(|v| **v == 0.0 && v.is_sign_positive())
            .count();
        assert!(negative > 0 && positive > 0);
    }

    #[test]
    fn drawings_differ_and_a_seed_repeats_its_own() {
        let network = networks::residual(1);
        assert_eq!(draw(&network, 4, 0), draw(&network, 4, 0));
        assert_ne!(draw(&network, 4, 0), draw(&network, 4, 3));
        assert_ne!(draw(&network, 4, 0), draw(&network, 5, 0));
    }
}
