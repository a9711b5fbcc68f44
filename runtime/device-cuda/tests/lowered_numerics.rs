//! Lowered networks run on the emulated kernels, launch by launch, against the reference.

mod emulation;

use std::path::Path;

use emulation::{Memory, assert_scores};
use punctual_conformance::networks;
use punctual_conformance::tied::{chain, pairs, pyramid, pyramid_of_bytes, tied};
use punctual_device_cpu::Evaluator;
use punctual_device_cuda::lower::{self, Program, Target};
use punctual_kernels::Isa;
use punctual_model::{
    Binary, Gather, Network, Operator, OperatorKind, Output, OutputLayout, Package, SolutionChoice,
    TensorId, cut_where_they_part, reference,
};
use punctual_types::{Activation, BinaryFunction, Element, Quantisation, View};

const BATCHES: [u8; 3] = [1, 2, 4];

fn target(multiprocessors: u32) -> Target {
    Target {
        multiprocessors,
        compute_capability: (8, 7),
        page_bytes: 256 << 10,
    }
}

/// Runs all stages for as many members as there are images, with different members' slots, and compares every exit.
fn check(network: &Network, program: &Program, batch: u8, images: &[Vec<f32>]) {
    let mut memory = Memory::new(network, program, images);
    let expected: Vec<_> = images.iter().map(|i| reference::run(network, i)).collect();
    let mut layers = 0;
    for (number, stage) in network.stages.iter().enumerate() {
        layers += stage.operators.len();
        let found = memory.run(program, number, batch);
        for (member, scores) in found.iter().enumerate() {
            let what = format!("{}, stage {number}, member {member}", network.name);
            // A half between two bytes may be rounded a step away from the float's byte.
            let rounded = if network.quantised.tensors.is_empty() {
                1
            } else {
                4
            };
            assert_scores(scores, &expected[member][number], rounded * layers, &what);
        }
    }
}

fn images(network: &Network, count: u64) -> Vec<Vec<f32>> {
    (0..count)
        .map(|seed| networks::image(network, seed))
        .collect()
}

#[test]
fn networks_of_every_operator_score_as_the_reference_in_batches_full_and_not_full() {
    for network in [
        networks::gathers(11),
        networks::residual(12),
        networks::copies(11),
        networks::arithmetic(11),
        networks::segments(11),
        networks::every_operator(11),
        networks::quantised(11),
        networks::recurrent(11, 19),
        // With other seeds halves may be equal, or in another order, where floats are not.
        networks::detectors(11),
    ] {
        let program = Program::lower(&network, &BATCHES, &target(8), &[]).expect("lowers");
        for (batch, members) in [(1, 1), (4, 4), (4, 3)] {
            check(&network, &program, batch, &images(&network, members));
        }
    }
}

#[test]
fn a_recurrent_layer_of_many_steps_is_several_launches() {
    let network = networks::recurrent(12, 1200);
    let target = Target {
        page_bytes: 1 << 20,
        ..target(8)
    };
    let program = Program::lower(&network, &[2], &target, &[]).expect("lowers");
    let steps = program.list(0, 2).expect("prepared").steps.iter();
    let launches = steps.filter(|step| step.kernel.name == "recurrent");
    assert_eq!(launches.count(), 4, "two of each layer");
    check(&network, &program, 2, &images(&network, 2));
}

/// An output of all values of a tensor of bytes.
fn of_bytes(network: &Network, tensor: TensorId) -> Output {
    let Quantisation { scale, zero } = network.quantised.tensors[&tensor];
    let sides = network.tensors[tensor.index()].sides();
    Output {
        name: format!("tensor {}", tensor.0),
        tensor,
        shape: sides.to_vec(),
        view: View::plain(sides),
        element: Element::U8 { scale, zero },
    }
}

