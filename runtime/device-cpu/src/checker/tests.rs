//! Faults that are planted in executables: the checker finds each, and so does a run on overwritten memory that is compared
//! with the reference, but for those of which the table says why not. Two kinds are not the checker's matter, as they are in
//! no executable: a kernel that leaves its halo as it was, and two members of a batch that are exchanged. The kernels' own
//! tests and verification find these.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_conformance::networks;
use punctual_kernels::{Gather, Isa};
use punctual_model::{OutputLayout, reference};

use super::*;
use crate::Evaluator;
use crate::executable::{ByRows, OutputPlan};
use crate::lower::lower;
use crate::model::LoadedModel;
use crate::shared::Operands;

/// As narrow as NEON's: the most blocks.
const ISA: Isa = Isa::Scalar;

fn lowered(network: &Network) -> LoadedModel {
    let layout = OutputLayout::of(network, |_| true);
    lower(ISA, network, Some(&layout)).expect("lowers")
}

fn checked(network: &Network, model: &LoadedModel) -> Result<(), Violation> {
    let lanes = ISA.lanes();
    let mut checker = Checker::new(network, &model.input, model.request_floats, lanes);
    let mut stages = network.stages.iter().zip(&model.stages);
    stages.try_for_each(|(stage, executable)| checker.stage(stage, executable))
}

/// Whether the model runs and gives what the interpreter gives, on memory in which nothing is left from before.
fn is_right(network: &Network, model: LoadedModel) -> bool {
    let inputs: Vec<Vec<f32>> = network
        .input_tensors()
        .map(|tensor| {
            let mut random = punctual_types::Random::new(u64::from(tensor.0) + 9);
            let elements = network.tensors[tensor.index()].elements();
            (0..elements).map(|_| random.signed_unit()).collect()
        })
        .collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let run = || {
        let (mut evaluator, _) = Evaluator::of(ISA, network, model, 1, 1, &[]).expect("starts");
        evaluator.poison();
        evaluator.load(&inputs[..1]);
        evaluator.load_vectors(0, &inputs[1..]);
        evaluator.exits(1)
    };
    let Ok(found) = catch_unwind(AssertUnwindSafe(run)) else {
        return false;
    };
    let expected = reference::run_all(network, &inputs);
    let pairs = expected.iter().zip(found);
    let mut pairs = pairs.filter_map(|(expected, found)| Some((expected.as_ref()?, found)));
    pairs.all(|(expected, found)| {
        let result = &found[0];
        let floats = |bytes: &Vec<u8>| {
            bytes
                .as_chunks()
                .0
                .iter()
                .copied()
                .map(f32::from_ne_bytes)
                .collect()
        };
        let outputs: Vec<Vec<f32>> = result.outputs.iter().map(floats).collect();
        near(&result.scores, &expected.scores)
            && outputs
                .iter()
                .zip(&expected.outputs)
                .all(|(a, b)| near(a, b))
    })
}

/// NaN is near nothing.
fn near(found: &[f32], expected: &[f32]) -> bool {
    let mut pairs = found.iter().zip(expected);
    found.len() == expected.len() && pairs.all(|(a, b)| (a - b).abs() <= 1e-3 * b.abs().max(1.0))
}

/// A fault in what was planned or lowered.
struct Fault {
    name: &'static str,
    plant: fn(&mut LoadedModel),
    run: Run,
}

/// What a run shows of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Wrong,
    /// This network does not show it, for the reason that stands next to the fault.
    Right,
}

fn step(stage: &mut Executable, name: &str) -> usize {
    let found = stage.steps.iter().position(|step| step.name == name);
    found.unwrap_or_else(|| panic!("no step is named {name}"))
}

/// The step of that name with other places.
fn relocate(stage: &mut Executable, name: &str, change: impl Fn(&mut [Operand], &mut Span)) {
    let at = step(stage, name);
    let mut inputs = stage.steps[at].operands.inputs().to_vec();
    let mut output = stage.steps[at].operands.output();
    change(&mut inputs, &mut output);
    stage.steps[at].operands = Operands::new(inputs, output);
}

