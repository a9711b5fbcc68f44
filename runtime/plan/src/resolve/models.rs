//! Models: the package and the profile of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_diagnostics::{Place, Problems, Rule, Spanned};
use punctual_model::{
    Disagreement, Footprint, ImageLayout, InputForm, Package, PackageError, Profile, ProfileError,
    Tensor, WeightImage,
};
use thiserror::Error;

use super::device::DeviceRule;
use crate::inputs::DeviceKind;
use crate::inputs::{BATCH_SIZES, Candidate, Conditions, PackageInput, PlanInputs, ProfileInput};
use crate::manifest::{LeaderWait, Manifest, RawModel};

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
    /// The network takes what no client sends.
    #[error("model {model:?} takes {found}, not one picture or one prepared tensor")]
    Input { model: String, found: String },
    /// The profile's file is damaged, or not one.
    #[error("the profile {path:?} cannot be used: {error}")]
    ProfileInvalid {
        path: PathBuf,
        error: Arc<ProfileError>,
    },
    #[error("model {model:?} has no profile (package {package})")]
    ProfileMissing { model: String, package: String },
    /// The network was compiled again, into one of other work.
    #[error(
        "model {model:?} has no profile: {path:?} is of another network, whose stages, operators or shapes are others (weights \
         may differ)"
    )]
    ProfileOfAnother { model: String, path: PathBuf },
    /// Measured elsewhere, or in another state.
    #[error("the profile of model {model:?} is for {field} {found:?}, not {wanted:?}")]
    ProfileMismatch {
        model: String,
        field: &'static str,
        found: String,
        /// What it is to hold for.
        wanted: String,
    },
    /// What it answers here is not what it means.
    #[error("model {model:?} answers wrongly on this machine: {found}")]
    Disagrees {
        model: String,
        found: Box<Disagreement>,
    },
    /// The GPU's kernels do not run it, or this was not tried.
    #[error("the memory that model {model:?} takes on the GPU is not known")]
    NotLowered { model: String },
    /// An exit that the network does not have.
    #[error("the network has no exit {exit}, its last is {last}")]
    NoSuchExit { exit: u64, last: u8 },
    /// A stage that ends in none, as the beginning of networks that differ later.
    #[error("stage {stage} of the network ends in no exit")]
    NoExitThere {
        stage: u8,
        /// The stages that do.
        exits: Vec<usize>,
    },
}

/// What to do where figures are missing.
pub(crate) const MEASURE: &str = "measure with `punctual profile MANIFEST` on this machine";

impl Rule for ModelRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::PackageMissing { .. } => "every model has a package",
            Self::PackageInvalid { .. } => "every model's package can be used",
            Self::Input { .. } => {
                "a task's model takes pictures or tensors that its clients prepare"
            }
            Self::ProfileInvalid { .. } => "every profile that is given can be used",
            Self::ProfileMissing { .. }
            | Self::ProfileOfAnother { .. }
            | Self::ProfileMismatch { .. } => {
                "budgets come from measurements of this network on this machine in this power mode"
            }
            Self::Disagrees { .. } => {
                "what is served answers as the reference interpreter does, by its profile"
            }
            Self::NotLowered { .. } => "a model's launches are known before it is served",
            Self::NoSuchExit { .. } | Self::NoExitThere { .. } => "an exit is one of the network's",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::PackageMissing { .. } => "make it with `punctual compile`".into(),
            Self::PackageInvalid { .. } => "make it again with `punctual compile`".into(),
            Self::Input { .. } => "run it by `punctual_device::Evaluator`".into(),
            Self::ProfileInvalid { .. }
            | Self::ProfileMissing { .. }
            | Self::ProfileOfAnother { .. }
            | Self::ProfileMismatch { .. } => MEASURE.into(),
            Self::Disagrees { found, .. } if found.solution.is_some() => {
                "measure again with `punctual profile --direct MANIFEST`, which does without that solution, and \
                 report this with the package"
                    .into()
            }
            Self::Disagrees { .. } => {
                "report this with the package; until it is corrected, run the model elsewhere".into()
            }
            Self::NotLowered { .. } => {
                "give its tasks a partition of cores, or see what `punctual profile` says of it"
                    .into()
            }
            Self::NoSuchExit { last, .. } => format!("choose 0 to {last}"),
            Self::NoExitThere { exits, .. } => {
                let exits: Vec<String> = exits.iter().map(usize::to_string).collect();
                format!("choose one of {}", exits.join(", "))
            }
        }
    }

    fn is_about_a_file(&self) -> bool {
        match self {
            Self::PackageMissing { .. }
            | Self::PackageInvalid { .. }
            | Self::ProfileMissing { .. }
            | Self::ProfileOfAnother { .. } => true,
            // One that was read and makes no sense is bad input, as a manifest would be.
            Self::ProfileInvalid { error, .. } => matches!(**error, ProfileError::File { .. }),
            _ => false,
        }
    }
}

