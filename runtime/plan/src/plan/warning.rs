//! What a plan allows, but somebody should know.

use punctual_core::{Config, Nanos, PolicySpec, TaskId};
use punctual_model::Promises;
use punctual_types::Size;
use serde::Serialize;
use thiserror::Error;

use crate::budget::{Budgeted, preemption};
use crate::inputs::{DeviceKind, Fact, PackageInput, PlanInputs, RECALLED};
use crate::manifest::{Manifest, Margins, RawTask};
use crate::resolve::{Model, Placed, Placement, Task};
use crate::versions::WhyNot;

/// Something to know about a plan.
#[derive(Clone, Debug, PartialEq, Error, Serialize)]
#[serde(rename_all = "kebab-case", tag = "warning")]
pub enum Warning {
    #[error(
        "core {core} runs a partition and the daemon's own threads: each frame's arrival delays the \
         stage that runs, and frames beyond the promised rates delay it unboundedly; give the \
         daemon a core of its own"
    )]
    SharedCore { core: u16 },
    #[error(
        "policy {policy:?} promises no deadlines: it is for comparison; frames may be late even at \
         the planned rates"
    )]
    NoPromises { policy: &'static str },
    #[error(
        "the host does not allow real-time priorities: the schedule holds only while the machine \
         is otherwise idle; grant CAP_SYS_NICE or an rtprio limit"
    )]
    NoRealtime,
    /// A task's clients share one reservation.
    #[error(
        "task {task:?} has {clients} clients that share one rate: frames of different clients \
         closer than {period} count as extra and are taken only while there is slack"
    )]
    SharedRate {
        task: String,
        clients: u16,
        period: Nanos,
    },
    /// A deeper exit that no frame reaches whose arrival and stages take as long as they may.
    #[error(
        "task {task:?} gets past exit {reachable} only with frames that take less than their budgets: by \
         these exit {next} takes {needed}, and its deadline leaves {available}"
    )]
    UnreachableExit {
        task: String,
        id: TaskId,
        /// Deepest exit that fits before the deadline by its budgets, alone.
        reachable: u8,
        next: u8,
        /// Arrival, dispatch and stages to that exit.
        needed: Nanos,
        available: Nanos,
    },
    /// Partitions of the GPU that are none.
    #[error(
        "this machine cannot confine {partitions} partitions of the GPU to their TPCs, only give them \
         priorities: each may delay the others by as long as it runs, which no budget includes"
    )]
    TpcsNotEnforced {
        /// How many partitions share the GPU.
        partitions: usize,
    },
    /// One figure for all stages: how long the longest takes.
    #[error(
        "the profile of model {model:?} does not say how long its stages take to stop: best-effort work on the GPU blocks real-time \
         work for its longest stage; `punctual profile` again gives a shorter bound"
    )]
    PreemptionUnmeasured { model: String },
    /// Stages are measured while no partition fills at the same time.
    #[error(
        "partition {partition:?} fills what real-time launches leave, and stages are measured without that: they may take \
         longer than their budgets by what both share of the memory's bandwidth"
    )]
    FillsUnmeasured { partition: String },
    /// A library that promises less than Punctual's own devices.
    #[error(
        "partition {partition:?} runs {library}: {}the memory that the library allocates is an estimate",
        lacking(*promises)
    )]
    OrtPromisesLess {
        partition: String,
        library: String,
        #[serde(skip)]
        promises: Promises,
    },
    /// Places that would only cost memory.
    #[error(
        "no place pays, so each task runs on its own partition only: beside busy neighbours stages take too long, or \
         places are too wide; choose other places, or remove them"
    )]
    NoPlacePays,
    #[error("{what} {name:?} is used by no task")]
    Unused { what: &'static str, name: String },
    #[error(
        "task {task:?}: its crop of {crop} is smaller than the network's input of {input} and is \
         magnified"
    )]
    MagnifiedCrop {
        task: String,
        /// The part of the frame that the network sees.
        crop: Size,
        input: Size,
    },
    /// What somebody installed is not what is served.
    #[error("{file:?} is newer than {taken:?}, which is served instead: {why}")]
    VersionPassedOver {
        file: String,
        taken: String,
        #[serde(flatten)]
        why: WhyNot,
    },
    /// A cache that no model needs.
    #[error(
        "`daemon.weight_cache` is not used: every model in use has a task with a reservation, and \
         its weights are resident"
    )]
    NothingToPage,
    /// Nothing measured of the exits' accuracy.
    #[error(
        "the package of model {model:?} has no calibration: deeper exits are assumed to be better, \
         and confidence to mean accuracy; compile it with records of a held-out set"
    )]
    NotCalibrated { model: String },
    /// A profile of an earlier version.
    #[error(
        "the profile of model {model:?} does not say whether its answers are right on this machine; `punctual profile MANIFEST` \
         again compares them with the reference interpreter's"
    )]
    NotVerified { model: String },
    /// Answers that follow from rounding alone.
    #[error(
        "nothing that model {model:?} answers could be verified: rounding decides all {undecided} values that were compared"
    )]
    NothingVerified { model: String, undecided: u64 },
    /// A setting of the machine that was another one when its profile was measured.
    #[error(
        "the profile of model {model:?} was measured with {setting} {measured:?}, and the machine has {now:?}: \
         stages may take longer than their budgets; set it back, or measure again with `punctual profile MANIFEST`"
    )]
    SettingChanged {
        model: String,
        setting: String,
        measured: String,
        now: String,
    },
    /// A figure of the board that cannot be looked up.
    #[error(
        "the plan relies on {figure} of board {board:?}, which no source confirms (`recalled`): on the board, `punctual board detect` \
         says what differs, and `--write FILE` writes a board file of what is there"
    )]
    Recalled { board: String, figure: String },
    /// A machine that is in another mode than the plan is for.
    #[error(
        "the plan is for power mode {planned:?}, and the machine is in {now:?}: it has other cores, TPCs or clocks; set the planned one \
         with `nvpmodel`, or name this one in `power_mode`"
    )]
    OtherPowerMode { planned: String, now: String },
    /// A quantile from too few samples.
    #[error(
        "the profile of model {model:?} has only {samples} samples a figure: budgets are made \
         from the longest measurement; profile with {needed} or more"
    )]
    FewSamples {
        model: String,
        samples: u32,
        needed: u32,
    },
}

