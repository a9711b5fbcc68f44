//! A start in turn (PASK): weights and code come stage after stage, while stages that are there are served.
//!
//! A stage is there with its pages of weights and with the modules that nothing replaces. For those that tune a product to a
//! size, a kernel of the same pattern that is loaded does the work meanwhile; they are loaded in gaps, in which no stage
//! runs: loading one may have the driver wait for the device.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use punctual_core::{ModelId, Readiness};
use punctual_cuda_kernels::Module as Unit;
use punctual_device::{DeviceSpec, LoadRate, Start};
use punctual_platform::Doorbell;
use thiserror::Error;

use super::DevicePlan;
use super::readiness::Board;
use crate::counters::Counters;
use crate::driver::Context;
use crate::executor::StreamExecutor;
use crate::faults::DeviceError;
use crate::installation::Installation;
use crate::kernels::KernelError;
use crate::programs::Model;
use crate::weights::{LoadError, Weights};

/// How long a module waits for a gap. A device that is never idle would have general kernels for ever otherwise.
const PATIENCE_NS: u64 = 1_000_000_000;

/// What is copied to the device while stages run one after the other without a gap, where the manifest does not say: a
/// fiftieth of an H200's bus, less of a board's memory. What a copy does to a stage that runs meanwhile no GPU has measured yet
/// (`punctual bench gpu`, step `loads`).
pub(crate) const BESIDE_STAGES: LoadRate = LoadRate::of_mb_per_s(NonZeroU32::new(1_000).unwrap());

/// What a stage needs before it can run.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageNeeds {
    pages: BTreeSet<u32>,
    units: BTreeSet<Unit>,
}

/// What all stages need, by model.
pub(crate) type Needs = Box<[Box<[StageNeeds]>]>;

/// A stage of a model, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StageOf {
    model: usize,
    stage: usize,
}

/// What the stages of each model need on any of the partitions, whose programs these are.
pub(crate) fn needs(programs: &[Arc<[Model]>]) -> Needs {
    let models = programs.first().map_or(0, |models| models.len());
    let model = |model: usize| {
        let on = || programs.iter().map(|models| &models[model].program.stages);
        let stages = on().next().map_or(0, |stages| stages.len());
        let needs = |stage: usize| {
            let lists = on().flat_map(|stages| &stages[stage].lists);
            let steps = lists.flat_map(|list| &list.steps);
            StageNeeds {
                pages: on()
                    .flat_map(|stages| stages[stage].pages.to_vec())
                    .collect(),
                units: steps
                    .map(|step| step.kernel.module)
                    .chain([Unit::General])
                    .collect(),
            }
        };
        (0..stages).map(needs).collect()
    };
    (0..models).map(model).collect()
}

/// What could not be loaded, and is not tried again.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// Modules that others replace.
    units: BTreeSet<Unit>,
    /// Models that stay at the stages that they have.
    models: BTreeSet<usize>,
}

impl LeftOut {
    pub(crate) fn has_model(&self, model: usize) -> bool {
        self.models.contains(&model)
    }

    /// The modules that all other models need.
    pub(crate) fn units_of_others(&self, needs: &Needs) -> BTreeSet<Unit> {
        let models = needs.iter().enumerate();
        let models = models.filter(|(model, _)| !self.has_model(*model));
        let stages = models.flat_map(|(_, stages)| stages);
        let units = stages.flat_map(|stage| &stage.units);
        units
            .filter(|unit| !self.units.contains(unit))
            .copied()
            .collect()
    }

    /// Says that everything else is there.
    pub(crate) fn say_all_others(&self, needs: &Needs, board: &Board) {
        let models = needs.iter().enumerate();
        for (model, stages) in models.filter(|(model, _)| !self.has_model(*model)) {
            let stays_general = self.stays_general(stages);
            board.say(Readiness {
                model: ModelId(model as u16),
                stages: stages.len() as u8,
                as_measured: !stays_general,
                stays_general,
            });
        }
    }

    /// Whether other modules do for good the work of some that these stages want.
    fn stays_general(&self, stages: &[StageNeeds]) -> bool {
        !stages
            .iter()
            .all(|stage| stage.units.is_disjoint(&self.units))
    }
}

/// In which order stages are loaded: by the steps, then what they do not name, pinned models first. None: all before the
/// device is there.
pub(crate) fn order(spec: &DeviceSpec<'_>, needs: &Needs) -> Option<Box<[StageOf]>> {
    let Start::InTurn { steps, .. } = spec.start else {
        return None;
    };
    let models = || (0..needs.len()).map(|model| (model, usize::MAX));
    let of = |paged: bool| models().filter(move |&(model, _)| spec.models[model].paged == paged);
    let named = steps
        .iter()
        .map(|step| (step.model.index(), usize::from(step.stages)));
    let mut next = vec![0; needs.len()];
    let mut order = Vec::new();
    for (model, stages) in named.chain(of(false)).chain(of(true)) {
        let end = stages.min(needs[model].len());
        order.extend((next[model]..end).map(|stage| StageOf { model, stage }));
        next[model] = end.max(next[model]);
    }
    Some(order.into())
}

