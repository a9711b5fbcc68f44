//! Models: the package and the profile of each, and the scheduler's tables made of them.

use std::path::PathBuf;
use std::sync::Arc;

use punctual_core::{BatchTime, ModelConfig, Nanos, SPAN_MAX, StageConfig, StageTime};
use punctual_diagnostics::{Place, Problems, Rule, and_more};
use punctual_model::{
    ImageLayout, InputForm, Package, PackageError, Profile, ProfileError, ProfileKey, StageProfile,
    WeightImage,
};
use thiserror::Error;

use crate::budgets::Budgets;
use crate::inputs::{CudaFootprint, PlanInputs};
use crate::manifest::{Manifest, RawModel};
use crate::partition::DeviceKind;
use crate::placement::Placed;
use crate::plan::{BATCH_SIZES, ModelPlan, Size};
use crate::tasks::Task;

/// What is wrong with a model's package or with its profile.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ModelRule {
    /// No package was given for a model.
    #[error("the package {path:?} was not read")]
    PackageMissing { path: String },
    /// The package file is damaged, or not one.
    #[error("the package cannot be used: {error}")]
    PackageInvalid { error: Arc<PackageError> },
    /// The network reads text, and a camera gives images.
    #[error("model {model:?} takes {tokens} tokens, not an image")]
    TokenInput { model: String, tokens: u32 },
    /// The profile's file is damaged, or not one.
    #[error("the profile {path:?} cannot be used: {error}")]
    ProfileInvalid {
        path: PathBuf,
        error: Arc<ProfileError>,
    },
    #[error("model {model:?} has no profile (package {package})")]
    ProfileMissing { model: String, package: String },
    /// Measured elsewhere, or in another state.
    #[error("the profile of model {model:?} is for {field} {found:?}, not {wanted:?}")]
    ProfileMismatch {
        model: String,
        field: &'static str,
        found: String,
        /// What it is to hold for.
        wanted: String,
    },
    /// The GPU's kernels do not run it, or nobody tried.
    #[error("what model {model:?} takes on the GPU is not known")]
    NotLowered { model: String },
    /// An exit that the network does not have.
    #[error("exit {exit} of a network with exits 0 to {last}")]
    NoSuchExit { exit: u64, last: u8 },
}

/// What to do where figures are missing.
pub(crate) const MEASURE: &str = "measure with `punctual profile MANIFEST` on this machine";

impl Rule for ModelRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::PackageMissing { .. } => "every model has a package",
            Self::PackageInvalid { .. } => "every model's package can be used",
            Self::TokenInput { .. } => "a camera's model takes images",
            Self::ProfileInvalid { .. } => "every profile that is given can be used",
            Self::ProfileMissing { .. } | Self::ProfileMismatch { .. } => {
                "budgets come from measurements of this package on this machine in this power mode"
            }
            Self::NotLowered { .. } => "a model's launches are known before it is served",
            Self::NoSuchExit { .. } => "an exit is one of the network's",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::PackageMissing { .. } => "make it with `punctual compile`".into(),
            Self::PackageInvalid { .. } => "make it again with `punctual compile`".into(),
            Self::TokenInput { .. } => "run it by `punctual_device::Evaluator`".into(),
            Self::ProfileInvalid { .. }
            | Self::ProfileMissing { .. }
            | Self::ProfileMismatch { .. } => MEASURE.into(),
            Self::NotLowered { .. } => {
                "give its tasks a partition of cores, or see what `punctual profile` says of it"
                    .into()
            }
            Self::NoSuchExit { last, .. } => format!("choose 0 to {last}"),
        }
    }

    fn is_about_a_file(&self) -> bool {
        matches!(
            self,
            Self::PackageMissing { .. }
                | Self::PackageInvalid { .. }
                | Self::ProfileInvalid { .. }
                | Self::ProfileMissing { .. }
        )
    }
}

/// A figure that a profile lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the profile of model {model:?} lacks stage {stage}, batch {batch}, {units} unit(s){}", and_more(*more))]
#[non_exhaustive]
pub struct StageNotProfiled {
    pub model: String,
    pub stage: u8,
    pub batch: u8,
    pub units: u8,
    /// How many more figures it lacks.
    pub more: usize,
}

impl Rule for StageNotProfiled {
    fn rule(&self) -> &'static str {
        "all stages are measured at all batch sizes in use"
    }

    fn help(&self) -> String {
        MEASURE.into()
    }
}

/// A model whose package and profile were found.
pub(crate) struct Model<'i> {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) package: &'i Package,
    /// The device's memory plan on this machine, if it is known.
    pub(crate) layout: Option<&'i ImageLayout>,
    pub(crate) device: DeviceKind,
    /// What it takes on the GPU.
    pub(crate) cuda: Option<&'i CudaFootprint>,
    /// Of the machine that runs it.
    pub(crate) profile: &'i Profile,
    /// Of the processor, which prepares its frames.
    pub(crate) preparation: &'i Profile,
    pub(crate) place: Place,
}