/// Convolutions of all kinds, sums, pools, means and conversions, on an input that halves hold exactly.
#[test]
fn bytes_are_the_references_to_the_last_step() {
    let mut network = networks::quantised(13);
    let mut exact = vec![network.input_tensor()];
    let plain = network.clone();
    for stage in &mut network.stages {
        let mut outputs = Vec::new();
        for operator in &stage.operators {
            let of = plain.quantisation(operator.output);
            if of.is_some() && operator.reads().all(|read| exact.contains(&read)) {
                exact.push(operator.output);
                outputs.push(of_bytes(&plain, operator.output));
            }
        }
        stage.exit.as_mut().expect("an exit").outputs = outputs;
    }
    assert!(exact.len() > 8, "{exact:?}");
    let image: Vec<f32> = networks::image(&network, 4)
        .iter()
        .map(|value| (value * 64.0).round() / 64.0)
        .collect();
    let layout = OutputLayout::of(&network, |_| true);
    let program =
        Program::with_outputs(&network, Some(&layout), &[1], &target(8), &[]).expect("lowers");
    let expected = reference::run_all(&network, &[&image]);
    let mut memory = Memory::new(&network, &program, &[image]);
    for (number, expected) in expected.into_iter().enumerate() {
        memory.run(&program, number, 1);
        let found = memory.outputs(&program, number, 0);
        let Some(placed) = layout.stage(number) else {
            continue;
        };
        let first = placed.outputs[0].offset;
        let expected = expected.expect("an exit").outputs;
        for (placed, expected) in placed.outputs.iter().zip(&expected) {
            let own = &found[(placed.offset - first) as usize..][..placed.bytes as usize];
            let expected: Vec<u8> = expected.iter().map(|&byte| byte as u8).collect();
            assert_eq!(own, expected, "stage {number}, output {}", placed.output);
        }
    }
}

#[test]
fn tangled_networks_score_as_the_reference_on_partitions_of_any_size() {
    for seed in 0..6 {
        let network = networks::tangle(seed);
        let target = target([1, 16, 132][seed as usize % 3]);
        let program = Program::lower(&network, &BATCHES, &target, &[]).expect("lowers");
        check(&network, &program, 2, &images(&network, 2));
    }
}

#[test]
fn operators_that_are_cut_over_pages_score_as_whole_ones_do() {
    let network = networks::residual(5);
    let pages = |page_bytes| {
        let target = Target {
            page_bytes,
            ..target(8)
        };
        Program::lower(&network, &[2], &target, &[]).expect("lowers")
    };
    let (cut, whole) = (pages(8 << 10), pages(256 << 10));
    assert!(
        cut.list(0, 2).expect("there").steps.len() > whole.list(0, 2).expect("there").steps.len()
    );
    check(&network, &cut, 2, &images(&network, 2));
}

#[test]
fn every_candidate_of_an_operator_gives_the_same_scores() {
    let network = networks::residual(6);
    let target = target(8);
    // The second convolution has a depth that can be cut; the last operator is an exit.
    let last = network
        .stages
        .iter()
        .map(|s| s.operators.len())
        .sum::<usize>() as u32
        - 1;
    for operator in [1, last] {
        let candidates = lower::candidates(&network, operator, 2, &target).expect("there are some");
        assert!(candidates.len() >= 5, "{candidates:?}");
        for candidate in candidates {
            let choice = SolutionChoice {
                operator,
                batch: 2,
                units: 1,
                solution: candidate.name(),
            };
            let program = Program::lower(&network, &[2], &target, &[choice]).expect("lowers");
            let stages = program.stages.iter().flat_map(|stage| &stage.lists);
            let mut steps = stages.flat_map(|list| &list.steps);
            let chosen = steps
                .find(|step| step.operator == Some(operator))
                .expect("there");
            assert_eq!(chosen.kernel.name, candidate.kernel.name);
            check(&network, &program, 2, &images(&network, 2));
        }
    }
}

