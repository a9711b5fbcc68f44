//! Faults that are planted in good lists of launches: the checker finds each of them and says what is wrong. The table
//! says which of them a comparison of numbers on the emulated kernels notices, too.

mod emulation;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use emulation::Memory;
use punctual_conformance::networks;
use punctual_conformance::tied::{chain, pyramid};
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{Conv, Members, Output as OutputParams};
use punctual_device_cuda::lower::{self, LaunchList, LowerError, Place, Program, Target};
use punctual_model::{Network, Output, OutputLayout, SolutionChoice};
use punctual_types::{Element, View};

/// Images of the batch.
const BATCH: u8 = 2;
/// Of the tensors of the network `residual`, of the whole batch.
const RESIDUAL_BYTES: u64 = 24 * 24 * 32 * 2 * BATCH as u64;

/// What running the launches shows of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Other numbers than those of the good launches.
    Numbers,
    /// The interpreter refuses an access: to what was not written, or what is not there.
    Access,
    /// The interpreter would take half a minute for a thousand steps. Once it was run: other numbers.
    NotRun,
}
use Seen::{Access, NotRun, Numbers};

struct Fault {
    name: &'static str,
    network: fn() -> Network,
    plant: fn(&mut Program),
    /// A part of what the checker says.
    says: &'static str,
    seen: Seen,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "a place freed one step early",
        network: residual,
        plant: |program| move_onto_residual(program, 0),
        says: "where tensor 1 in halves must be",
        seen: Numbers,
    },
    Fault {
        name: "a buffer too short",
        network: residual,
        // Its last line is another buffer's.
        plant: |program| move_onto_residual(program, RESIDUAL_BYTES - 256),
        says: "where tensor 1 in halves must be",
        seen: Numbers,
    },
    Fault {
        name: "an output copied from an older step",
        network: residual,
        plant: |program| {
            let list = list(program, 0);
            let older = conv_where(list, |conv| conv.residual != 0).output.address;
            // That of the newest has the same shape.
            output(list, 1).source = older;
        },
        says: "where tensor 1 in halves must be; there is tensor 3 in halves",
        seen: Numbers,
    },
    Fault {
        name: "two members' slots exchanged",
        network: residual,
        plant: |program| members(program, 1, "members_in", 0).members.swap(0, 1),
        says: "for member 0",
        seen: Numbers,
    },
    Fault {
        name: "a carried tensor written to a slot that is still read",
        network: every_operator,
        plant: |program| write_to_slot_of(program, 1),
        says: "tensor 3 is there, and stage 2 still reads it",
        // What should have been carried is missing.
        seen: Access,
    },
    Fault {
        name: "a carried tensor written to a slot that its stage has read",
        network: every_operator,
        plant: |program| write_to_slot_of(program, 0),
        says: "which its stage has read",
        seen: Access,
    },
    Fault {
        name: "a carried tensor leaves before it is written",
        network: residual,
        plant: |program| come_early(program, "members_out"),
        says: "carries tensor 4 in halves, which its stage does not",
        seen: Numbers,
    },
    Fault {
        name: "a read of an unwritten buffer",
        network: residual,
        plant: |program| {
            let list = list(program, 0);
            let end = list.workspace_bytes;
            list.workspace_bytes += 1 << 20;
            conv_where(list, |conv| conv.residual != 0).residual =
                Place::Workspace { offset: end }.encode();
        },
        says: "there is nothing that anybody wrote",
        seen: Access,
    },
    Fault {
        name: "operands exchanged",
        network: arithmetic,
        plant: |program| {
            let both = elementwise(list(program, 0));
            std::mem::swap(&mut both.first, &mut both.second);
        },
        says: "must be; there is tensor",
        seen: Numbers,
    },
    Fault {
        name: "a join at the wrong offset",
        network: copies,
        plant: |program| {
            let mut steps = list(program, 1).steps.iter_mut();
            let copy = steps.find_map(|step| match step.arguments_mut() {
                Arguments::Copy(copy) if copy.first_column == 20 => Some(copy),
                _ => None,
            });
            copy.expect("tokens of another level").first_column = 19;
        },
        says: "with another place than the network says",
        seen: Numbers,
    },
    Fault {
        name: "a partial sum added before it is written",
        network: residual,
        plant: |program| come_early(program, "conv_reduce"),
        says: "where sums of the operator at position 1",
        seen: Access,
    },
    Fault {
        name: "outputs exchanged",
        network: residual,
        plant: |program| {
            let list = list(program, 0);
            let (first, second) = (output(list, 1).source, output(list, 2).source);
            (output(list, 1).source, output(list, 2).source) = (second, first);
        },
        says: "reads bytes",
        seen: Numbers,
    },
    Fault {
        name: "counts of an output not written",
        network: residual,
        // The second output's counts land where the first one's are.
        plant: |program| output(list(program, 0), 1).first_count = 0,
        says: "with another counts of values that are not finite",
        seen: Numbers,
    },
    Fault {
        name: "a part of the channels left out",
        network: residual,
        plant: |program| {
            let conv = conv_where(list(program, 0), |conv| conv.channel_count == 32);
            conv.channel_count = 24;
        },
        says: "made up to 24",
        seen: Access,
    },
    Fault {
        name: "weights of another operator",
        network: residual,
        plant: |program| {
            let mut steps = list(program, 0).steps.iter_mut();
            let mut summing = || {
                let found = steps.find_map(|step| match step.arguments_mut() {
                    Arguments::Conv(conv) if conv.input.channels == 32 && conv.weights != 0 => {
                        Some(conv)
                    }
                    _ => None,
                });
                found.expect("two convolutions of one shape")
            };
            let (first, second) = (summing(), summing());
            std::mem::swap(&mut first.weights, &mut second.weights);
        },
        says: "those of another operator or other channels",
        seen: Numbers,
    },
    Fault {
        name: "weights of another operator, where several have the same",
        network: pyramid,
        plant: |program| {
            let scores = conv_where(list(program, 0), is_scores);
            let weights = scores.weights;
            nth_tower(list(program, 0), 1).weights = weights;
        },
        says: "those of another operator or other channels",
        seen: Numbers,
    },
    Fault {
        name: "a residual left out",
        network: residual,
        plant: |program| conv_where(list(program, 0), |conv| conv.residual != 0).residual = 0,
        says: "does not read tensor 1",
        seen: Numbers,
    },
    Fault {
        name: "a layer's second launch that forgets the state",
        network: || networks::recurrent(12, 1200),
        plant: |program| {
            let mut steps = list(program, 0).steps.iter_mut();
            let layer = steps.find_map(|step| match step.arguments_mut() {
                Arguments::Recurrent(layer) if layer.first_step > 0 => Some(layer),
                _ => None,
            });
            layer.expect("a second launch").state = 0;
        },
        says: "does not read the state of the operator at position 1 after",
        seen: NotRun,
    },
    Fault {
        name: "answers of other scores",
        network: every_operator,
        plant: |program| {
            let list = list(program, 2);
            let other = list
                .steps
                .iter_mut()
                .find_map(|step| match step.arguments_mut() {
                    Arguments::Linear(linear) if linear.output != 0 => Some(linear.output),
                    _ => None,
                });
            let last = list.steps.last_mut().expect("answers").arguments_mut();
            let Arguments::Answers(answers) = last else {
                panic!("a list ends in answers");
            };
            answers.scores = other.expect("a layer that is no exit");
        },
        says: "in floats must be",
        seen: Numbers,
    },
];