/// The pages of stages in this order, those that stages share more than once.
pub(crate) fn pages(order: &[StageOf], needs: &Needs) -> impl Iterator<Item = (usize, usize)> {
    order.iter().flat_map(move |&StageOf { model, stage }| {
        let pages = needs[model][stage].pages.iter();
        pages.map(move |&page| (model, page as usize))
    })
}

/// Why something of a model is not there.
#[derive(Debug, Error)]
pub enum InTurnError {
    #[error(transparent)]
    Weights(#[from] LoadError),
    #[error(transparent)]
    Module(ModuleError),
    /// Of one whose work others go on to do.
    #[error("{0}; other kernels go on to do its work")]
    Replacement(ModuleError),
}

/// Why a module is not there.
#[derive(Debug, Error)]
#[error("module {unit}: {error}")]
pub struct ModuleError {
    unit: &'static str,
    error: KernelError,
}

impl InTurnError {
    /// What follows from it, if the driver reported it.
    pub(crate) fn fault(&self) -> Option<DeviceError> {
        match self {
            Self::Weights(LoadError::Driver(error))
            | Self::Module(ModuleError {
                error: KernelError::Driver(error),
                ..
            })
            | Self::Replacement(ModuleError {
                error: KernelError::Driver(error),
                ..
            }) => Some(DeviceError::from(*error)),
            _ => None,
        }
    }
}

/// What [`InTurn::next`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Something was loaded.
    Loaded,
    /// A page or a module waits for a gap.
    Waits,
    /// Everything is there that can be.
    Over,
}

/// Where everything goes.
struct Place {
    context: Arc<Context>,
    installation: Arc<Installation>,
    weights: Arc<Weights>,
}

/// See the module.
pub(crate) struct InTurn {
    place: Place,
    board: Arc<Board>,
    counters: Arc<Counters>,
    needs: Needs,
    /// The stages to come, and what the first of them still needs.
    order: VecDeque<StageOf>,
    first: StageNeeds,
    /// Modules that stages which are there want and others replace, in the order of these stages.
    replaced: VecDeque<(Unit, ModelId)>,
    loaded: BTreeSet<Unit>,
    left_out: LeftOut,
    /// Stages of each model that are there.
    stages: Box<[u8]>,
    /// Since when a module waits for a gap.
    waits_since_ns: Option<u64>,
    rate: LoadRate,
    /// When the next page may be copied, also if stages run.
    copy_due_ns: u64,
}

impl InTurn {
    /// What comes in turn to a device of which the general module alone is loaded; nothing after a whole start.
    pub(crate) fn of(
        device_plan: &DevicePlan,
        context: &Arc<Context>,
        executors: &[StreamExecutor],
        counters: &Arc<Counters>,
        report: &Arc<Doorbell>,
    ) -> Option<Self> {
        let order = device_plan.order.as_ref()?;
        let needs = device_plan.needs.clone();
        let mut in_turn = Self {
            place: Place {
                context: context.clone(),
                installation: executors.first()?.installation.clone(),
                weights: device_plan.weights.clone(),
            },
            board: Arc::new(Board::new(needs.len(), report.clone())),
            counters: counters.clone(),
            stages: vec![0; needs.len()].into(),
            needs,
            order: order.iter().copied().collect(),
            first: StageNeeds::default(),
            replaced: VecDeque::new(),
            loaded: BTreeSet::from([Unit::General]),
            left_out: LeftOut::default(),
            waits_since_ns: None,
            rate: device_plan.rate,
            copy_due_ns: 0,
        };
        in_turn.look_at_first();
        Some(in_turn)
    }

    /// Where it says what is there.
    pub(crate) fn board(&self) -> Arc<Board> {
        self.board.clone()
    }