#[test]
fn a_general_kernel_stands_in_for_any_launch() {
    let network = networks::residual(7);
    let program = Program::lower(&network, &[2], &target(132), &[]).expect("lowers");
    let images = images(&network, 2);
    let mut memory = Memory::new(&network, &program, &images);
    memory.stand_in = true;
    let found = memory.run(&program, 0, 2);
    assert!(memory.stood_in > 0, "the rule chose tensor cores");
    for (scores, image) in found.iter().zip(&images) {
        let expected = &reference::run(&network, image)[0];
        assert_scores(
            scores,
            expected,
            network.stages[0].operators.len(),
            "stand-ins",
        );
    }
}

/// The comparison notices one wrong weight.
#[test]
#[should_panic(expected = "instead of")]
fn a_damaged_weight_is_noticed() {
    let network = networks::residual(8);
    let program = Program::lower(&network, &[1], &target(8), &[]).expect("lowers");
    let images = images(&network, 1);
    let mut memory = Memory::new(&network, &program, &images);
    memory.damage(0, 0);
    let scores = memory.run(&program, 0, 1).remove(0);
    let expected = &reference::run(&network, &images[0])[0];
    assert_scores(
        &scores,
        expected,
        network.stages[0].operators.len(),
        "damaged",
    );
}

#[test]
fn the_exits_of_signs_agree_with_the_processors_on_the_pictures_in_the_tree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs");
    let package = Package::read(&folder.join("signs.punctual")).expect("the package in the tree");
    let network = package.network();
    let bytes = std::fs::read(folder.join("reference.f32")).expect("the pictures in the tree");
    let floats: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    let len = 3 * (network.input.height * network.input.width) as usize;
    let images: Vec<Vec<f32>> = floats.chunks(len).take(4).map(Vec::from).collect();
    let batch: Vec<&[f32]> = images.iter().map(|image| &image[..]).collect();
    let mut processor = Evaluator::new(Isa::detect(), network, 4).expect("lowers");
    let expected = processor.scores(&batch);
    let program = Program::lower(network, &[4], &target(16), &[]).expect("lowers");
    let mut memory = Memory::new(network, &program, &images);
    let mut layers = 0;
    for (stage, expected) in expected.iter().enumerate() {
        layers += network.stages[stage].operators.len();
        let found = memory.run(&program, stage, 4);
        for (member, (found, expected)) in found.iter().zip(expected).enumerate() {
            let what = format!("exit {stage}, picture {member}");
            assert_eq!(
                reference::classify(found).0,
                reference::classify(expected).0,
                "{what}"
            );
            assert_scores(found, expected, layers, &what);
        }
    }
}

#[test]
fn a_stage_without_an_exit_leads_on_and_answers_nothing() {
    let network = networks::residual(9);
    let mut other = network.clone();
    let head = other.stages[0]
        .operators
        .last()
        .expect("the layer that gives scores");
    let weights = head.weights[0];
    other.weights.to_mut()[weights.start as usize] += 1.0;
    let cut = cut_where_they_part(&[network, other]);
    for network in &cut {
        let program = Program::lower(network, &[2], &target(8), &[]).expect("lowers");
        let classes: Vec<_> = program.stages.iter().map(|stage| stage.classes).collect();
        assert_eq!(classes, [None, Some(5), Some(5)]);
        check(network, &program, 2, &images(network, 2));
    }
    // Their first pages are equal if they are small enough to be of the common part alone.
    let first_page = |network: &Network, page_bytes: u32| {
        let pages = lower::Pages::plan(network, page_bytes).expect("large enough");
        let mut bytes = vec![0; page_bytes as usize];
        let packer = lower::Packer::new(network, &pages);
        packer.pack(0, &mut bytes).expect("halves hold it");
        bytes
    };
    for (page_bytes, equal) in [(32 << 10, true), (1 << 20, false)] {
        let [first, second] = [0, 1].map(|at| first_page(&cut[at], page_bytes));
        assert_eq!(first == second, equal);
    }
}