/// Makes all steps that read at `from` read at `to` instead.
fn read_elsewhere(stage: &mut Executable, from: usize, to: usize) {
    let names: Vec<String> = stage.steps.iter().map(|step| step.name.clone()).collect();
    for name in names {
        relocate(stage, &name, |inputs, _| {
            for input in inputs.iter_mut().filter(|input| input.span.start == from) {
                input.span.start = to;
            }
        });
    }
}

fn outputs(stage: &mut Executable) -> &mut [OutputPlan] {
    &mut stage.exit.as_mut().expect("it has an exit").outputs
}

/// Of [`networks::heads`]: tensors 5 and 6 are joined to 7, of 8 to 10 the first and the last are given back, 7 and 10 are
/// carried to the second stage, where 15 and 16 are of equal size.
const FAULTS: &[Fault] = &[
    Fault {
        name: "a place is given away while somebody still reads the tensor there",
        plant: |model| {
            let stage = &mut model.stages[0];
            let product = step(stage, "operator 9");
            let to = stage.steps[product].operands.output().start;
            let copy = step(stage, "zeros around");
            let from = stage.steps[copy].operands.output().start;
            relocate(stage, "zeros around", |_, output| output.start = to);
            read_elsewhere(stage, from, to);
        },
        run: Run::Wrong,
    },
    Fault {
        name: "a place is given away before an output is copied from it",
        plant: |model| {
            let stage = &mut model.stages[1];
            relocate(stage, "operator 19", |_, output| output.start = 0);
            let exit = stage.exit.as_mut().expect("it has an exit");
            exit.scores.as_mut().expect("it has scores").0.start = 0;
        },
        run: Run::Wrong,
    },
    Fault {
        name: "a source is joined one block too far",
        plant: |model| {
            relocate(&mut model.stages[0], "operator 5", |_, output| {
                output.start += 400
            });
        },
        run: Run::Wrong,
    },
    Fault {
        name: "what does not lie in a concatenation yet is not moved there",
        plant: |model| {
            let stage = &mut model.stages[0];
            let at = step(stage, "operator 7");
            stage.steps.remove(at);
            for output in outputs(stage) {
                output.step = output.step.map(|step| step - usize::from(step > at));
            }
        },
        run: Run::Wrong,
    },
    Fault {
        name: "a slice begins one channel too early",
        plant: |model| {
            let stage = &mut model.stages[0];
            let at = step(stage, "operator 10");
            let Some(kernel) = stage.steps[at].kernel.gather() else {
                panic!("a slice is a gather");
            };
            let mut spec = kernel.spec().clone();
            spec.runs[0].first -= 1;
            stage.steps[at].kernel = Box::new(Gather::new(ISA, &spec).expect("it fits"));
        },
        run: Run::Wrong,
    },
    Fault {
        name: "an output is copied from the rows of another step",
        plant: |model| {
            let stage = &mut model.stages[1];
            let at = step(stage, "operator 16");
            outputs(stage)[3].step = Some(at);
            stage.steps[at].by_rows = stage.steps[at - 1].by_rows;
        },
        run: Run::Wrong,
    },
    Fault {
        name: "an output is copied from one block on",
        plant: |model| outputs(&mut model.stages[0])[1].span.start += 400,
        run: Run::Wrong,
    },
    Fault {
        name: "an output is another tensor's than the exit says",
        plant: |model| {
            let [.., joined, mixed, _] = outputs(&mut model.stages[0]) else {
                panic!("four outputs");
            };
            std::mem::swap(&mut joined.value, &mut mixed.value);
        },
        // Values are copied by place when the outputs are planned.
        run: Run::Right,
    },
    Fault {
        name: "two outputs are written to the same place",
        plant: |model| {
            let outputs = outputs(&mut model.stages[0]);
            outputs[1].offset = outputs[2].offset;
        },
        run: Run::Wrong,
    },
    Fault {
        name: "rows are not kept that somebody reads",
        plant: |model| {
            let stage = &mut model.stages[1];
            let at = step(stage, "operator 15");
            stage.steps[at].by_rows = Some(ByRows::new(&stage.steps[at], false));
        },
        // All rows of so small a tensor are one piece, which lies where it should.
        run: Run::Right,
    },
    Fault {
        name: "a stage reads what was carried to it at the place of something else",
        plant: |model| {
            relocate(&mut model.stages[1], "operator 15", |inputs, _| {
                inputs[1].span.start = 2448;
            });
        },
        run: Run::Wrong,
    },
    Fault {
        name: "a stage carries something over what it read itself",
        plant: |model| {
            relocate(&mut model.stages[0], "operator 10", |_, output| {
                output.start = 0
            });
            read_elsewhere(&mut model.stages[1], 2448, 0);
        },
        run: Run::Wrong,
    },
    Fault {
        name: "a vector is written one float too far",
        plant: |model| model.input.vectors[0].offset += 1,
        run: Run::Wrong,
    },
    Fault {
        name: "planes are written one column too far",
        plant: |model| model.input.offset += 1,
        run: Run::Wrong,
    },
    Fault {
        name: "the copy with zeros around it is of another vector",
        plant: |model| {
            relocate(&mut model.stages[0], "zeros around", |inputs, _| {
                inputs[0].span.start = 304;
            });
        },
        run: Run::Wrong,
    },
    Fault {
        name: "class scores are read four floats too early",
        plant: |model| {
            let exit = model.stages[1].exit.as_mut().expect("it has an exit");
            exit.scores.as_mut().expect("it has scores").0.start -= 4;
        },
        run: Run::Wrong,
    },
    Fault {
        name: "operands are exchanged",
        plant: |model| {
            relocate(&mut model.stages[1], "operator 16", |inputs, _| {
                inputs.swap(0, 1)
            });
        },
        // It is a sum.
        run: Run::Right,
    },
    Fault {
        name: "operators are exchanged",
        plant: |model| model.stages[1].steps.swap(0, 1),
        run: Run::Wrong,
    },
    Fault {
        name: "a step says that it makes what another operator makes",
        plant: |model| {
            let made = model.stages[1].steps[0].made;
            model.stages[1].steps[1].made = made;
        },
        // Outputs have found their steps already.
        run: Run::Right,
    },
    Fault {
        name: "a member's workspace is too small",
        plant: |model| model.stages[1].workspace_floats -= 32,
        run: Run::Wrong,
    },
];

