//! The outputs that tasks want, and where they lie.

use punctual_core::Answers;
use punctual_diagnostics::{Bytes, Place, Problems, Rule};
use punctual_model::{Network, Output, OutputLayout};
use punctual_types::AREA_BYTES_MAX;
use thiserror::Error;

use super::models::Model;
use super::offload::taker;
use super::tasks::Task;
use crate::manifest::RawTask;

/// What is wrong with the outputs that a task wants.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OutputRule {
    #[error("the network of model {model:?} has no output {name:?}, it has {known}")]
    Unknown {
        model: String,
        name: String,
        /// All of them, with elements and shapes.
        known: String,
    },
    /// More than an area can hold.
    #[error("the outputs of one frame take {}, more than {}", Bytes(*bytes), Bytes(AREA_BYTES_MAX.into()))]
    TooLarge { bytes: u64 },
    /// A threshold for a confidence that there is none of.
    #[error("the exits of model {model:?} say nothing of confidence, and the task has `{key}`")]
    NoConfidence { model: String, key: &'static str },
}

impl Rule for OutputRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "a task's outputs are the network's",
            Self::TooLarge { .. } => "the outputs of a frame fit into an area",
            Self::NoConfidence { .. } => {
                "without confidence, how deep a frame goes depends on time alone"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Unknown { .. } => "name outputs of the list, or [] for none".into(),
            Self::TooLarge { .. } => {
                "name fewer in `outputs`, reduce them in the network (e.g. by ArgMax), or write answers = \"final\": \
                 an area then has room for two exits, not for all"
                    .into()
            }
            Self::NoConfidence { key, .. } => format!("remove `{key}`"),
        }
    }
}

/// The names of the outputs that a task wants, in the network's order; none if something is wrong with them.
pub(super) fn wanted(
    raw: &RawTask,
    model: &Model<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<String>> {
    let network = model.package.network();
    let before = problems.count();
    let place = match &raw.outputs {
        Some(at) => &at.place,
        None => &raw.place,
    };
    if let Some(named) = &raw.outputs {
        let unknown = |name: &&String| network.output_names().all(|known| known != name.as_str());
        for name in named.value.iter().filter(unknown) {
            let (model, known) = (model.name.clone(), all_of(network));
            let name = name.clone();
            problems.add(place, OutputRule::Unknown { model, name, known });
        }
    }
    let wants = |name: &str| match &raw.outputs {
        Some(named) => named.value.iter().any(|wanted| wanted == name),
        None => network.gives_outputs_by_default(),
    };
    let names = network.output_names().filter(|name| wants(name));
    let names: Vec<String> = names.map(str::to_owned).collect();
    (problems.count() == before).then_some(names)
}

/// How many records a frame gets at most: where each answer is delivered, one for each exit that counts.
pub(super) fn records(answers: Answers, mandatory: u8, network: &Network) -> u8 {
    if answers != Answers::EachExit {
        return 1;
    }
    let stages = network.stages.iter().skip(mandatory.into());
    stages.filter(|stage| stage.exit.is_some()).count().max(1) as u8
}

/// Notes thresholds of a network that has no confidence.
pub(super) fn check_thresholds(raw: &RawTask, model: &Model<'_>, problems: &mut Problems<'_>) {
    if model.package.network().has_confidence() {
        return;
    }
    for (key, place) in &raw.thresholds {
        let model = model.name.clone();
        problems.add(place, OutputRule::NoConfidence { model, key });
    }
}

/// By model: where the outputs lie that any of its tasks wants. The areas of tasks that want some are noted with them.
pub(super) fn layouts(
    models: &[Model<'_>],
    tasks: &mut [Task],
    problems: &mut Problems<'_>,
) -> Vec<OutputLayout> {
    let layouts = models.iter().enumerate().map(|(position, model)| {
        let users = || tasks.iter().filter(|task| task.model == position);
        let wanted = |name: &str| {
            let mut all = users().flat_map(|task| &task.outputs);
            all.any(|wanted| wanted == name)
        };
        let network = model.package.network();
        if deliver_each_exit(tasks, position) {
            OutputLayout::of_each_exit(network, wanted)
        } else {
            OutputLayout::of(network, wanted)
        }
    });
    let layouts: Vec<OutputLayout> = layouts.collect();
    for task in tasks.iter_mut().filter(|task| !task.outputs.is_empty()) {
        let bytes = layouts[task.model].area_bytes;
        if bytes > u64::from(AREA_BYTES_MAX) {
            problems.add(&task.outputs_place, OutputRule::TooLarge { bytes });
        }
        task.area_bytes = bytes;
    }
    layouts
}

/// Whether the model at this position answers a task whose clients get the answer of each exit: its own, or one that offloads
/// frames to it.
fn deliver_each_exit(tasks: &[Task], position: usize) -> bool {
    tasks.iter().any(|task| {
        let taker = taker(task, tasks);
        let models = [Some(task.model), taker.map(|it| tasks[it.index()].model)];
        task.answers == Answers::EachExit && models.contains(&Some(position))
    })
}

/// Whether answers of either model, by position, have the same outputs at the same places.
pub(crate) fn are_alike(
    models: &[Model<'_>],
    layouts: &[OutputLayout],
    one: usize,
    other: usize,
) -> bool {
    let described = |model: usize| -> Vec<_> {
        let stages = models[model].package.network().stages.iter();
        let stages = stages.zip(&layouts[model].stages);
        let outputs = stages.flat_map(|(stage, placed)| {
            let exit = stage.exit.iter();
            exit.flat_map(|exit| {
                placed.outputs.iter().map(|placed| {
                    let Output {
                        name,
                        shape,
                        element,
                        ..
                    } = &exit.outputs[placed.output];
                    (name.clone(), shape.clone(), *element)
                })
            })
        });
        outputs.collect()
    };
    layouts[one] == layouts[other] && described(one) == described(other)
}

/// A network's outputs in words: `boxes (float32 [300, 4]), ...`.
fn all_of(network: &Network) -> String {
    let exit = network.stages.iter().find_map(|stage| stage.exit.as_ref());
    let outputs = exit.into_iter().flat_map(|exit| &exit.outputs);
    let words = outputs.map(|output| {
        let Output { name, shape, .. } = output;
        format!("{name} ({} {shape:?})", output.element.name())
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Bytes of what a client of the task is told of its answers, at most.
pub(super) fn description_bytes(network: &Network, wanted: &[String]) -> u64 {
    /// Of a number, and of the length of a string.
    const NUMBER: usize = 5;
    let name = |name: &str| name.len() + NUMBER;
    let classes = network.classes.iter().map(|class| name(class));
    let exits = network
        .stages
        .iter()
        .filter_map(|stage| stage.exit.as_ref());
    let outputs = exits.flat_map(|exit| &exit.outputs);
    let outputs = outputs.filter(|output| wanted.contains(&output.name));
    let outputs = outputs.map(|output| name(&output.name) + (5 + output.shape.len()) * NUMBER);
    let vectors = network.vectors.iter();
    let vectors = vectors.map(|vector| name(&vector.name) + 3 * NUMBER);
    let all: usize = classes.chain(outputs).chain(vectors).sum();
    // The form, the kind of answer, three lengths of lists, three numbers of the input.
    (all + (8 + network.stages.len()) * NUMBER) as u64
}

/// Where a task's outputs are named, or would be.
pub(super) fn place(raw: &RawTask) -> Place {
    let named = raw.outputs.as_ref().map(|at| &at.place);
    named.unwrap_or(&raw.place).clone()
}
