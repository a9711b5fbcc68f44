//! A second, looser comparison of an answer that is outside of its tolerance. Drawn networks are ill-conditioned: they divide
//! by what nearly vanishes, and round what lies on a boundary. Here a difference counts that another tensor's values make,
//! and none that rounding may make.

use punctual_model::reference::Exited;
use punctual_model::reference::agreement::{ExpectedExit, ExpectedTensor, agrees_with_more_noise};

use crate::draw::PICTURE;
use crate::engines::{Engine, Subject, comparable};
use crate::requests::Request;

/// The difference that is allowed, in tolerances: onnxruntime's curves and sums are its own.
const TOLERANCES: f32 = 8.0;

/// A difference of values that cancel each other, or nearly vanish.
const VANISHING: f32 = 1e-5;

/// As a share of a tensor's largest value.
const ROUNDING: f32 = 2e-4;

/// Operators whose results jump: what noise happens not to move may still be on the other side in an engine.
const DISCONTINUOUS: &[&str] = &[
    "ArgMax",
    "ArgMin",
    "Cast",
    "Ceil",
    "Equal",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Mod",
    "QuantizeLinear",
    "Round",
    "Sign",
    "TopK",
];

/// Whether what an engine answers to a request agrees.
pub fn agrees(engine: Engine, subject: &Subject<'_>, request: &Request, found: &[Exited]) -> bool {
    let inputs: Vec<&[f32]> = request.iter().map(Vec::as_slice).collect();
    let network = subject.compiled.package.network();
    let (precision, seed) = (engine.precision(), subject.drawn.seed);
    let jumps = is_discontinuous(subject);
    agrees_with_more_noise(network, &inputs, precision, seed, |expected| {
        let expected: Vec<ExpectedExit> = expected.iter().flatten().cloned().collect();
        comparable(engine, subject, &expected, found)
            .all(|(_, expected, found)| is_near_exit(&expected, &found, jumps))
    })
}

fn is_near_exit(expected: &ExpectedExit, found: &Exited, jumps: bool) -> bool {
    let mut outputs = expected.outputs.iter().zip(&found.outputs);
    outputs.all(|(expected, found)| is_near(expected, found, jumps))
        && (found.scores.is_empty() || is_near(&expected.scores, &found.scores, jumps))
        && (found.confidence.is_none()
            || is_near(&expected.confidence, found.confidence.as_slice(), jumps))
}

fn is_discontinuous(subject: &Subject<'_>) -> bool {
    let nodes = subject.drawn.graph().node.iter();
    // Nothing jumps where a picture's bytes become floats.
    let nodes = nodes.filter(|node| node.input.first().is_none_or(|input| input != PICTURE));
    let mut operators = nodes.filter_map(|node| node.op_type.as_deref());
    operators.any(|operator| DISCONTINUOUS.contains(&operator))
}

/// Whether a tensor is near what is expected. Behind a jump an eighth of its elements, or one, may be elsewhere: a tensor in
/// another's place is wrong in most.
fn is_near(expected: &ExpectedTensor, found: &[f32], jumps: bool) -> bool {
    let finite = expected.values().iter().filter(|value| value.is_finite());
    let largest = finite.fold(0.0, |largest: f32, value| largest.max(value.abs()));
    let rounding = VANISHING.max(ROUNDING * largest);
    let near = |((found, expected), tolerance): ((&f32, &f32), &f32)| {
        let tolerance = TOLERANCES * tolerance;
        tolerance.is_infinite()
            || found == expected
            // Infinity or no number: a matter of the order of sums.
            || !(found.is_finite() || expected.is_finite())
            // Noise as large as the value: it may as well have no bounds.
            || (!found.is_finite() && tolerance >= expected.abs())
            || (found - expected).abs() <= tolerance.max(rounding)
    };
    let pairs = found.iter().zip(expected.values());
    let outliers = pairs
        .zip(expected.tolerances())
        .filter(|pair| !near(*pair))
        .count();
    let allowed = if jumps { (found.len() / 8).max(1) } else { 0 };
    found.len() == expected.values().len() && outliers <= allowed
}
