//! The conformance suite on the emulated driver.
//!
//! Left out, with the reason: operators on bytes. Where halves replace floats, a value between two bytes may be rounded
//! to the other, a whole step away (`lowered_numerics` compares bytes computed of bytes exactly, and others with a
//! tolerance). And networks of computed positions, which change where halves are in another order than floats: their
//! kernels are compared one by one.

mod places;
mod subject;

use punctual_conformance::conforms;
use punctual_conformance::{networks, suite};
use subject::Emulated;

conforms!(Emulated =>
    answers_equal_the_reference,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
    partitions_do_not_disturb_each_other,
);

#[test]
fn tokens_copies_and_arithmetic_answer_as_the_reference() {
    let (tokens, copies) = (networks::every_operator(11), networks::copies(11));
    let others = [networks::arithmetic(11), networks::wide_heads(11)];
    for network in [tokens, copies].into_iter().chain(others) {
        suite::answers_equal_the_reference_on(&Emulated, &network);
    }
}

#[test]
fn recurrent_layers_answer_as_the_reference() {
    suite::answers_equal_the_reference_on(&Emulated, &networks::recurrent(11, 19));
}

/// The suite's own network takes the emulated device minutes.
#[test]
fn preempted_actions_can_be_run_again() {
    suite::preempted_actions_can_be_run_again_on(&Emulated, &networks::gathers(15));
}

/// The suite's own network of three stages has operators on tokens.
#[test]
fn survivors_of_different_batches_run_together() {
    suite::survivors_run_together_on(&Emulated, &networks::tangle(12));
}

/// As above.
#[test]
fn requests_may_change_partition_between_stages() {
    suite::requests_may_change_partition_on(&Emulated, &networks::tangle(18));
}

/// The suite on homes, whose leaders serve cells as well.
mod beside_cells {
    use std::sync::Arc;

    use emulated_cuda::{Config, Emulator};
    use punctual_conformance::conforms;
    use punctual_conformance::{Subject, networks, suite};
    use punctual_device::DeviceSpec;
    use punctual_device_cuda::partition::Mechanism;
    use punctual_platform::Doorbell;

    use crate::places::{divided, partitioner, places};
    use crate::subject::{Cuda, Emulated};

    /// The suite's partitions become the first of the homes and cells, and the rest is there as well.
    struct BesideCells;

    impl Subject for BesideCells {
        type Device = Cuda;

        const TOKENS_AND_BYTES: bool = Emulated::TOKENS_AND_BYTES;
        const ARITHMETIC: bool = Emulated::ARITHMETIC;
        const CONFIDENCE_TOLERANCE: f32 = Emulated::CONFIDENCE_TOLERANCE;
        const SCORE_TOLERANCE: f32 = Emulated::SCORE_TOLERANCE;

        fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Cuda {
            let config = Config::default();
            let emulator = Emulator::start(&config).expect("the emulated driver beside this test");
            let partitioner = partitioner("beside-cells", &config, Mechanism::StreamMask);
            let partitions = places();
            assert!(spec.partitions.len() <= partitions.len());
            let spec = DeviceSpec {
                partitions: &partitions,
                ..*spec
            };
            Cuda::beside(emulator, &spec, &divided(&partitioner, &partitions), bell)
        }
    }

    conforms!(BesideCells =>
        windows_are_honoured,
        a_third_action_is_refused,
        weights_come_and_go,
        weights_in_use_stay,
        partitions_do_not_disturb_each_other,
    );

    #[test]
    fn preempted_actions_can_be_run_again() {
        suite::preempted_actions_can_be_run_again_on(&BesideCells, &networks::gathers(15));
    }

    #[test]
    fn requests_may_change_partition_between_stages() {
        suite::requests_may_change_partition_on(&BesideCells, &networks::tangle(18));
    }
}