/// Whether it is of a level of a pyramid, and its last.
fn is_scores(conv: &Conv) -> bool {
    (conv.input.channels, conv.kernel_height) == (16, 1) && conv.weights != 0
}

/// The convolution of features of a pyramid's level.
fn nth_tower(list: &mut LaunchList, level: usize) -> &mut Conv {
    let steps = list.steps.iter_mut();
    let towers = steps.filter_map(|step| match step.arguments_mut() {
        Arguments::Conv(conv) if conv.input.channels == 16 && conv.kernel_height == 3 => {
            Some(conv).filter(|conv| conv.weights != 0)
        }
        _ => None,
    });
    let mut towers: Vec<_> = towers.collect();
    towers.swap_remove(level)
}

/// With a second and a third output: the first and the last tensor of 32 channels.
fn residual() -> Network {
    let mut network = networks::residual(3);
    for stage in &mut network.stages {
        let operators = stage.operators.iter().map(|operator| operator.output);
        let wide =
            |tensor: &_| network.tensors[punctual_model::TensorId::index(*tensor)].channels == 32;
        let wide: Vec<_> = operators.filter(wide).collect();
        let exit = stage.exit.as_mut().expect("an exit");
        for (name, tensor) in [("first", wide[0]), ("last", wide[2])] {
            let sides = network.tensors[tensor.index()].sides();
            exit.outputs.push(Output {
                name: name.to_owned(),
                tensor,
                shape: sides.to_vec(),
                view: View::plain(sides),
                element: Element::F32,
            });
        }
    }
    assert_eq!(network.validate(), Ok(()));
    network
}

