//! A network started in every order gives the answers that it gives when it runs, and does not hang.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::bounded;
use punctual_device::conformance::networks;
use punctual_device_cpu::cold_start::{ColdStartError, Order, Preparation, first_answers};
use punctual_device_cpu::{SolutionRequest, measure_solutions};
use punctual_device_cpu::{image_layout, pack_image};
use punctual_kernels::{Isa, Solution};
use punctual_model::{Calibration, Network, Package, SolutionChoice, reference};

use crate::networks_of_tied_weights::chain;

const ORDERS: [Order; 6] = [
    Order::Interleaved(Preparation::BeforeMilestone),
    Order::Interleaved(Preparation::Always),
    Order::Interleaved(Preparation::Never),
    Order::OneAfterTheOther,
    Order::VerifiedFirst,
    Order::PackedFirst,
];

/// A package with its weights packed for this processor.
fn package(name: &str, network: Network) -> PathBuf {
    let isa = Isa::detect();
    let layout = image_layout(isa, &network).expect("a layout");
    let image = pack_image(isa, &network).expect("an image");
    let package = Package::new(network, Calibration::default()).expect("a valid network");
    let package = package.with_layouts(vec![layout]).expect("it fits");
    let package = package
        .with_image(isa.lanes() as u8, image)
        .expect("it fits");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    package.write(&path).expect("written");
    path
}

/// What `body` gives; a start that hangs fails the test instead of stopping all tests.
fn within_a_minute<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = bounded(1);
    // Detached: if it hangs it ends with the process.
    #[allow(clippy::disallowed_methods, reason = "a test's own thread")]
    std::thread::spawn(move || done.send(body()));
    let result = result.recv_timeout(Duration::from_secs(60));
    result.expect("a cold start ends")
}

fn starts_in_every_order(path: &Path, choices: &[SolutionChoice]) {
    let image = |network: &Network| networks::image(network, 5);
    let network = Package::read(path).expect("the package").network().clone();
    let expected = reference::run(&network, &image(&network));
    for order in ORDERS {
        let (path, choices) = (path.to_owned(), choices.to_vec());
        let answers =
            within_a_minute(move || first_answers(Isa::detect(), &path, image, order, &choices));
        let answers = answers.unwrap_or_else(|error| panic!("{order:?}: {error}"));
        assert_eq!(answers.exits.len(), expected.len(), "{order:?}");
        for (exit, expected) in answers.exits.iter().zip(&expected) {
            for (found, expected) in exit.scores.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-3,
                    "{order:?}: {found}, {expected}"
                );
            }
        }
        assert!(answers.exits.is_sorted_by_key(|exit| exit.at), "{order:?}");
    }
}

#[test]
fn every_order_gives_the_networks_answers_with_nothing_to_prepare() {
    let path = package("cold-plain.punctual", networks::residual(21));
    starts_in_every_order(&path, &[]);
}

#[test]
fn every_order_gives_the_networks_answers_with_solutions_to_prepare() {
    let network = networks::residual(22);
    let request = SolutionRequest {
        isa: Isa::detect(),
        batches: &[1],
        mates: &[],
        rounds: 1,
    };
    let choices = measure_solutions(&network, &request).expect("measured");
    let path = package("cold-solutions.punctual", network);
    starts_in_every_order(&path, &choices);
}

/// Weights of the later stages lie where the first one's do, which may be there long before.
#[test]
fn every_order_gives_the_answers_of_stages_that_share_their_weights() {
    let network = chain(6);
    let operators = network.stages.iter().map(|stage| stage.operators.len());
    let choice = |operator: usize| SolutionChoice {
        operator: operator as u32,
        batch: 1,
        units: 1,
        solution: Solution::Winograd4.name().to_owned(),
    };
    let choices: Vec<_> = (0..operators.sum()).map(choice).collect();
    let path = package("cold-tied.punctual", network);
    starts_in_every_order(&path, &[]);
    starts_in_every_order(&path, &choices);
}

#[test]
fn a_package_without_packed_weights_and_an_input_of_another_length_are_refused() {
    let network = networks::residual(23);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cold-bare.punctual");
    let bare = Package::new(network.clone(), Calibration::default()).expect("a valid network");
    bare.write(&path).expect("written");
    let order = ORDERS[0];
    let image = |network: &Network| networks::image(network, 5);
    let refused = first_answers(Isa::detect(), &path, image, order, &[]);
    assert!(
        matches!(refused, Err(ColdStartError::NoImage(_))),
        "{refused:?}"
    );
    let path = package("cold-input.punctual", network);
    let refused = first_answers(Isa::detect(), &path, |_| vec![0.0; 3], order, &[]);
    assert!(
        matches!(refused, Err(ColdStartError::Input { found: 3, .. })),
        "{refused:?}"
    );
}
