//! Weights that several nodes have: they are in the package once.

use std::collections::BTreeSet;

use punctual_model::{
    Network, Operator, OperatorKind, PrefixHash, WeightRange, reference, same_stages,
};

use super::builder::{Onnx, int, ints_of};
use super::compiled;

/// How often the same is done.
const USES: usize = 8;

/// A convolution of four channels after the other, each with the weights and the bias that it is told.
fn unrolled(initializer: impl Fn(usize) -> [String; 2]) -> Onnx {
    let stem = Onnx::new()
        .floats("stem", &[4, 3, 1, 1])
        .node("Conv", "image stem", "x0", &[]);
    let with_initializers = (0..USES).flat_map(&initializer).collect::<BTreeSet<_>>();
    let onnx = with_initializers.iter().fold(stem, |onnx, name| {
        let dims: &[i64] = if name.starts_with('w') {
            &[4, 4, 3, 3]
        } else {
            &[4]
        };
        // The names are equally long, so that the values are equal.
        onnx.floats(name, dims)
    });
    (0..USES).fold(onnx, |onnx, at| {
        let [weights, bias] = initializer(at);
        let reads = format!("x{at} {weights} {bias}");
        let (sums, result) = (format!("c{at}"), format!("x{}", at + 1));
        onnx.node("Conv", &reads, &sums, &[ints_of("pads", &[1; 4])])
            .node("Relu", &sums, &result, &[])
    })
}

fn of_one_initializer() -> Onnx {
    unrolled(|_| ["w0", "b0"].map(str::to_owned))
}

/// Equal values under as many names.
fn of_own_initializers() -> Onnx {
    unrolled(|at| ["w", "b"].map(|name| format!("{name}{at}")))
}

/// Exits behind these steps, all with the same two initializers.
fn exits(onnx: Onnx, after: impl IntoIterator<Item = usize>) -> Onnx {
    let onnx = onnx.floats("matrix", &[5, 4]).floats("vector", &[5]);
    after.into_iter().fold(onnx, |onnx, step| {
        let [mean, flat] = ["mean", "flat"].map(|name| format!("{name}{step}"));
        let (reads, exit) = (format!("{flat} matrix vector"), format!("exit_{step}"));
        onnx.node("GlobalAveragePool", &format!("x{step}"), &mean, &[])
            .node("Flatten", &mean, &flat, &[])
            .node("Gemm", &reads, &exit, &[int("transB", 1)])
            .output(&exit)
    })
}

fn in_one_stage(onnx: Onnx) -> Onnx {
    exits(onnx, [USES])
}

fn in_a_stage_each(onnx: Onnx) -> Onnx {
    exits(onnx, 1..=USES)
}

fn network(onnx: &Onnx) -> Network {
    compiled(onnx).unwrap().package.network().clone()
}

/// The convolutions but the first.
fn repeated(network: &Network) -> Vec<&Operator> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let convs = operators.filter(|operator| matches!(operator.kind, OperatorKind::Conv2d(_)));
    convs.skip(1).collect()
}

fn ranges<'n>(operators: &[&'n Operator]) -> BTreeSet<&'n [WeightRange]> {
    operators
        .iter()
        .map(|operator| &operator.weights[..])
        .collect()
}

/// Stem, convolution and head, each with its biases.
const PARAMETERS: usize = (12 + 4) + (4 * 4 * 9 + 4) + (5 * 4 + 5);

#[test]
fn eight_uses_of_one_initializer_are_one_range_of_weights_in_one_stage_and_in_eight() {
    for (onnx, stages) in [
        (in_one_stage(of_one_initializer()), 1),
        (in_a_stage_each(of_one_initializer()), USES),
    ] {
        let network = network(&onnx);
        assert_eq!(network.stages.len(), stages);
        let convs = repeated(&network);
        assert_eq!(convs.len(), USES);
        assert_eq!(ranges(&convs).len(), 1, "{convs:?}");
        assert_eq!(network.weights.len(), PARAMETERS);
    }
}

#[test]
fn equal_values_of_different_initializers_are_stored_once_too() {
    for exits in [in_one_stage as fn(Onnx) -> Onnx, in_a_stage_each] {
        let [one, own] = [of_one_initializer(), of_own_initializers()].map(exits);
        assert!(one.0.graph.as_ref().unwrap().initializer.len() < 6);
        assert!(own.0.graph.as_ref().unwrap().initializer.len() > 2 * USES);
        assert_eq!(network(&own), network(&one));
    }
}

#[test]
fn the_report_counts_a_weight_once_wherever_it_is_read() {
    for exits in [in_one_stage as fn(Onnx) -> Onnx, in_a_stage_each] {
        let report = compiled(&exits(of_own_initializers())).unwrap().report;
        assert_eq!(report.parameters, PARAMETERS as u64);
        assert_eq!(report.weight_bytes, 4 * PARAMETERS as u64);
        // Each stage of the several ones has the convolution and the head; the first one the stem besides.
        let stages: Vec<u64> = report.stages.iter().map(|stage| stage.parameters).collect();
        let first = PARAMETERS as u64;
        assert_eq!(stages[0], first);
        assert!(
            stages[1..].iter().all(|&own| own == first - 16),
            "{stages:?}"
        );
    }
}