fn every_operator() -> Network {
    networks::every_operator(3)
}

fn arithmetic() -> Network {
    networks::arithmetic(3)
}

fn copies() -> Network {
    networks::copies(3)
}

fn list(program: &mut Program, stage: usize) -> &mut LaunchList {
    &mut program.stages[stage].lists[0]
}

fn conv_where(list: &mut LaunchList, is_it: impl Fn(&Conv) -> bool) -> &mut Conv {
    let mut steps = list.steps.iter_mut();
    let found = steps.find_map(|step| match step.arguments_mut() {
        Arguments::Conv(conv) if is_it(conv) => Some(conv),
        _ => None,
    });
    found.expect("such a convolution")
}

/// The first launch of a kernel comes before that which it follows.
fn come_early(program: &mut Program, kernel: &str) {
    let steps = &mut list(program, 0).steps;
    let at = steps.iter().position(|step| step.kernel.name == kernel);
    let at = at.expect("it has that launch");
    steps.swap(at - 1, at);
}

/// The second stage carries out to where the first one has carried its tensor of this number.
fn write_to_slot_of(program: &mut Program, number: usize) {
    let slots = members(program, 0, "members_out", number).members;
    members(program, 1, "members_out", 0).members = slots;
    // Its own tensor may be larger.
    program.request_bytes += 1 << 16;
}

fn members<'p>(
    program: &'p mut Program,
    stage: usize,
    kernel: &str,
    number: usize,
) -> &'p mut Members {
    let steps = list(program, stage).steps.iter_mut();
    let mut steps = steps.filter(|step| step.kernel.name == kernel);
    match steps.nth(number).expect("it carries").arguments_mut() {
        Arguments::Members(members) => members,
        other => panic!("{other:?}"),
    }
}

fn output(list: &mut LaunchList, number: usize) -> &mut OutputParams {
    let steps = list.steps.iter_mut();
    let mut outputs = steps.filter_map(|step| match step.arguments_mut() {
        Arguments::Output(output) => Some(output),
        _ => None,
    });
    outputs.nth(number).expect("so many outputs")
}

/// The first function of two tensors where their order matters.
fn elementwise(list: &mut LaunchList) -> &mut punctual_cuda_kernels::params::Elementwise {
    let subtract = punctual_cuda_kernels::params::Function::Subtract as u32;
    let mut steps = list.steps.iter_mut();
    let found = steps.find_map(|step| match step.arguments_mut() {
        Arguments::Elementwise(both) if both.function == subtract => Some(both),
        _ => None,
    });
    found.expect("a difference")
}

/// The first residual goes behind everything else. What is written while it waits to be added goes `bytes` bytes behind its
/// start.
fn move_onto_residual(program: &mut Program, bytes: u64) {
    let list = list(program, 0);
    let added = *conv_where(list, |conv| conv.residual != 0);
    let summed = conv_where(list, |conv| {
        let is_other = conv.input.address != added.residual;
        is_other && conv.input.channels == 32 && conv.weights != 0
    });
    let (residual, between) = (added.residual, summed.input.address);
    let end = list.workspace_bytes;
    list.workspace_bytes += bytes + RESIDUAL_BYTES;
    let mut is_needed = true;
    for step in &mut list.steps {
        let before = *step.arguments_mut();
        step.arguments_mut().for_each_address(&mut |address| {
            let offset = match *address {
                own if own == residual => end,
                own if own == between && is_needed => end + bytes,
                _ => return,
            };
            *address = Place::Workspace { offset }.encode();
        });
        // What lies at these places at other times stays there.
        if let (Arguments::Conv(conv), Arguments::Conv(before)) = (step.arguments_mut(), before) {
            conv.partial = before.partial;
            is_needed &= before.input.address != between;
        }
    }
}

fn lowered(network: &Network, layout: &OutputLayout) -> Program {
    let target = Target {
        multiprocessors: 132,
        compute_capability: (8, 7),
        page_bytes: 1 << 20,
    };
    // Sums in parts, wherever there can be.
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let choices = (0..).zip(operators).filter_map(|(operator, _)| {
        let candidates = lower::candidates(network, operator, BATCH, &target).expect("lowers");
        let in_parts = candidates.iter().find(|candidate| candidate.splits > 1)?;
        Some(SolutionChoice {
            operator,
            batch: BATCH,
            units: 1,
            solution: in_parts.name(),
        })
    });
    let choices: Vec<_> = choices.collect();
    Program::with_outputs(network, Some(layout), &[BATCH], &target, &choices).expect("lowers")
}

