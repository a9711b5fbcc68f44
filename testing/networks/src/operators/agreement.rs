//! What the compiler and the reference interpreter make of a file, against what onnxruntime makes of it.

use std::borrow::Cow;
use std::time::Duration;

use ort::session::Session;
use punctual_compile::{CompileError, Compiled};
use punctual_model::{Network, reference};
use punctual_platform::clock::now_ns;
use punctual_types::Random;

use super::OneOperator;
use crate::compare::{caught, compiled, reason};
use crate::draw::{self, Drawn};
use crate::engines::{Numbers, OnnxruntimeError, exits, input_values, numbers, session};
use crate::requests::Request;

/// Of floats, relative to the largest of an output or to one.
const TOLERANCE: f32 = 1e-4;
/// Floats beyond this are as good as infinite.
const HUGE: f32 = 1e38;
/// A file is a few nodes: the compiler takes microseconds for it.
const COMPILING_MAX: Duration = Duration::from_secs(5);
/// What only Rust's own forms of values have.
const RUST: [&str; 4] = ["Some(", "None", " { ", "::"];

/// What came of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// As many values are equal or near.
    Agreed(u64),
    /// The compiler does not take it, and says why.
    Refused(String),
    /// onnxruntime does not take it: nothing says what it means.
    NoOnnxruntime(String),
    /// A value is another, or the compiler panicked, took too long, or refused in words that are none.
    Wrong(String),
}

/// Compares a file.
#[must_use]
pub fn compare(one: &OneOperator) -> Outcome {
    let drawn = &one.drawn;
    let requests = requests(drawn);
    let expected = match caught(|| expected(drawn, &requests)) {
        Ok(Ok(expected)) => expected,
        Err(panic) => return Outcome::NoOnnxruntime(panic),
        Ok(Err(error)) => return Outcome::NoOnnxruntime(error.to_string()),
    };
    let began = now_ns();
    let result = match caught(|| compiled(drawn)) {
        Ok(result) => result,
        Err(panic) => return Outcome::Wrong(format!("the compiler panicked: {panic}")),
    };
    let took = Duration::from_nanos(now_ns() - began);
    if took > COMPILING_MAX {
        return Outcome::Wrong(format!("the compiler took {} ms", took.as_millis()));
    }
    let compiled = match result {
        Ok(compiled) => compiled,
        Err(error) => return refusal(error),
    };
    let checked = caught(|| differences(&compiled, drawn, &requests, &expected));
    match checked.unwrap_or_else(|panic| Err(format!("the interpreter panicked: {panic}"))) {
        Ok(values) => Outcome::Agreed(values),
        Err(difference) => Outcome::Wrong(difference),
    }
}

fn refusal(error: CompileError) -> Outcome {
    let said = error.to_string();
    match RUST.iter().find(|form| said.contains(**form)) {
        Some(form) => Outcome::Wrong(format!("the refusal has {form:?}: {said}")),
        None => Outcome::Refused(reason(error)),
    }
}

/// The images of one batch: the first ordinary, the others with some values far from the others'.
fn requests(drawn: &Drawn) -> Vec<Request> {
    let images = drawn.images().unwrap_or(2) as u64;
    let of_image = |image| {
        let mut random = Random::new(drawn.seed).stream("quarters", image);
        let mut value = |numbers: draw::Numbers| match (numbers, random.below(48)) {
            (draw::Numbers::Tokens(count), _) => random.below(count) as f32,
            (_, 0) if image > 0 => 25.0,
            (_, 1) if image > 0 => -25.0,
            _ => random.below(33) as f32 / 4.0 - 4.0,
        };
        let inputs = drawn.inputs.iter();
        inputs
            .map(|input| {
                (0..input.elements())
                    .map(|_| value(input.numbers))
                    .collect()
            })
            .collect()
    };
    (0..images).map(of_image).collect()
}