/// The models of the manifest that have all they need.
pub(crate) fn find<'i>(
    manifest: &Manifest,
    devices: &[DeviceKind],
    inputs: &'i PlanInputs,
    power_mode: &str,
    problems: &mut Problems<'_>,
) -> Vec<Model<'i>> {
    for input in &inputs.profiles {
        if let Err(error) = &input.profile {
            let (path, error) = (input.path.clone(), Arc::clone(error));
            problems.add(&Place::default(), ModelRule::ProfileInvalid { path, error });
        }
    }
    let mut models = Vec::new();
    for (raw, &device) in manifest.models.iter().zip(devices) {
        let Some(path) = &raw.package else { continue };
        let Some(input) = inputs.packages.iter().find(|p| p.path == path.value) else {
            let path_text = path.value.clone();
            problems.add(&path.place, ModelRule::PackageMissing { path: path_text });
            continue;
        };
        let package = match &input.package {
            Ok(package) => package,
            Err(error) => {
                let error = Arc::clone(error);
                problems.add(&path.place, ModelRule::PackageInvalid { error });
                continue;
            }
        };
        let input_spec = package.network().input;
        if let InputForm::Tokens { .. } = input_spec.form {
            let (model, tokens) = (raw.name.value.clone(), input_spec.width);
            problems.add(&path.place, ModelRule::TokenInput { model, tokens });
            continue;
        }
        let mut matching = |machine| {
            let wanted = Wanted::new(inputs, machine, power_mode);
            matching(raw, package, inputs, &wanted, problems)
        };
        let host = &inputs.host;
        let on_processor = matching((&host.machine, &host.clocks));
        let profile = match (device, inputs.gpu()) {
            (DeviceKind::Cpu, _) => on_processor,
            (DeviceKind::Cuda, Some(gpu)) => matching((&gpu.machine, &gpu.clocks)),
            // Noted with the partition.
            (DeviceKind::Cuda, None) => None,
        };
        let (Some(profile), Some(preparation)) = (profile, on_processor) else {
            continue;
        };
        if device == DeviceKind::Cuda && input.cuda.is_none() {
            let model = raw.name.value.clone();
            problems.add(&raw.name.place, ModelRule::NotLowered { model });
        }
        models.push(Model {
            name: raw.name.value.clone(),
            path: path.value.clone(),
            package,
            layout: input.layout.as_ref(),
            device,
            cuda: input.cuda.as_ref(),
            profile,
            preparation,
            place: raw.name.place.clone(),
        });
    }
    models
}

/// The key that a profile must have, but for its package.
struct Wanted<'i> {
    board: &'i str,
    machine: &'i str,
    power_mode: &'i str,
    clocks: &'i str,
}

impl<'i> Wanted<'i> {
    fn new(
        inputs: &'i PlanInputs,
        (machine, clocks): (&'i str, &'i str),
        power_mode: &'i str,
    ) -> Self {
        Self {
            board: &inputs.board.name,
            machine,
            power_mode,
            clocks,
        }
    }

    /// What a key has otherwise: field, there, wanted.
    fn differences(&self, key: &ProfileKey) -> Vec<(&'static str, String, String)> {
        [
            ("board", &key.board, self.board),
            ("machine", &key.machine, self.machine),
            ("power mode", &key.power_mode, self.power_mode),
            ("clocks", &key.clocks, self.clocks),
        ]
        .into_iter()
        .filter(|(_, found, wanted)| found != wanted)
        .map(|(field, found, wanted)| (field, found.clone(), wanted.to_owned()))
        .collect()
    }
}

/// The profile of this package on this machine; if there are only others, what differs of the one that differs least.
fn matching<'i>(
    raw: &RawModel,
    package: &Package,
    inputs: &'i PlanInputs,
    wanted: &Wanted<'_>,
    problems: &mut Problems<'_>,
) -> Option<&'i Profile> {
    let hash = package.hash().to_string();
    let model = raw.name.value.clone();
    let of_package: Vec<&Profile> = inputs
        .profiles
        .iter()
        .filter_map(|input| input.profile.as_ref().ok())
        .filter(|profile| profile.key.package == hash)
        .collect();
    let differences = |profile: &Profile| wanted.differences(&profile.key);
    if let Some(found) = of_package.iter().find(|p| differences(p).is_empty()) {
        return Some(found);
    }
    let nearest = of_package.iter().min_by_key(|p| differences(p).len());
    match nearest {
        None => {
            let package = hash;
            problems.add(
                &raw.name.place,
                ModelRule::ProfileMissing { model, package },
            );
        }
        Some(other) => {
            for (field, found, wanted) in differences(other) {
                let model = model.clone();
                let cause = ModelRule::ProfileMismatch {
                    model,
                    field,
                    found,
                    wanted,
                };
                problems.add(&raw.name.place, cause);
            }
        }
    }
    None
}

