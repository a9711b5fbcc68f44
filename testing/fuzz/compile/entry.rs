//! A package file, run: what the fuzzer and the tests without one have in common.

use punctual_device_cpu::Evaluator;
use punctual_fuzzed::exercise;
use punctual_kernels::Isa;
use punctual_model::{Network, Package};

/// Larger networks are valid, and would keep a test busy for minutes.
const WORK_MAX: u64 = 1 << 18;

/// What the two requests of a batch consist of: something ordinary, and what no client should send.
const VALUES: [f32; 2] = [0.5, f32::NAN];

/// Runs the network of a package file, if it is one: by the reference interpreter, and with each instruction set of the CPU
/// device that this processor has. Whether it ran.
pub fn package(file: &[u8]) -> bool {
    let Ok(package) = Package::decode_unverified(file) else {
        return false;
    };
    let _ = exercise(file);
    let network = package.network();
    if work(network) > WORK_MAX {
        return false;
    }
    for isa in Isa::available() {
        run(network, isa);
    }
    true
}

fn work(network: &Network) -> u64 {
    let tensors = network.tensors.iter().map(|tensor| tensor.elements());
    let stages = network.stages.iter();
    let stages = stages.map(|stage| network.multiplications(stage));
    tensors.chain(stages).fold(0, u64::saturating_add)
}

fn run(network: &Network, isa: Isa) {
    // What the device refuses at its start is no part of a plan.
    let Ok(mut evaluator) = Evaluator::new(isa, network, VALUES.len()) else {
        return;
    };
    let inputs = network.input_tensors();
    let lengths: Vec<u64> = inputs
        .map(|input| network.tensors[input.index()].elements())
        .collect();
    let request = |value| -> Vec<Vec<f32>> {
        let inputs = lengths.iter();
        inputs.map(|&length| vec![value; length as usize]).collect()
    };
    let requests = VALUES.map(request);
    evaluator.load(&[&requests[0][0], &requests[1][0]]);
    for (member, request) in requests.iter().enumerate() {
        let vectors: Vec<&[f32]> = request[1..].iter().map(Vec::as_slice).collect();
        evaluator.load_vectors(member, &vectors);
    }
    let exits = evaluator.exits(requests.len());
    assert_eq!(exits.len(), network.stages.len());
    for (stage, found) in network.stages.iter().zip(exits) {
        let expected = if stage.exit.is_some() {
            requests.len()
        } else {
            0
        };
        assert_eq!(found.len(), expected, "an answer for each request");
    }
}
