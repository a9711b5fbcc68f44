//! Which changes of a network change which stages' hashes.

use std::collections::BTreeSet;

use punctual_model::{
    Calibration, Conv2d, InputForm, Network, OperatorKind, Package, PrefixHash, TensorId,
    WeightRange,
};
use punctual_types::{Activation, Extent, Padding, Window};

use crate::fixture::{chain, network};

/// Of the stages alone.
fn own_hashes(network: &Network) -> Vec<PrefixHash> {
    let prefixes = network.stage_prefixes();
    prefixes.into_iter().map(|prefix| prefix.own).collect()
}

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
    // All weights one further on, behind one that is not used.
    renamed.weights.to_mut().insert(0, 9.0);
    for operator in renamed
        .stages
        .iter_mut()
        .flat_map(|stage| &mut stage.operators)
    {
        for range in &mut operator.weights {
            range.start += 1;
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
    // Without its residual.
    unbounded.stages[1].operators[0].others.clear();
    let changed = hashes(&unbounded);
    assert_eq!(changed[0], hashes(&network())[0]);
    assert_ne!(changed[1], hashes(&network())[1]);
}

#[test]
fn weights_that_several_operators_have_count_once_in_a_stage() {
    let chain = chain(4);
    assert_eq!(chain.validate(), Ok(()));
    for stage in &chain.stages {
        let [first, second] = &stage.operators[..] else {
            panic!("two convolutions");
        };
        assert_eq!(first.weights, second.weights);
    }
    for prefix in chain.stage_prefixes() {
        // 4x4 kernels of 3x3 and 4 biases.
        assert_eq!(prefix.weight_bytes, 4 * (144 + 4));
    }
    let package = Package::new(chain.clone(), Calibration::default()).unwrap();
    let again = Package::decode(&package.encode()).unwrap();
    assert_eq!(*again.network(), chain);
}

#[test]
fn stages_that_do_the_same_with_the_same_weights_are_alike_wherever_they_stand() {
    let chain = chain(4);
    let own = own_hashes(&chain);
    assert!(own[1] == own[2] && own[2] == own[3]);
    // It takes the network's input, which lies otherwise than what is carried.
    assert_ne!(own[0], own[1]);
    // It carries nothing over.
    assert_ne!(own[4], own[3]);
    let all: BTreeSet<PrefixHash> = hashes(&chain).into_iter().collect();
    assert_eq!(all.len(), chain.stages.len(), "what is before them differs");
}

/// The stages of the chain that are others after a change.
fn changed(change: impl FnOnce(&mut Network)) -> Vec<usize> {
    let mut network = chain(4);
    change(&mut network);
    assert_eq!(network.validate(), Ok(()));
    let own = own_hashes(&chain(4)).into_iter().zip(own_hashes(&network));
    let differs = own.enumerate().filter(|(_, (one, other))| one != other);
    differs.map(|(stage, _)| stage).collect()
}

/// Gives the second convolution of stage 2 weights of its own, of which the last one is larger.
fn give_weights(network: &mut Network, by: f32) {
    let start = network.weights.len() as u32;
    network.weights.to_mut().extend_from_within(..);
    *network.weights.to_mut().last_mut().unwrap() += by;
    for range in &mut network.stages[2].operators[1].weights {
        range.start += start;
    }
}

#[test]
fn another_name_or_place_of_weights_makes_no_other_stage() {
    let moved = changed(|n| give_weights(n, 0.0));
    let renamed = changed(|n| {
        for stage in &mut n.stages {
            stage.exit.as_mut().unwrap().outputs[0].name = "image".to_owned();
        }
        n.stages[2].operators[0].name = "other".to_owned();
    });
    let none: [usize; 0] = [];
    assert_eq!((&moved[..], &renamed[..]), (&none[..], &none[..]));
}

#[test]
fn another_weight_shape_activation_exit_or_carried_tensor_makes_another_stage() {
    assert_eq!(changed(|n| give_weights(n, 1.0)), [2]);
    assert_eq!(changed(|n| *n = chain(5)), [0, 1, 2, 3, 4]);
    let plain = changed(|n| {
        n.stages[2].operators[1]
            .kind
            .set_activation(Activation::None)
    });
    assert_eq!(plain, [2]);
    // It gives its first tensor to clients.
    let given = changed(|n| {
        let stage = &mut n.stages[2];
        stage.exit.as_mut().unwrap().outputs[0].tensor = stage.operators[0].output;
    });
    assert_eq!(given, [2]);
    // Stage 2 carries its first tensor over as well, and stage 3 adds it.
    let carried = changed(|n| {
        let tensor = n.stages[2].operators[0].output;
        n.stages[2].outputs.insert(0, tensor);
        n.stages[3].inputs.insert(0, tensor);
        n.stages[3].operators[1].others = vec![tensor];
    });
    assert_eq!(carried, [2, 3]);
}

#[test]
fn other_zeros_around_what_a_stage_carries_make_another_stage() {
    let wider = changed(|n| {
        let start = n.weights.len() as u32;
        let len = 4 * 4 * 5 * 5;
        let weights = n.weights.to_mut();
        weights.resize(weights.len() + len as usize, 0.0);
        let first = &mut n.stages[3].operators[0];
        first.weights[0] = WeightRange { start, len };
        if let OperatorKind::Conv2d(Conv2d { window, .. }) = &mut first.kind {
            *window = Window::new(Extent::square(5), Extent::square(1), Padding::uniform(2));
        }
        assert_eq!(first.input, TensorId(6));
    });
    assert_eq!(wider, [2, 3]);
}