impl Model<'_> {
    /// Its weights as the compiler packed them for this machine.
    pub(crate) fn image(&self) -> Option<&WeightImage> {
        self.package.image(self.layout?.lanes)
    }

    /// The number of stages. A package never has more than `STAGES_MAX`.
    pub(crate) fn stages(&self) -> u8 {
        self.package.network().stages.len() as u8
    }

    /// The network's input.
    pub(crate) fn input(&self) -> Size {
        let input = self.package.network().input;
        Size {
            width: input.width,
            height: input.height,
        }
    }

    pub(crate) fn plan(&self, batches: &[u8]) -> ModelPlan {
        ModelPlan {
            name: self.name.clone(),
            package: self.path.clone().into(),
            hash: self.package.hash().to_string(),
            stages: self.stages(),
            classes: self.package.network().classes.clone(),
            input: self.input(),
            batches: batches.to_vec(),
            solutions: self.profile.solutions.clone(),
            device: self.device,
        }
    }

    /// The fewest samples that any of its figures rests on.
    pub(crate) fn samples_min(&self) -> u32 {
        let stages = self.profile.stages.iter().map(|entry| entry.samples);
        stages.min().unwrap_or(0)
    }
}

/// Batch sizes to compile for a model: up to the first that holds the largest batch of its tasks.
pub(crate) fn batches_up_to(largest: u8) -> Vec<u8> {
    let needed = BATCH_SIZES.iter().position(|size| *size >= largest);
    BATCH_SIZES[..=needed.unwrap_or(BATCH_SIZES.len() - 1)].to_vec()
}

/// The scheduler's table of one model: a budget for each stage and batch size on each partition.
pub(crate) fn config(
    model: &Model<'_>,
    batches: &[u8],
    partitions: &[Placed],
    runs_on: impl Fn(usize) -> bool,
    budgets: &Budgets<'_>,
    problems: &mut Problems<'_>,
) -> ModelConfig {
    let network = model.package.network();
    let answers: Vec<bool> = network.stages.iter().map(|s| s.logits.is_some()).collect();
    let calibration = model.package.calibration().by_stage(&answers);
    let accuracies = calibration.exit_accuracies(answers.len());
    let mut stages = Vec::new();
    let mut missing = Vec::new();
    for (stage, exit) in (0..model.stages()).zip(accuracies) {
        let mut times: Vec<BatchTime> = Vec::new();
        for &batch in batches {
            let mut on = Vec::new();
            for (position, partition) in partitions.iter().enumerate() {
                // Where it is never dispatched, the longest span keeps a mistake from looking cheap.
                let mut time = LONGEST;
                if runs_on(position) {
                    let units = u8::try_from(partition.unit_count()).unwrap_or(u8::MAX);
                    match model.profile.stage(stage, batch, units) {
                        Some(entry) => time = stage_time(entry, budgets, position),
                        None => missing.push((stage, batch, units)),
                    }
                }
                // A larger batch is never cheaper; where it was measured so, that was noise.
                if let Some(smaller) = times.last() {
                    time.budget = time.budget.max(smaller.on[position].budget);
                    time.max_seen = time.max_seen.max(smaller.on[position].max_seen);
                }
                on.push(time);
            }
            times.push(BatchTime { batch, on });
        }
        stages.push(StageConfig {
            times,
            accuracy: exit.accuracy,
            deeper: exit.deeper,
            follows: exit.follows,
            answers: answers[usize::from(stage)],
            runs_as: None,
        });
    }
    if let Some((stage, batch, units)) = missing.first().copied() {
        let cause = StageNotProfiled {
            model: model.name.clone(),
            stage,
            batch,
            units,
            more: missing.len() - 1,
        };
        problems.add(&model.place, cause);
    }
    ModelConfig {
        stages,
        weights: None,
    }
}

const LONGEST: StageTime = StageTime {
    budget: SPAN_MAX,
    max_seen: SPAN_MAX,
};

fn stage_time(entry: &StageProfile, budgets: &Budgets<'_>, partition: usize) -> StageTime {
    let budget = budgets.of(partition, entry.samples, entry.p99_ns, entry.max_ns);
    let max_seen = Nanos::new(entry.max_ns).max(budget).min(SPAN_MAX);
    StageTime { budget, max_seen }
}

/// The device's preemption bound on a partition: the longest of its best-effort models, since
/// only best-effort work is preempted.
pub(crate) fn preemption_bound(
    models: &[Model<'_>],
    tasks: &[Task],
    partition: usize,
    budgets: &Budgets<'_>,
) -> Nanos {
    tasks
        .iter()
        .filter(|task| task.partition == partition && task.is_best_effort())
        .map(|task| models[task.model].profile.preemption_ns_max)
        // The figure is itself the longest that was seen.
        .map(|longest| budgets.of(partition, 0, longest, longest))
        .max()
        .unwrap_or(Nanos::ZERO)
}
