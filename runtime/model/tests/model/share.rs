//! Networks that begin alike are cut where they part, and compute the same as before.

use punctual_model::{Network, cut_where_they_part, reference};

use crate::fixture::network;

/// The same network with its heads trained again: the last weights of both stages differ.
fn specialised(by: f32) -> Network {
    let mut network = network();
    let heads: Vec<_> = network
        .exits()
        .map(|(stage, _)| {
            let head = stage
                .operators
                .iter()
                .find(|o| Some(o.output) == stage.scores());
            *head.expect("a head").weights.last().expect("a bias")
        })
        .collect();
    for range in heads {
        network.weights.to_mut()[range.start as usize] += by;
    }
    network
}

fn image(network: &Network) -> Vec<f32> {
    let values = 3 * network.input.height * network.input.width;
    (0..values).map(|n| (n % 17) as f32 / 8.0 - 1.0).collect()
}

#[test]
fn the_stage_in_which_they_part_becomes_what_is_common_and_what_is_not() {
    let parts = cut_where_they_part(&[specialised(1.0), specialised(2.0)]);
    for (cut, by) in parts.iter().zip([1.0, 2.0]) {
        cut.validate().expect("a valid network");
        let exits: Vec<bool> = cut.stages.iter().map(|s| s.exit.is_some()).collect();
        assert_eq!(exits, [false, true, true]);
        let whole = specialised(by);
        let answers: Vec<_> = reference::run(cut, &image(cut));
        let answers: Vec<_> = answers.into_iter().filter(|a| !a.is_empty()).collect();
        assert_eq!(answers, reference::run(&whole, &image(&whole)));
    }
    let [one, other] = &parts[..] else {
        panic!("two networks");
    };
    let equal: Vec<bool> = one
        .stage_prefixes()
        .iter()
        .zip(other.stage_prefixes())
        .map(|(a, b)| a.hash == b.hash)
        .collect();
    assert_eq!(equal, [true, false, false]);
    assert_eq!(one.carried(), other.carried());
}

#[test]
fn networks_that_are_equal_or_have_nothing_in_common_stay_as_they_are() {
    let same = cut_where_they_part(&[network(), network()]);
    assert_eq!(same, [network(), network()]);
    let mut brighter = network();
    brighter.weights.to_mut()[0] += 1.0;
    let apart = cut_where_they_part(&[network(), brighter.clone()]);
    assert_eq!(apart, [network(), brighter]);
}

#[test]
fn a_network_that_is_cut_survives_its_package() {
    use punctual_model::{Calibration, Package};
    let cut = cut_where_they_part(&[specialised(1.0), specialised(2.0)]).remove(0);
    let package = Package::new(cut.clone(), Calibration::default()).expect("valid");
    let back = Package::decode(&package.encode()).expect("reads");
    assert_eq!(*back.network(), cut);
}