/// `[output]` onnxruntime's values of the whole batch.
fn expected(drawn: &Drawn, requests: &[Request]) -> Result<Vec<Numbers>, OnnxruntimeError> {
    let mut session: Session = session(drawn)?;
    let requests: Vec<&Request> = requests.iter().collect();
    let results = session.run(input_values(drawn, &requests)?)?;
    let outputs = drawn.graph().output.iter().map(|output| output.name());
    outputs.map(|name| numbers(name, &results[name])).collect()
}

fn differences(
    compiled: &Compiled,
    drawn: &Drawn,
    requests: &[Request],
    expected: &[Numbers],
) -> Result<u64, String> {
    let Some((_, exit)) = exits(compiled).next() else {
        return Err("the network has no exit".to_owned());
    };
    let mut compared = 0;
    for (image, request) in requests.iter().enumerate() {
        let network = compiled.package.network();
        let inputs = as_compiled(network, drawn, request);
        let inputs: Vec<&[f32]> = inputs.iter().map(|input| &input[..]).collect();
        let exited = reference::run_all(network, &inputs);
        let found = exited.into_iter().flatten().next().unwrap_or_default();
        for (output, expected) in drawn.graph().output.iter().zip(expected) {
            let name = output.name();
            let is_it = |other: &punctual_model::Output| expected_name(drawn, name) == other.name;
            let at = exit.outputs.iter().position(is_it);
            let found = at.and_then(|at| found.outputs.get(at));
            let found = found.ok_or_else(|| format!("there is no output {name}"))?;
            let each = expected.values.len() / requests.len();
            let expected_of_image = &expected.values[image * each..][..each];
            difference(found, expected_of_image, expected.exact)
                .map_err(|what| format!("image {image}, {name}: {what}"))?;
            compared += found.len() as u64;
        }
    }
    Ok(compared)
}

/// A file's inputs as the network has them: those that are no vectors one behind the other, then the vectors.
fn as_compiled<'a>(network: &Network, drawn: &Drawn, request: &'a Request) -> Vec<Cow<'a, [f32]>> {
    let all = drawn.graph().input.iter().zip(request);
    let vector = |name: &str| network.vectors.iter().any(|vector| vector.name == name);
    let (vectors, stacked): (Vec<_>, Vec<_>) = all.partition(|(input, _)| vector(input.name()));
    let mut inputs: Vec<Cow<'_, [f32]>> = vec![match stacked[..] {
        [(_, only)] => Cow::Borrowed(only),
        _ => stacked
            .into_iter()
            .flat_map(|(_, values)| values.iter().copied())
            .collect(),
    }];
    inputs.extend(
        vectors
            .into_iter()
            .map(|(_, values)| Cow::Borrowed(&values[..])),
    );
    inputs
}

/// The name that a file's output has in the package.
fn expected_name<'a>(drawn: &Drawn, name: &'a str) -> &'a str {
    if drawn.graph().output.len() == 1 {
        punctual_model::ONLY_OUTPUT
    } else {
        name
    }
}

fn difference(found: &[f32], expected: &[f32], exact: bool) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} values, not {}", found.len(), expected.len()));
    }
    let finite = expected.iter().filter(|value| value.abs() <= HUGE);
    let largest = finite.fold(1.0, |most: f32, value| most.max(value.abs()));
    let tolerance = if exact { 0.0 } else { TOLERANCE * largest };
    // onnxruntime's powers end before the largest float; of a zero's inverse the sign is open.
    let is_huge = |value: f32| value.abs() > HUGE;
    let near = |a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
        (true, true) => true,
        _ if is_huge(a) && is_huge(b) => true,
        _ => a == b || (a - b).abs() <= tolerance,
    };
    let mut pairs = found.iter().zip(expected).enumerate();
    match pairs.find(|(_, (found, expected))| !near(**found, **expected)) {
        Some((at, (found, expected))) => Err(format!("value {at} is {found}, not {expected}")),
        None => Ok(()),
    }
}