    /// What could not be loaded so far.
    pub(crate) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Loads the next page or module; `is_idle` says whether no stage runs.
    pub(crate) fn next(
        &mut self,
        is_idle: bool,
        now_ns: u64,
    ) -> Result<Next, (ModelId, InTurnError)> {
        let waits_since = self.waits_since_ns.unwrap_or(now_ns);
        let may_load = is_idle || now_ns.saturating_sub(waits_since) >= PATIENCE_NS;
        if may_load && let Some((unit, model)) = self.replaced.pop_front() {
            self.waits_since_ns = None;
            return self.replace(unit, model);
        }
        self.waits_since_ns = (!self.replaced.is_empty()).then_some(waits_since);
        let Some(&at) = self.order.front() else {
            return Ok(self.rest());
        };
        if let Some(&page) = self.first.pages.first() {
            let may_copy = is_idle || now_ns >= self.copy_due_ns;
            return self.bring_in(at, page, may_copy.then_some(now_ns));
        }
        if self.first.units.is_empty() {
            self.announce(at);
            return Ok(Next::Loaded);
        }
        if !may_load {
            self.waits_since_ns = Some(waits_since);
            return Ok(Next::Waits);
        }
        self.waits_since_ns = None;
        let unit = self.first.units.pop_first().expect("one is left");
        let loaded = self.load(unit).map_err(InTurnError::Module);
        loaded.map_err(|error| self.give_up(at, error))?;
        Ok(Next::Loaded)
    }

    fn rest(&self) -> Next {
        if self.replaced.is_empty() {
            Next::Over
        } else {
            Next::Waits
        }
    }

    /// Packs a page, and copies it to the device if that may be done now.
    fn bring_in(
        &mut self,
        at: StageOf,
        page: u32,
        copied_at_ns: Option<u64>,
    ) -> Result<Next, (ModelId, InTurnError)> {
        let weights = self.place.weights.clone();
        let packed = weights.pack(at.model, page as usize);
        packed.map_err(|error| self.give_up(at, error.into()))?;
        // What a paged model has on the device, its loads bring.
        if !weights.is_paged(at.model) {
            let Some(now_ns) = copied_at_ns else {
                return Ok(Next::Waits);
            };
            let copied = weights.bring_in_page(at.model, page as usize);
            copied.map_err(|error| self.give_up(at, error.into()))?;
            self.copy_due_ns = self.rate.due_ns(now_ns, weights.page_bytes() as u64);
        }
        self.first.pages.remove(&page);
        Ok(Next::Loaded)
    }

    fn load(&mut self, unit: Unit) -> Result<(), ModuleError> {
        let kernels = &self.place.installation.kernels;
        let loaded = kernels.load(&self.place.context, unit);
        let unit_name = unit.name();
        loaded.map_err(|error| ModuleError {
            unit: unit_name,
            error,
        })?;
        self.counters.loaded_later.add(1);
        self.loaded.insert(unit);
        Ok(())
    }

    /// Loads a module in the place of what did its work so far.
    fn replace(&mut self, unit: Unit, model: ModelId) -> Result<Next, (ModelId, InTurnError)> {
        if let Err(error) = self.load(unit) {
            self.counters.not_loaded.add(1);
            self.left_out.units.insert(unit);
            self.say_all();
            return Err((model, InTurnError::Replacement(error)));
        }
        self.say_all();
        Ok(Next::Loaded)
    }

    /// The first stage to come is there.
    fn announce(&mut self, at: StageOf) {
        self.order.pop_front();
        self.stages[at.model] = at.stage as u8 + 1;
        self.say(at.model);
        let model = ModelId(at.model as u16);
        let wanted = self.needs[at.model][at.stage].units.clone();
        for unit in wanted.difference(&self.loaded.clone()).copied() {
            let known = self.replaced.iter().any(|(known, _)| *known == unit);
            if !known && !self.left_out.units.contains(&unit) {
                self.replaced.push_back((unit, model));
            }
        }
        self.look_at_first();
    }

    fn say_all(&self) {
        (0..self.stages.len()).for_each(|model| self.say(model));
    }

    /// Says how much of a model is there.
    fn say(&self, model: usize) {
        let stages = self.stages[model];
        let there = &self.needs[model][..usize::from(stages)];
        let as_measured = there
            .iter()
            .all(|stage| stage.units.is_subset(&self.loaded));
        self.board.say(Readiness {
            model: ModelId(model as u16),
            stages,
            as_measured,
            stays_general: self.left_out.stays_general(there),
        });
    }

    /// Something of a model cannot be loaded: it stays as it is.
    fn give_up(&mut self, at: StageOf, error: InTurnError) -> (ModelId, InTurnError) {
        // After a fault everything is made again.
        if error.fault().is_none_or(|fault| !fault.needs_restart()) {
            self.left_out.models.insert(at.model);
            self.order.retain(|other| other.model != at.model);
            self.look_at_first();
        }
        (ModelId(at.model as u16), error)
    }

    /// Works out what the first stage to come needs that is not there.
    fn look_at_first(&mut self) {
        let Some(at) = self.order.front() else {
            return;
        };
        let model = &self.needs[at.model];
        let mut needs = model[at.stage].clone();
        for before in &model[..at.stage] {
            needs.pages.retain(|page| !before.pages.contains(page));
        }
        let here = |unit: &Unit| self.loaded.contains(unit) || unit.is_replaceable();
        needs.units.retain(|unit| !here(unit));
        self.first = needs;
    }
}