impl ModelRule {
    /// That none of the profiles holds for a model's package.
    #[must_use]
    pub fn no_profile(
        model: &str,
        input: &PackageInput,
        package: &Package,
        profiles: &[ProfileInput],
    ) -> Self {
        let model = model.to_owned();
        match input.stranger(package, profiles) {
            Some(stranger) => Self::ProfileOfAnother {
                model,
                path: stranger.path.clone(),
            },
            None => Self::ProfileMissing {
                model,
                package: package.hash().to_string(),
            },
        }
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
    /// What it takes on a device that is not the processor's own.
    pub(crate) footprint: Option<&'i Footprint>,
    /// Of the machine that runs it.
    pub(crate) profile: &'i Profile,
    /// Of the processor, which prepares its frames.
    pub(crate) preparation: &'i Profile,
    /// Settings of the machine that were others when these profiles were measured: name, then, now.
    pub(crate) changed_settings: Vec<(String, String, String)>,
    pub(crate) place: Place,
}

/// The models of the manifest that have all they need.
pub(super) fn find<'i>(
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
    let wait = manifest.daemon.leaders.wait;
    let models = manifest.models.iter().zip(devices);
    models
        .filter_map(|(raw, &device)| model(raw, device, inputs, power_mode, wait, problems))
        .collect()
}

fn model<'i>(
    raw: &RawModel,
    device: DeviceKind,
    inputs: &'i PlanInputs,
    power_mode: &str,
    wait: LeaderWait,
    problems: &mut Problems<'_>,
) -> Option<Model<'i>> {
    let (input, package) = package(raw, inputs, problems)?;
    let mut matching = |machine| {
        let wanted = Wanted::new(inputs, machine, power_mode);
        matching(raw, input, package, inputs, &wanted, problems)
    };
    let on_processor = matching(Machine::processor(inputs));
    let of_device = match device {
        DeviceKind::Cpu => on_processor.clone(),
        // One that is not there is noted with the partition.
        _ => Machine::of(device, inputs, wait).and_then(matching),
    };
    let ((profile, mut changed_settings), (preparation, of_processor)) =
        (of_device?, on_processor?);
    changed_settings.extend(of_processor);
    changed_settings.sort_unstable();
    changed_settings.dedup();
    let footprint = input.footprints.get(&device);
    let (model, place) = (raw.name.value.clone(), &raw.name.place);
    let verified = profile.verified.as_ref();
    if let Some(found) = verified.and_then(|verified| verified.failure.clone()) {
        let (model, found) = (model.clone(), Box::new(found));
        problems.add(place, ModelRule::Disagrees { model, found });
    }
    match (device, footprint) {
        (DeviceKind::Cuda, None) => problems.add(place, ModelRule::NotLowered { model }),
        (DeviceKind::Ort | DeviceKind::OrtCuda | DeviceKind::OrtTensorrt, None) => {
            problems.add(place, DeviceRule::NotWritten { model });
        }
        (DeviceKind::Cpu, _) | (_, Some(_)) => {}
    }
    Some(Model {
        name: raw.name.value.clone(),
        path: input.file().to_owned(),
        package,
        layout: input.layout.as_ref(),
        device,
        footprint,
        profile,
        preparation,
        changed_settings,
        place: raw.name.place.clone(),
    })
}

