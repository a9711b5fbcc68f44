//! What exits answer with: any tensor, several times, in another order, as other elements.

use punctual_model::{AnswerKind, Exit, Network, Output, ScoreForm, Scores, TensorId};
use punctual_types::{Axis, Element, Random, View};

use super::super::drawing::{any, below, index, pick};
use super::super::graph;

/// A whole tensor in its own order.
pub(super) fn plain(network: &Network, tensor: TensorId, element: Element) -> Output {
    let sides = network.tensors[tensor.index()].sides();
    Output {
        name: format!("output {}", tensor.0),
        tensor,
        shape: sides.to_vec(),
        view: View::plain(sides),
        element: match network.quantisation(tensor) {
            Some(of) => Element::U8 {
                scale: of.scale,
                zero: of.zero,
            },
            None => element,
        },
    }
}

pub(super) fn change(network: &mut Network, random: &mut Random) -> Option<String> {
    let stages = network.stages.iter().enumerate();
    let exits = stages.filter(|(_, stage)| stage.exit.is_some());
    let exits: Vec<usize> = exits.map(|(at, _)| at).collect();
    let stage = any(&exits, random)?;
    let end = network.stages[stage].operators.len();
    let there = graph::written_before(network, (stage, end));
    let tensor = any(&there, random)?;
    let name = format!("exit of stage {stage}");
    match random.below(10) {
        0..=3 => add(network, stage, tensor, random),
        4..=6 => review(network, stage, random)?,
        7 => {
            let exit = network.stages[stage].exit.as_mut()?;
            exit.confidence = match exit.confidence {
                None => Some(tensor),
                Some(_) => None,
            };
        }
        8 => {
            let classes = network.tensors[tensor.index()].channels;
            let exit = network.stages[stage].exit.as_mut()?;
            let form = [
                ScoreForm::Softmax,
                ScoreForm::Sigmoid,
                ScoreForm::Probability,
            ];
            let form = pick(&form, random);
            exit.scores = Some(Scores { tensor, form });
            network.answer = AnswerKind::Labels;
            network.classes = (0..classes).map(|class| format!("class {class}")).collect();
        }
        _ if stage + 1 < network.stages.len() => network.stages[stage].exit = None,
        _ => return None,
    }
    Some(format!("{name} is {:?}", network.stages[stage].exit))
}

/// A further output of an exit, and of all others, since exits answer alike.
fn add(network: &mut Network, stage: usize, tensor: TensorId, random: &mut Random) {
    let elements = [Element::F32, Element::F32, Element::I32, Element::Bool];
    let element = pick(&elements, random);
    let name = format!("further {}", random.below(100));
    for at in 0..network.stages.len() {
        let local = network.stages[at].operators.iter();
        let local: Vec<TensorId> = local.map(|operator| operator.output).collect();
        let tensor = if at == stage {
            tensor
        } else {
            any(&local, random).unwrap_or(tensor)
        };
        let output = Output {
            name: name.clone(),
            ..plain(network, tensor, element)
        };
        if let Some(Exit { outputs, .. }) = &mut network.stages[at].exit {
            outputs.push(output);
        }
    }
}

/// Another view of what an exit answers with: another order, a part, the same again.
fn review(network: &mut Network, stage: usize, random: &mut Random) -> Option<()> {
    let exit = network.stages[stage].exit.as_mut()?;
    let at = index(exit.outputs.len(), random);
    let output = &mut exit.outputs[at];
    let sides = network.tensors.get(output.tensor.index())?.sides();
    let digits = &mut output.view.digits;
    let (a, b) = (index(digits.len(), random), index(digits.len(), random));
    match random.below(5) {
        0 | 1 => digits.swap(a, b),
        2 => {
            let digit = digits.get_mut(a)?;
            digit.extent = 1 + below(digit.extent, random);
            let axis = digit.axis.index()?;
            let room = sides[axis].saturating_sub(digit.extent) + 1;
            output.view.start[axis] = below(room, random);
        }
        3 => digits.get_mut(a)?.axis = Axis::Repeat,
        _ => digits.get_mut(a)?.step = below(3, random),
    }
    let digits = output.view.digits.iter();
    output.shape = digits.map(|digit| digit.extent).collect();
    Some(())
}

/// Outputs whose tensors have other shapes or elements now are these as a whole; scores have a class each.
pub(super) fn repair(network: &mut Network) {
    for at in 0..network.stages.len() {
        let Some(mut exit) = network.stages[at].exit.take() else {
            continue;
        };
        for output in &mut exit.outputs {
            let Some(shape) = network.tensors.get(output.tensor.index()) else {
                continue;
            };
            let bytes = network.quantisation(output.tensor).is_some();
            let of_bytes = matches!(output.element, Element::U8 { .. } | Element::I8 { .. });
            let whole = plain(network, output.tensor, Element::F32);
            if bytes || of_bytes {
                output.element = whole.element;
            }
            if !output.view.lies_in(shape.sides()) || output.shape.len() == 1 {
                let rank = output.shape.len();
                (output.shape, output.view) = (whole.shape, whole.view);
                if rank == 1 {
                    output.shape = vec![output.shape.iter().product()];
                }
            }
        }
        if let Some(scores) = exit.scores
            && let Some(shape) = network.tensors.get(scores.tensor.index())
            && at + 1 == network.stages.len()
        {
            let classes = shape.channels.min(4096);
            network.classes = (0..classes).map(|class| format!("class {class}")).collect();
        }
        network.stages[at].exit = Some(exit);
    }
}
