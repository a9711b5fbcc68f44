//! What drawn networks are asked: ordinary inputs, extreme ones, zeros of both signs.

use punctual_types::Random;

use crate::draw::{Drawn, Input, Numbers};

/// The first input and the vectors of one image.
pub type Request = Vec<Vec<f32>>;

/// What is unusual of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ordinary,
    /// Large, tiny and equal values among others.
    Extreme,
    Zeros,
    /// So large that an engine that reads them where they do not belong gives a wrong answer: they are left in memory before
    /// anything is compared.
    Stale,
}

/// The requests that are compared: each of another kind.
#[must_use]
pub fn compared(drawn: &Drawn) -> Vec<Request> {
    let kinds = [Kind::Ordinary, Kind::Extreme, Kind::Zeros];
    let numbered = (0..).zip(kinds);
    numbered
        .map(|(number, kind)| request(drawn, number, kind))
        .collect()
}

/// Requests that are run first, so that memory is not fresh.
#[must_use]
pub fn stale(drawn: &Drawn, count: usize) -> Vec<Request> {
    let numbers = 100..100 + count as u64;
    numbers
        .map(|number| request(drawn, number, Kind::Stale))
        .collect()
}

fn request(drawn: &Drawn, number: u64, kind: Kind) -> Request {
    let mut random = Random::new(drawn.seed).stream("request", number);
    let inputs = drawn.inputs.iter();
    inputs
        .map(|input| values(input, kind, &mut random))
        .collect()
}

fn values(input: &Input, kind: Kind, random: &mut Random) -> Vec<f32> {
    let value = |_| match input.numbers {
        Numbers::Tokens(below) => random.below(below) as f32,
        Numbers::Floats => float(kind, random),
    };
    (0..input.elements()).map(value).collect()
}

fn float(kind: Kind, random: &mut Random) -> f32 {
    let zero = |random: &mut Random| if random.one_in(2) { 0.0 } else { -0.0 };
    match kind {
        Kind::Ordinary => 2.0 * random.signed_unit(),
        Kind::Zeros if random.one_in(8) => random.signed_unit(),
        Kind::Zeros => zero(random),
        Kind::Extreme => match random.below(6) {
            0 => zero(random),
            1 => 100.0 * random.signed_unit(),
            2 => 1e-30 * random.signed_unit(),
            3 => 1.0,
            _ => 4.0 * random.signed_unit(),
        },
        Kind::Stale => 1e4 * (1.0 + random.unit_f32()),
    }
}
