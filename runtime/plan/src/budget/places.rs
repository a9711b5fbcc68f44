//! Which places pay: a place uses its compute units for as long as a stage takes there, with busy neighbours. That
//! must not be much more than at home, or lending costs more than it gains.

use punctual_core::{Config, ModelId, Nanos, PartitionId, Units, use_allowed};
use serde::Serialize;

use super::arrival::ArrivalBound;
use super::settings::stretches;
use super::times::{Budgets, measured};
use crate::inputs::DeviceKind;
use crate::resolve::{Placed, Resolved};

/// A place that the manifest asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceReport {
    pub name: String,
    pub device: DeviceKind,
    /// Its cores or TPCs.
    pub units: Vec<u16>,
    /// None: it pays for no model, and is not in the plan.
    pub partition: Option<PartitionId>,
    /// One entry for each model that real-time tasks on other partitions of the device use.
    pub models: Vec<PlaceUse>,
}

/// Whether a model's stages may run on a place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlaceUse {
    pub model: ModelId,
    /// The co-run factor: the model's budgets with busy neighbours, divided by those alone. None without figures of exactly
    /// this number of compute units.
    pub co_run: Option<f64>,
    /// The co-run factor above which the place does not pay.
    pub break_even: Option<f64>,
    pub pays: bool,
}

/// Judges the places among the partitions, and takes those that pay for no model out of them.
pub(super) fn choose(
    resolved: &mut Resolved<'_>,
    config: &Config,
    arrivals: &[ArrivalBound],
) -> Vec<PlaceReport> {
    let mut reports = judge(resolved, config, arrivals);
    let partitions = &mut resolved.placement.partitions;
    let homes = partitions.len() - reports.len();
    let (mut position, mut next) = (0, homes as u16);
    partitions.retain(|_| {
        position += 1;
        let Some(place) = (position - 1usize).checked_sub(homes) else {
            return true;
        };
        let report = &mut reports[place];
        let pays = report.models.iter().any(|model| model.pays);
        if pays {
            report.partition = Some(PartitionId(next));
            next += 1;
        }
        pays
    });
    reports
}

/// Gives each model the places that pay for it.
pub(super) fn assign(reports: &[PlaceReport], config: &mut Config) {
    for report in reports {
        let Some(partition) = report.partition else {
            continue;
        };
        for place in report.models.iter().filter(|place| place.pays) {
            config.models[place.model.index()].places.push(partition);
        }
    }
}

fn judge(resolved: &Resolved<'_>, config: &Config, arrivals: &[ArrivalBound]) -> Vec<PlaceReport> {
    let stretches = stretches(resolved, arrivals);
    let judge = Judge {
        resolved,
        config,
        budgets: Budgets {
            margins: &resolved.manifest.daemon.margins,
            stretches: &stretches,
        },
    };
    let partitions = resolved.placement.partitions.iter().enumerate();
    let places = partitions.filter(|(_, partition)| partition.is_place());
    places
        .map(|(position, place)| judge.report(position, place))
        .collect()
}

struct Judge<'a> {
    resolved: &'a Resolved<'a>,
    /// With all places in it.
    config: &'a Config,
    budgets: Budgets<'a>,
}

impl Judge<'_> {
    fn report(&self, position: usize, place: &Placed) -> PlaceReport {
        let models = 0..self.resolved.models.len();
        PlaceReport {
            name: place.name.clone(),
            device: place.device,
            units: place.units().to_vec(),
            partition: None,
            models: models
                .filter_map(|model| self.model(position, model))
                .collect(),
        }
    }

    /// None if no task of the model could use the place.
    fn model(&self, place: usize, model: usize) -> Option<PlaceUse> {
        // Work on a place does not wait for weights.
        if self.config.models[model].weights.is_some() {
            return None;
        }
        let allowed = self.homes(place, model).map(|home| {
            let own = self.units(home).overlaps(self.units(place));
            use_allowed(self.used(home, model), own)
        });
        let allowed = allowed.max()?;
        let dispatch = self.config.dispatch_cost.as_nanos() * self.stages(model) as u64;
        let beside = self.work(place, model).as_nanos();
        // What is left of the allowed time for the stages themselves.
        let most = (allowed / u64::from(self.units(place).count)).saturating_sub(dispatch);
        let alone = self
            .alone(place, model)
            .map(|alone| alone.as_nanos() as f64);
        let in_alone = |time: u64| alone.map(|alone| time as f64 / alone);
        Some(PlaceUse {
            model: ModelId(model as u16),
            co_run: in_alone(beside).filter(|_| self.is_exact(place, model)),
            break_even: in_alone(most),
            pays: self.used(place, model) <= allowed,
        })
    }

    /// The partitions of the model's real-time tasks on the place's device, but for one with the same compute units.
    fn homes(&self, place: usize, model: usize) -> impl Iterator<Item = usize> {
        let device = self.resolved.placement.partitions[place].device;
        let tasks = self.resolved.tasks.iter();
        let tasks =
            tasks.filter(move |task| !task.is_best_effort() && self.runs(task.model, model));
        tasks.map(|task| task.partition).filter(move |&home| {
            let home_device = self.resolved.placement.partitions[home].device;
            home_device == device && self.units(home) != self.units(place)
        })
    }

    /// Whether stages of a task's model run as those of a model.
    fn runs(&self, of_task: usize, model: usize) -> bool {
        let mut stages = self.config.models[of_task].stages.iter();
        of_task == model || stages.any(|stage| stage.runs_as == Some(ModelId(model as u16)))
    }

    fn units(&self, partition: usize) -> Units {
        self.config.partitions[partition].units
    }

    fn stages(&self, model: usize) -> usize {
        self.config.models[model].stages.len()
    }

    /// Budgets of all stages of a single request.
    fn work(&self, partition: usize, model: usize) -> Nanos {
        let stages = self.config.models[model].stages.iter();
        let budgets = stages.map(|stage| stage.times[0].on[partition].budget);
        budgets.fold(Nanos::ZERO, |sum, budget| sum + budget)
    }

    /// Compute units times time of a single request, as the scheduler counts them: with the cost of its decisions.
    fn used(&self, partition: usize, model: usize) -> u64 {
        let dispatch = self
            .config
            .dispatch_cost
            .saturating_mul(self.stages(model) as u64);
        let time = self.work(partition, model) + dispatch;
        time.saturating_mul(self.units(partition).count.into())
            .as_nanos()
    }

    /// The work if the neighbours were idle; none without figures of exactly the place's number of compute units.
    fn alone(&self, place: usize, model: usize) -> Option<Nanos> {
        let units = self.resolved.placement.partitions[place].width();
        let model = &self.resolved.models[model];
        let mut sum = Nanos::ZERO;
        for stage in 0..model.stages() {
            let entry = model.profile.stage(stage, 1, units);
            let entry = entry.filter(|entry| entry.units == units)?;
            sum += measured(entry, &self.budgets, place).budget;
        }
        Some(sum)
    }

    /// Whether the figures with busy neighbours are of exactly the place's number of compute units.
    fn is_exact(&self, place: usize, model: usize) -> bool {
        let units = self.resolved.placement.partitions[place].width();
        let model = &self.resolved.models[model];
        (0..model.stages()).all(|stage| {
            let entry = model.profile.stage_beside(stage, 1, units);
            entry.is_some_and(|entry| entry.units == units)
        })
    }
}