/// The package of a model, if it was read and takes what a task can have.
fn package<'i>(
    raw: &RawModel,
    inputs: &'i PlanInputs,
    problems: &mut Problems<'_>,
) -> Option<(&'i PackageInput, &'i Package)> {
    let Spanned { value: path, place } = raw.package.as_ref()?;
    let Some(input) = inputs.packages.iter().find(|p| p.path == *path) else {
        let path = path.clone();
        problems.add(place, ModelRule::PackageMissing { path });
        return None;
    };
    let package = match &input.package {
        Ok(package) => package,
        Err(error) => {
            let error = Arc::clone(error);
            problems.add(place, ModelRule::PackageInvalid { error });
            return None;
        }
    };
    let network = package.network();
    let found = match network.input.form {
        InputForm::Tokens { .. } => Some(format!("{} tokens", network.input.width)),
        InputForm::Prepared | InputForm::Image { .. } => None,
    };
    if let Some(found) = found {
        let model = raw.name.value.clone();
        problems.add(place, ModelRule::Input { model, found });
        return None;
    }
    Some((input, package))
}

/// What runs stages: its name in profiles, and what its speed depends on now.
#[derive(Clone, Copy)]
struct Machine<'i> {
    name: &'i str,
    clocks: &'i str,
    settings: &'i BTreeMap<String, String>,
}

impl<'i> Machine<'i> {
    fn processor(inputs: &'i PlanInputs) -> Self {
        let host = &inputs.host;
        Self {
            name: &host.machine,
            clocks: &host.clocks,
            settings: &host.settings,
        }
    }

    /// None if this machine has no such device.
    fn of(device: DeviceKind, inputs: &'i PlanInputs, wait: LeaderWait) -> Option<Self> {
        let processor = Self::processor(inputs);
        match device {
            DeviceKind::Cpu => Some(processor),
            DeviceKind::Cuda => inputs.gpu().map(|gpu| Self {
                name: gpu.machine(wait),
                clocks: &gpu.clocks,
                settings: &gpu.settings,
            }),
            DeviceKind::Ort => inputs.host.ort.as_ref().ok().map(|ort| Self {
                name: &ort.machine,
                ..processor
            }),
            DeviceKind::OrtCuda | DeviceKind::OrtTensorrt => {
                let (gpu, engine) = (inputs.gpu()?, inputs.engine(device)?);
                Some(Self {
                    name: engine.machine(wait),
                    clocks: &gpu.clocks,
                    settings: &gpu.settings,
                })
            }
        }
    }
}

/// The key that a profile must have, but for its network; settings that it should have.
struct Wanted<'i> {
    conditions: Conditions<'i>,
    machine: Machine<'i>,
}

/// A profile, and settings that were others when it was measured: name, then, now.
type Matching<'i> = (&'i Profile, Vec<(String, String, String)>);

impl<'i> Wanted<'i> {
    fn new(inputs: &'i PlanInputs, machine: Machine<'i>, power_mode: &'i str) -> Self {
        Self {
            conditions: Conditions {
                board: &inputs.board.name,
                machine: Some(machine.name),
                power_mode,
            },
            machine,
        }
    }
}

/// The profile of this package on this machine: of several the nearest, of these the one whose settings changed least; if there
/// are only others, what differs of the one that differs least.
fn matching<'i>(
    raw: &RawModel,
    input: &PackageInput,
    package: &Package,
    inputs: &'i PlanInputs,
    wanted: &Wanted<'_>,
    problems: &mut Problems<'_>,
) -> Option<Matching<'i>> {
    let model = &raw.name.value;
    let of_package = input.candidates(package, &inputs.profiles);
    let differences = |of: &Candidate<'_>| wanted.conditions.differences(&of.profile.key);
    let Machine {
        clocks, settings, ..
    } = wanted.machine;
    let of_key = of_package.iter().filter(|of| differences(of).is_empty());
    let changes = |of: &Candidate<'_>| of.profile.changed_settings(clocks, settings);
    if let Some(found) = of_key.min_by_key(|of| (of.nearness, changes(of).len())) {
        return Some((found.profile, changes(found)));
    }
    let least = of_package.iter().min_by_key(|of| differences(of).len());
    match least {
        None => problems.add(
            &raw.name.place,
            ModelRule::no_profile(model, input, package, &inputs.profiles),
        ),
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

    /// The hash of the package that its profile was measured with, if that had other weights.
    pub(crate) fn measured_with(&self) -> Option<String> {
        let key = &self.profile.key;
        (!key.is_with_weights_of(self.package)).then(|| key.package.clone())
    }

    /// The number of stages. A package never has more than `STAGES_MAX`.
    pub(crate) fn stages(&self) -> u8 {
        self.package.network().stages.len() as u8
    }

    pub(crate) fn input(&self) -> Tensor {
        self.package.network().input.tensor()
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