#[test]
fn class_scores_that_no_fully_connected_layer_writes_are_brought_to_floats() {
    let mut network = networks::residual(10);
    for stage in &mut network.stages {
        let last = stage
            .operators
            .last_mut()
            .expect("the layer that gives scores");
        network.tensors[last.output.0 as usize].channels = 32;
        let twice = Binary {
            activation: Activation::Tanh,
            ..Binary::new(BinaryFunction::Add)
        };
        *last = Operator::new(&*last.name, &[last.input; 2], last.output, twice);
    }
    network.classes = (0..32).map(|class| format!("class {class}")).collect();
    assert_eq!(network.validate(), Ok(()));
    let program = Program::lower(&network, &[2], &target(8), &[]).expect("lowers");
    check(&network, &program, 2, &images(&network, 2));
}

#[test]
fn swapped_operands_are_exchanged_whether_tensors_or_constants_and_whichever_is_repeated() {
    let mut network = networks::arithmetic(15);
    let operators = network.stages.iter_mut().flat_map(|s| &mut s.operators);
    let mut exchanged = 0;
    for operator in operators {
        // Others would leave what halves hold, or where a power is a number.
        if let OperatorKind::Binary(Binary {
            function: BinaryFunction::Subtract | BinaryFunction::Maximum | BinaryFunction::Slope,
            swapped,
            ..
        }) = &mut operator.kind
        {
            *swapped = !*swapped;
            exchanged += 1;
        }
    }
    assert!(exchanged >= 4, "{exchanged}");
    assert_eq!(network.validate(), Ok(()));
    let program = Program::lower(&network, &[2], &target(8), &[]).expect("lowers");
    check(&network, &program, 2, &images(&network, 2));
}

#[test]
fn a_gather_of_one_run_takes_it_from_the_source_that_it_names() {
    let mut network = networks::gathers(15);
    let shapes = network.tensors.clone();
    let mut moved = 0;
    for stage in &mut network.stages {
        let mut before = stage.inputs.clone();
        for operator in &mut stage.operators {
            let size = |tensor: TensorId| shapes[tensor.index()].extent();
            let other = before
                .iter()
                .find(|&&other| other != operator.input && size(other) == size(operator.input));
            if let (OperatorKind::Gather(Gather { runs }), Some(&other)) =
                (&mut operator.kind, other)
                && let [run] = &mut runs[..]
            {
                (operator.others, run.source) = (vec![operator.input], 1);
                operator.input = other;
                moved += 1;
            }
            before.push(operator.output);
        }
    }
    assert!(moved >= 3, "{moved}");
    assert_eq!(network.validate(), Ok(()));
    let program = Program::lower(&network, &[2], &target(8), &[]).expect("lowers");
    check(&network, &program, 2, &images(&network, 2));
}

#[test]
fn operators_that_share_weights_score_as_the_reference_from_few_pages_and_from_many() {
    for network in [pyramid(), pyramid_of_bytes(), chain(4)] {
        for page_bytes in [4 << 10, 256 << 10] {
            let target = Target {
                page_bytes,
                ..target(8)
            };
            let program = Program::lower(&network, &[2], &target, &[]).expect("lowers");
            assert_eq!(program.pages.count() == 1, page_bytes > 4 << 10);
            check(&network, &program, 2, &images(&network, 2));
        }
    }
}

#[test]
fn operators_that_read_the_same_weights_in_another_order_score_as_the_reference() {
    for network in pairs() {
        let program = Program::lower(&network, &[2], &target(8), &[]).expect("lowers");
        check(&network, &program, 2, &images(&network, 2));
    }
}

#[test]
fn whatever_weights_a_network_has_in_common_it_scores_as_the_reference() {
    for network in [
        networks::gathers(16),
        networks::residual(16),
        networks::every_operator(16),
        networks::quantised(16),
        networks::tangle(16),
    ] {
        let network = tied(&network);
        let program = Program::lower(&network, &[2], &target(8), &[]).expect("lowers");
        check(&network, &program, 2, &images(&network, 2));
    }
}