#[test]
fn each_planted_fault_is_found_by_the_checker_and_by_a_run_or_the_table_says_why_not() {
    let network = networks::heads(5);
    for fault in FAULTS {
        let mut model = lowered(&network);
        (fault.plant)(&mut model);
        let violation = checked(&network, &model);
        assert!(violation.is_err(), "{}: the checker", fault.name);
        let right = is_right(&network, model);
        assert_eq!(right, fault.run == Run::Right, "{}: the run", fault.name);
        println!("{}: {}", fault.name, violation.expect_err("as above"));
    }
}

#[test]
fn what_is_lowered_passes_the_checker_and_a_run_on_overwritten_memory() {
    for network in [
        networks::heads(5),
        networks::gathers(5),
        networks::every_operator(5),
    ] {
        let model = lowered(&network);
        assert_eq!(checked(&network, &model), Ok(()), "{}", network.name);
        assert!(is_right(&network, model), "{}", network.name);
    }
}

#[test]
fn planes_of_another_slice_of_the_input_are_found_by_the_checker_and_by_a_run() {
    let network = networks::stacked(5);
    let mut model = lowered(&network);
    assert_eq!(checked(&network, &model), Ok(()));
    let plane = model.input.plane_stride;
    let reads_two_planes = |step: &&Step| step.operands.inputs()[0].span.len == 2 * plane;
    let step = model.stages[0].steps.iter().find(reads_two_planes);
    let name = step.expect("a slice is read as planes").name.clone();
    relocate(&mut model.stages[0], &name, |inputs, _| {
        inputs[0].span.start += plane;
    });
    checked(&network, &model).expect_err("other channels");
    assert!(!is_right(&network, model));
}
