//! Which changes of a network change which stages' hashes.

use punctual_model::{InputForm, Network, OperatorKind, PrefixHash};

use crate::fixture::network;

fn hashes(network: &Network) -> Vec<PrefixHash> {
    let prefixes = network.stage_prefixes();
    prefixes.into_iter().map(|prefix| prefix.hash).collect()
}

#[test]
fn a_stage_is_as_large_as_its_weights() {
    let sizes: Vec<u64> = network()
        .stage_prefixes()
        .iter()
        .map(|p| p.weight_bytes)
        .collect();
    // 4x3 kernels of 3x3 with 4 biases, a head of 3x4 with 3; 4x4 of 1x1 with 4, the same head.
    assert_eq!(sizes, [4 * (108 + 4 + 12 + 3), 4 * (16 + 4 + 12 + 3)]);
}

#[test]
fn a_network_with_other_last_layers_shares_the_first_stage() {
    let mut specialised = network();
    let last = specialised.weights.len() - 1;
    specialised.weights.to_mut()[last] += 1.0;
    let (general, special) = (hashes(&network()), hashes(&specialised));
    assert_eq!(general[0], special[0]);
    assert_ne!(general[1], special[1]);
}

#[test]
fn nothing_is_shared_behind_a_difference() {
    let mut other = network();
    other.weights.to_mut()[0] += 1.0;
    let (one, other) = (hashes(&network()), hashes(&other));
    assert!(one[0] != other[0] && one[1] != other[1]);
}

#[test]
fn names_and_positions_make_no_difference() {
    let mut renamed = network();
    renamed.name = "other".to_owned();
    renamed.classes[0] = "z".to_owned();
    renamed.stages[0].operators[0].name = "conv".to_owned();
    // All weights one further on, behind one that nobody uses.
    renamed.weights.to_mut().insert(0, 9.0);
    for operator in renamed
        .stages
        .iter_mut()
        .flat_map(|stage| &mut stage.operators)
    {
        if let OperatorKind::Conv2d { weights, bias, .. }
        | OperatorKind::Linear { weights, bias, .. } = &mut operator.kind
        {
            weights.start += 1;
            bias.start += 1;
        }
    }
    assert_eq!(hashes(&renamed), hashes(&network()));
}

#[test]
fn another_input_or_another_operator_is_another_computation() {
    let mut brighter = network();
    brighter.input.form = InputForm::image(&[0.25], &[]);
    assert_ne!(hashes(&brighter)[0], hashes(&network())[0]);
    let mut unbounded = network();
    let first = &mut unbounded.stages[1].operators[0];
    if let OperatorKind::Conv2d { residual, .. } = &mut first.kind {
        *residual = None;
    }
    let changed = hashes(&unbounded);
    assert_eq!(changed[0], hashes(&network())[0]);
    assert_ne!(changed[1], hashes(&network())[1]);
}