/// What a device does not promise, each part followed by a comma.
fn lacking(promises: Promises) -> String {
    let allocates = "it allocates while a stage runs, ";
    let runs_on = "a stage cannot be stopped within a bound shorter than itself, ";
    let lacks = |promised: bool, text: &'static str| if promised { "" } else { text };
    [
        lacks(promises.allocation_free, allocates),
        lacks(promises.preemptible, runs_on),
        "and ",
    ]
    .concat()
}

pub(super) fn all(budgeted: &Budgeted<'_>, inputs: &PlanInputs) -> Vec<Warning> {
    let (resolved, config) = (&budgeted.resolved, &budgeted.scheduler);
    let (manifest, placement) = (&resolved.manifest, &resolved.placement);
    let (models, tasks) = (&resolved.models, &resolved.tasks);
    let mut warnings = of_host(inputs, placement);
    warnings.extend(inputs.packages.iter().flat_map(passed_over));
    warnings.extend(other_power_mode(inputs, &resolved.power_mode));
    warnings.extend(recalled(inputs, &resolved.power_mode, placement));
    let policy = &manifest.daemon.policy.value;
    if !policy.contract().promises {
        let policy = policy.name();
        warnings.push(Warning::NoPromises { policy });
    }
    if manifest.daemon.weight_cache.is_some() && config.pages == 0 {
        warnings.push(Warning::NothingToPage);
    }
    let places = &budgeted.places;
    if !places.is_empty() && places.iter().all(|place| place.partition.is_none()) {
        warnings.push(Warning::NoPlacePays);
    }
    if policy.contract().promises {
        let models = preemption::unmeasured(resolved).into_iter();
        warnings.extend(models.map(|model| Warning::PreemptionUnmeasured {
            model: model.to_owned(),
        }));
    }
    warnings.extend(unused(manifest, models, placement, tasks));
    for (position, model) in models.iter().enumerate() {
        if !tasks.iter().any(|task| task.model == position) {
            continue;
        }
        // Records say what confidence is worth; without any, depth follows time alone.
        let confident = model.package.network().has_confidence();
        if confident && model.package.calibration().samples.is_empty() {
            let model = model.name.clone();
            warnings.push(Warning::NotCalibrated { model });
        }
        warnings.extend(of_verification(model));
        let changed = model.changed_settings.iter().cloned();
        warnings.extend(
            changed.map(|(setting, measured, now)| Warning::SettingChanged {
                model: model.name.clone(),
                setting,
                measured,
                now,
            }),
        );
        let (samples, needed) = (model.samples_min(), Margins::SAMPLES_FOR_P99);
        if samples < needed {
            let model = model.name.clone();
            warnings.push(Warning::FewSamples {
                model,
                samples,
                needed,
            });
        }
    }
    for (position, task) in tasks.iter().enumerate() {
        warnings.extend(of_task(position, task, models, config));
    }
    warnings
}