/// All that the stages give, or nothing if the interpreter refuses an access.
fn run(network: &Network, program: &Program) -> Option<Vec<Vec<u8>>> {
    let images: Vec<_> = (0..BATCH)
        .map(|seed| networks::image(network, seed.into()))
        .collect();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut memory = Memory::new(network, program, &images);
        let mut given = Vec::new();
        for stage in 0..network.stages.len() {
            for scores in memory.run(program, stage, BATCH) {
                given.push(
                    scores
                        .iter()
                        .flat_map(|score| score.to_ne_bytes())
                        .collect(),
                );
            }
            let counts = (0..BATCH).map(|member| memory.answer(member.into()).not_finite);
            given.extend(counts.map(|count| count.to_ne_bytes().to_vec()));
            given.extend((0..BATCH).map(|member| memory.outputs(program, stage, member.into())));
        }
        given
    }));
    ran.ok()
}

#[test]
fn the_checker_finds_every_planted_fault_and_says_what_is_wrong() {
    for fault in FAULTS {
        let network = (fault.network)();
        let layout = OutputLayout::of(&network, |_| true);
        let mut program = lowered(&network, &layout);
        assert_eq!(program.check(&network, Some(&layout)), Ok(()));
        (fault.plant)(&mut program);
        let found = program.check(&network, Some(&layout));
        let Err(LowerError::Unsound { violation, .. }) = found else {
            panic!("{}: {found:?}", fault.name);
        };
        let text = violation.to_string();
        println!("{}: {text}", fault.name);
        assert!(text.contains(fault.says), "{}: {text}", fault.name);
    }
}

#[test]
fn numbers_or_the_interpreter_show_planted_faults_too() {
    println!("| fault | running it shows |\n|---|---|");
    let mut good = BTreeMap::new();
    for fault in FAULTS {
        if fault.seen == NotRun {
            continue;
        }
        let network = (fault.network)();
        let layout = OutputLayout::of(&network, |_| true);
        let mut program = lowered(&network, &layout);
        let good = good
            .entry(network.name.clone())
            .or_insert_with(|| run(&network, &program).expect("it runs"));
        (fault.plant)(&mut program);
        let seen = match run(&network, &program) {
            None => Some(Access),
            Some(found) => (found != *good).then_some(Numbers),
        };
        println!("| {} | {seen:?} |", fault.name);
        assert_eq!(seen, Some(fault.seen), "{}", fault.name);
    }
}

/// Several stages have the same convolution, which is cut over pages.
#[test]
fn a_read_of_another_page_is_found_in_each_of_the_stages_that_have_the_same_weights() {
    let network = chain(3);
    let target = Target {
        multiprocessors: 8,
        compute_capability: (8, 7),
        page_bytes: 4096,
    };
    let program = Program::lower(&network, &[BATCH], &target, &[]).expect("lowers");
    assert_eq!(program.check(&network, None), Ok(()));
    for stage in 0..3 {
        let mut first = program.clone();
        let convs = list(&mut first, stage).steps.iter_mut();
        let convs = convs.filter_map(|step| match step.arguments_mut() {
            Arguments::Conv(conv) if conv.input.channels == 16 => Some(conv),
            _ => None,
        });
        let mut convs: Vec<_> = convs.collect();
        let [lower, upper] = &mut convs[..] else {
            panic!("{} parts", convs.len());
        };
        assert_ne!(lower.weights, upper.weights);
        // The other half of the channels, which lies in another page.
        lower.weights = upper.weights;
        let found = first.check(&network, None);
        let Err(LowerError::Unsound { violation, .. }) = found else {
            panic!("stage {stage}: {found:?}");
        };
        let text = violation.to_string();
        assert!(
            text.contains("those of another operator or other channels"),
            "stage {stage}: {text}"
        );
    }
}

/// So that the faults above are faults of one operator alone.
#[test]
fn operators_that_have_the_same_weights_read_them_from_one_place() {
    let network = pyramid();
    let layout = OutputLayout::of(&network, |_| true);
    let mut program = lowered(&network, &layout);
    let first = nth_tower(list(&mut program, 0), 0).weights;
    for level in 1..3 {
        assert_eq!(nth_tower(list(&mut program, 0), level).weights, first);
    }
}
