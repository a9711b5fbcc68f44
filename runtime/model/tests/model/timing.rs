//! Which changes of a network change how long it takes.

use punctual_model::{Calibration, Conv2d, InputForm, Network, OperatorKind, Package, TensorId};
use punctual_types::{Activation, Quantisation};

use crate::fixture::{self, calibration, chain, network};

/// Each network must take as long as the fixture's, or must not.
fn assert_same_time(same: bool, change: impl FnOnce(&mut Network)) {
    let mut changed = network();
    change(&mut changed);
    assert_eq!(changed.timing() == network().timing(), same);
}

fn first_convolution(network: &mut Network) -> &mut Conv2d {
    match &mut network.stages[0].operators[0].kind {
        OperatorKind::Conv2d(convolution) => convolution,
        other => panic!("it begins with a convolution, not {other:?}"),
    }
}

#[test]
fn a_network_that_was_trained_again_takes_the_same_time() {
    assert_same_time(true, |network| {
        for weight in network.weights.to_mut() {
            *weight = 0.5 - *weight;
        }
    });
}

#[test]
fn names_and_normalisation_take_no_time() {
    assert_same_time(true, |network| {
        network.name = "other".to_owned();
        network.classes[0] = "z".to_owned();
        network.stages[0].operators[0].name = "conv".to_owned();
        network.input.form = InputForm::image(&[0.25], &[]);
        let exit = network.stages[0].exit.as_mut().expect("it has one");
        exit.outputs[0].name = "other".to_owned();
    });
}

#[test]
fn a_learnt_slope_takes_the_same_time_whatever_it_is_but_not_as_long_as_none() {
    let with = |activation| {
        let mut network = network();
        first_convolution(&mut network).activation = activation;
        network.timing()
    };
    let leaky = |slope| with(Activation::LeakyRelu { slope });
    assert_eq!(leaky(0.1), leaky(0.2));
    assert_ne!(leaky(0.1), with(Activation::Relu));
}

#[test]
fn another_shape_window_operator_or_cut_takes_another_time() {
    assert_same_time(false, |network| network.tensors[1].height += 1);
    assert_same_time(false, |network| network.input.width += 1);
    assert_same_time(false, |network| first_convolution(network).groups += 1);
    // Without its residual.
    assert_same_time(false, |network| {
        network.stages[1].operators[0].others.clear();
    });
    assert_same_time(false, |network| {
        let moved = network.stages[1].operators.remove(0);
        network.stages[0].operators.push(moved);
    });
    assert_same_time(false, |network| network.stages[0].exit = None);
}

#[test]
fn bytes_take_another_time_than_floats_and_the_same_whatever_they_stand_for() {
    let with = |scale, zero| {
        let mut network = network();
        let quantisation = Quantisation { scale, zero };
        network.quantised.tensors.insert(TensorId(1), quantisation);
        network.timing()
    };
    assert_eq!(with(0.5, 3), with(0.25, 128));
    assert_ne!(with(0.5, 3), network().timing());
}

#[test]
fn weights_that_two_operators_share_are_read_once() {
    let tied = chain(2);
    let mut untied = tied.clone();
    let copies = tied.weights.to_vec();
    untied.weights.to_mut().extend(copies);
    for range in &mut untied.stages[1].operators[0].weights {
        range.start += tied.weights.len() as u32;
    }
    assert_ne!(tied.timing(), untied.timing());
}

#[test]
fn neither_calibration_nor_packed_weights_take_time() {
    let bare = Package::new(network(), Calibration::default()).expect("a valid package");
    let calibrated = Package::new(network(), calibration()).expect("a valid package");
    assert_eq!(bare.timing(), calibrated.timing());
    assert_eq!(bare.timing(), fixture::package().timing());
    assert_ne!(bare.hash(), calibrated.hash(), "it is another package");
}