/// One that failed is a problem, and no plan is made.
fn of_verification(model: &Model<'_>) -> Option<Warning> {
    let name = model.name.clone();
    match &model.profile.verified {
        None => Some(Warning::NotVerified { model: name }),
        Some(verified) if verified.values == 0 => Some(Warning::NothingVerified {
            model: name,
            undecided: verified.undecided,
        }),
        Some(_) => None,
    }
}

fn passed_over(input: &PackageInput) -> impl Iterator<Item = Warning> {
    let newer = input.version.iter().flat_map(|choice| &choice.passed_over);
    newer.map(|newer| Warning::VersionPassedOver {
        file: newer.file.clone(),
        taken: input.file().to_owned(),
        why: newer.why.clone(),
    })
}

fn of_host(inputs: &PlanInputs, placement: &Placement) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let fills = placement.partitions.iter().filter(|p| p.fills());
    warnings.extend(fills.map(|p| Warning::FillsUnmeasured {
        partition: p.name.clone(),
    }));
    warnings.extend(placement.shared().map(|core| Warning::SharedCore { core }));
    let on_gpu = placement.partitions.iter();
    let on_gpu = on_gpu.filter(|p| !p.device.runs_on_cores() && !p.is_place());
    let partitions = on_gpu.count();
    if partitions > 1 && inputs.gpu().is_some_and(|gpu| !gpu.enforced) {
        warnings.push(Warning::TpcsNotEnforced { partitions });
    }
    if let Ok(ort) = &inputs.host.ort {
        let by_ort = placement.partitions.iter();
        let by_ort = by_ort.filter(|p| p.device == DeviceKind::Ort);
        warnings.extend(by_ort.map(|partition| Warning::OrtPromisesLess {
            partition: partition.name.clone(),
            library: ort.library.clone(),
            promises: ort.promises,
        }));
    }
    let by_engines = placement.partitions.iter();
    let by_engines = by_engines.filter_map(|p| Some((p, inputs.engine(p.device)?)));
    warnings.extend(
        by_engines.map(|(partition, engine)| Warning::OrtPromisesLess {
            partition: partition.name.clone(),
            library: engine.library.clone(),
            promises: engine.promises,
        }),
    );
    if !inputs.host.realtime {
        warnings.push(Warning::NoRealtime);
    }
    warnings
}

/// Where the board has the mode that the machine is in: some have none, and `host` only one that is defined.
fn other_power_mode(inputs: &PlanInputs, planned: &str) -> Option<Warning> {
    let now = inputs.host.settings.get("nvpmodel")?;
    let is_other = inputs.board.power_mode(now).is_some() && now != planned;
    is_other.then(|| Warning::OtherPowerMode {
        planned: planned.to_owned(),
        now: now.clone(),
    })
}

