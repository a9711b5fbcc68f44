//! A second, looser comparison of an answer that is outside of its tolerance. Drawn networks are ill-conditioned: they divide
//! by what nearly vanishes, and round what lies on a boundary. Here a difference counts that another tensor's values make,
//! and none that rounding may make.

use punctual_model::reference::Exited;
use punctual_model::reference::agreement::{ExpectedExit, ExpectedTensor, expected};

use crate::engines::{Engine, Subject};
use crate::requests::Request;

/// Further draws of noise; the largest tolerance of an element counts.
const REDRAWS: u64 = 12;

/// So many tolerances: onnxruntime's curves and sums are its own.
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
    let draws = (1..=REDRAWS).map(|at| {
        let seed = subject.drawn.seed.wrapping_add(at << 32);
        let exits = expected(network, &inputs, engine.precision(), seed);
        exits.into_iter().flatten().collect::<Vec<_>>()
    });
    let draws: Vec<Vec<ExpectedExit>> = draws.collect();
    let jumps = is_discontinuous(subject);
    let agrees = |(at, found): (usize, &Exited)| {
        let of_draws = |tensor: fn(&ExpectedExit, usize) -> &ExpectedTensor, number| -> Vec<_> {
            draws
                .iter()
                .map(|exits| tensor(&exits[at], number))
                .collect()
        };
        let outputs = found.outputs.iter().enumerate().all(|(output, values)| {
            is_near(
                &of_draws(|exit, at| &exit.outputs[at], output),
                values,
                jumps,
            )
        });
        let scores = of_draws(|exit, _| &exit.scores, 0);
        let confidence = of_draws(|exit, _| &exit.confidence, 0);
        outputs
            && (found.scores.is_empty() || is_near(&scores, &found.scores, jumps))
            && (found.confidence.is_none()
                || is_near(&confidence, found.confidence.as_slice(), jumps))
    };
    found.iter().enumerate().all(agrees)
}

fn is_discontinuous(subject: &Subject<'_>) -> bool {
    let nodes = subject.drawn.graph().node.iter();
    let mut operators = nodes.filter_map(|node| node.op_type.as_deref());
    operators.any(|operator| DISCONTINUOUS.contains(&operator))
}

/// Whether a tensor is near what the draws expect. Behind a jump an eighth of its elements, or one, may be elsewhere: a tensor
/// in another's place is wrong in most.
fn is_near(draws: &[&ExpectedTensor], found: &[f32], jumps: bool) -> bool {
    let expected = draws[0].values();
    let finite = expected.iter().filter(|value| value.is_finite());
    let largest = finite.fold(0.0, |largest: f32, value| largest.max(value.abs()));
    let rounding = VANISHING.max(ROUNDING * largest);
    let near = |(at, (found, expected)): (usize, (&f32, &f32))| {
        let tolerances = draws.iter().map(|draw| draw.tolerances()[at]);
        let tolerance = TOLERANCES * tolerances.fold(0.0, f32::max);
        tolerance.is_infinite()
            || found == expected
            // Infinity or no number: a matter of the order of sums.
            || !(found.is_finite() || expected.is_finite())
            // Noise as large as the value: it may as well have no bounds.
            || (!found.is_finite() && tolerance >= expected.abs())
            || (found - expected).abs() <= tolerance.max(rounding)
    };
    let pairs = found.iter().zip(expected).enumerate();
    let outliers = pairs.filter(|pair| !near(*pair)).count();
    let allowed = if jumps { (found.len() / 8).max(1) } else { 0 };
    found.len() == expected.len() && outliers <= allowed
}