#[test]
fn the_stages_between_the_first_and_the_last_are_the_same_one() {
    let package = compiled(&in_a_stage_each(of_own_initializers()))
        .unwrap()
        .package;
    let prefixes = package.stage_prefixes();
    let own: Vec<PrefixHash> = prefixes.iter().map(|prefix| prefix.own).collect();
    assert!(own[1..USES - 1].iter().all(|other| *other == own[1]));
    // With the stem, and without anything to carry over.
    assert!(own[0] != own[1] && own[USES - 1] != own[1] && own[USES - 1] != own[0]);
    assert_eq!(same_stages(prefixes), [0, 1, 1, 1, 1, 1, 1, 7]);
    // What lies before them differs.
    let hashes: BTreeSet<PrefixHash> = prefixes.iter().map(|prefix| prefix.hash).collect();
    assert_eq!(hashes.len(), USES);
}

#[test]
fn what_eight_uses_compute_is_what_one_after_the_other_computes() {
    let values = |name: &str, count: usize| -> Vec<f32> {
        let value = |at: usize| ((at as f32 + name.len() as f32) * 0.7).sin() * 0.4;
        (0..count).map(value).collect()
    };
    let image: Vec<f32> = (0..192).map(|at| (at as f32 * 0.37).sin()).collect();
    let stem = values("stem", 12);
    let mut x: Vec<f32> = (0..4 * 64)
        .map(|at| {
            (0..3)
                .map(|c| stem[at / 64 * 3 + c] * image[c * 64 + at % 64])
                .sum()
        })
        .collect();
    let (weights, bias) = (values("w0", 144), values("b0", 4));
    let (matrix, vector) = (values("matrix", 20), values("vector", 5));
    let found = reference::run(&network(&in_a_stage_each(of_one_initializer())), &image);
    assert_eq!(found.len(), USES);
    for (step, found) in found.iter().enumerate() {
        let before = x.clone();
        for (at, value) in x.iter_mut().enumerate() {
            let (channel, row, column) = (at / 64, at / 8 % 8, at % 8);
            let mut sum = bias[channel];
            for term in 0..36 {
                let (from, down, right) = (term / 9, row + term / 3 % 3, column + term % 3);
                if (1..9).contains(&down) && (1..9).contains(&right) {
                    let pixel = before[from * 64 + (down - 1) * 8 + right - 1];
                    sum += weights[channel * 36 + term] * pixel;
                }
            }
            *value = sum.max(0.0);
        }
        for (class, found) in found.iter().enumerate() {
            let mean = |channel: usize| x[channel * 64..][..64].iter().sum::<f32>() / 64.0;
            let terms = (0..4).map(|channel| matrix[class * 4 + channel] * mean(channel));
            let expected = vector[class] + terms.sum::<f32>();
            assert!(
                (found - expected).abs() < 1e-5 * expected.abs().max(1.0),
                "{step}: {found} {expected}"
            );
        }
    }
}

/// Two convolutions one after the other, with these weights; and what the network has.
fn two(first: Vec<f32>, second: Vec<f32>) -> (Network, [WeightRange; 2]) {
    let onnx = Onnx::new()
        .exactly("w0", &[3, 3, 1, 1], first)
        .exactly("w1", &[3, 3, 1, 1], second)
        .node("Conv", "image w0", "a", &[])
        .node("Conv", "a w1", "b", &[])
        .head("b", 3, "exit_0");
    let network = network(&onnx);
    let operators = &network.stages[0].operators;
    let weights = [0, 1].map(|at| operators[at].weights[0]);
    (network, weights)
}

#[test]
fn a_zero_and_a_negative_zero_are_not_the_same_weight() {
    let plain: Vec<f32> = (0..9).map(|at| at as f32).collect();
    let negative = [&[-0.0], &plain[1..]].concat();
    let (network, weights) = two(plain.clone(), negative.clone());
    assert_ne!(weights[0], weights[1]);
    let bits = |range: WeightRange| -> Vec<u32> {
        let values = &network.weights[range.start as usize..][..range.len as usize];
        values.iter().map(|value| value.to_bits()).collect()
    };
    let expected = [plain.clone(), negative].map(|values| {
        let bits = values.into_iter().map(f32::to_bits);
        bits.collect::<Vec<u32>>()
    });
    assert_eq!(weights.map(bits), expected);
    let (_, same) = two(plain.clone(), plain);
    assert_eq!(same[0], same[1]);
}

#[test]
fn a_list_that_begins_as_another_one_does_is_another_one() {
    let ones = |name: &str, outputs: i64, onnx: Onnx| {
        let values = vec![1.0; 3 * outputs as usize];
        onnx.exactly(name, &[outputs, 3, 1, 1], values)
    };
    let onnx = ones("w0", 3, ones("w1", 5, Onnx::new()))
        .node("Conv", "image w0", "a", &[])
        .node("Conv", "a w1", "b", &[])
        .head("b", 5, "exit_0");
    let network = network(&onnx);
    let lens = [0, 1].map(|at| network.stages[0].operators[at].floats().to_vec());
    let lens = lens.map(|ranges| ranges.iter().map(|range| range.len).collect::<Vec<_>>());
    assert_eq!(lens, [vec![9, 3], vec![15, 5]]);
    let image = [0.5; 192];
    let scores = reference::run(&network, &image).remove(0);
    assert!(scores.iter().all(|score| score.is_finite()));
}