/// Figures of the board that decide what a plan may use.
fn recalled(inputs: &PlanInputs, mode: &str, placement: &Placement) -> Vec<Warning> {
    let board = &inputs.board;
    let mode = board.power_mode(mode);
    let is_recalled = |fact: &&Fact<u16>| fact.source == RECALLED;
    let mut figures = Vec::new();
    if let Some(mode) = mode {
        let name = &mode.name;
        if mode.source == RECALLED {
            figures.push(format!("power mode {name:?}"));
        }
        let cores = mode.cores.as_ref().filter(is_recalled);
        figures.extend(cores.map(|cores| format!("{} cores in power mode {name:?}", cores.value)));
        let tpcs = mode.tpc.as_ref().filter(is_recalled);
        let tpcs = tpcs.filter(|_| placement.uses_gpu());
        figures.extend(tpcs.map(|tpcs| format!("{} TPCs in power mode {name:?}", tpcs.value)));
    }
    let memory = board.memory_bytes.as_ref();
    let memory = memory.filter(|memory| memory.source == RECALLED);
    figures.extend(memory.map(|memory| format!("{} GiB of memory", memory.value >> 30)));
    let figures = figures.into_iter();
    let warning = |figure| Warning::Recalled {
        board: board.name.clone(),
        figure,
    };
    figures.map(warning).collect()
}

/// Models and partitions that were complete, and that no task names.
fn unused(
    manifest: &Manifest,
    models: &[Model<'_>],
    placement: &Placement,
    tasks: &[Task],
) -> Vec<Warning> {
    let named = |name: &str, of: fn(&RawTask) -> Option<&String>| {
        manifest
            .tasks
            .iter()
            .any(|task| of(task).is_some_and(|n| n == name))
    };
    let mut warnings = Vec::new();
    for (position, model) in models.iter().enumerate() {
        let names = named(&model.name, |task| task.model.as_ref().map(|at| &at.value));
        if !names && !tasks.iter().any(|task| task.model == position) {
            let (what, name) = ("model", model.name.clone());
            warnings.push(Warning::Unused { what, name });
        }
    }
    let written = |p: &&Placed| {
        manifest
            .partitions
            .iter()
            .any(|raw| raw.name.value == p.name)
    };
    for partition in placement.partitions.iter().filter(written) {
        if !named(&partition.name, |task| {
            task.partition.as_ref().map(|at| &at.value)
        }) {
            let (what, name) = ("partition", partition.name.clone());
            warnings.push(Warning::Unused { what, name });
        }
    }
    warnings
}

fn of_task(position: usize, task: &Task, models: &[Model<'_>], config: &Config) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let name = || task.name.clone();
    if let Some((period, _)) = task.promise().filter(|_| task.clients > 1) {
        warnings.push(Warning::SharedRate {
            task: name(),
            clients: task.clients,
            period,
        });
    }
    let (crop, input) = (task.frame.crop, models[task.model].input());
    let input = Size {
        width: input.width,
        height: input.height,
    };
    let inner = task.frame.fit.place(crop, input).inner;
    if crop.width < inner.width || crop.height < inner.height {
        warnings.push(Warning::MagnifiedCrop {
            task: name(),
            crop,
            input,
        });
    }
    warnings.extend(unreachable_exit(position, task, config));
    warnings
}

/// The first exit beyond the mandatory one that does not fit before the deadline by its budgets, even alone.
fn unreachable_exit(position: usize, task: &Task, config: &Config) -> Option<Warning> {
    let settings = &config.tasks[position];
    let available = task.promise()?.1.saturating_sub(config.egress_bound);
    let mut needed = settings.jitter;
    for (exit, stage) in config.models[task.model].stages.iter().enumerate() {
        needed += stage.times[0].on[settings.partition.index()].budget + config.dispatch_cost;
        let exit = exit as u8;
        if needed > available && exit > task.mandatory_exit {
            return Some(Warning::UnreachableExit {
                task: task.name.clone(),
                id: TaskId(position as u16),
                reachable: exit - 1,
                next: exit,
                needed,
                available,
            });
        }
    }
    None
}
