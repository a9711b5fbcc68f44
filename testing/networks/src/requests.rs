//! What drawn networks are asked: ordinary inputs, extreme ones, zeros of both signs.

use punctual_model::Network;
use punctual_types::Random;

use crate::draw::{Drawn, Input, Numbers, Picture};

/// The first input and the vectors of one image, as the file takes them.
pub type Request = Vec<Vec<f32>>;

/// The request as frames are prepared for the network: a picture's channels one behind the other, normalised.
#[must_use]
pub fn prepared(drawn: &Drawn, network: &Network, request: &Request) -> Request {
    let mut prepared = request.clone();
    let is_image = network.input.form.is_image();
    if let (Numbers::Picture(picture), true) = (drawn.inputs[0].numbers, is_image) {
        prepared[0] = planes(picture, network, &request[0]);
    }
    prepared
}

fn planes(picture: Picture, network: &Network, values: &[f32]) -> Vec<f32> {
    let (mean, std) = network.input.form.normalisation();
    let channels = network.input.channels as usize;
    let pixels = values.len() / channels;
    let value = |channel: usize, pixel: usize| {
        let at = if picture.channels_last {
            pixel * channels + channel
        } else {
            channel * pixels + pixel
        };
        let figures = [picture.mean, picture.std, mean[channel], std[channel]];
        let [own_mean, own_std, mean, std] = figures.map(f64::from);
        ((f64::from(values[at]) * own_std + own_mean - mean) / std) as f32
    };
    let all = (0..channels).flat_map(|channel| (0..pixels).map(move |pixel| (channel, pixel)));
    all.map(|(channel, pixel)| value(channel, pixel)).collect()
}

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
        Numbers::Picture(picture) if kind != Kind::Stale => {
            let pixel = byte(kind, random);
            if picture.bytes {
                f32::from(pixel)
            } else {
                (f32::from(pixel) / 255.0 - picture.mean) / picture.std
            }
        }
        Numbers::Floats | Numbers::Picture(_) => float(kind, random),
    };
    (0..input.elements()).map(value).collect()
}

fn byte(kind: Kind, random: &mut Random) -> u8 {
    match kind {
        Kind::Zeros if !random.one_in(8) => 0,
        Kind::Extreme => [0, 1, 254, 255][random.below(4) as usize],
        _ => random.below(256) as u8,
    }
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
