//! `punctual layouts`: further layouts of a manifest, found for shifted demand.

mod device;
mod proposal;

use std::fmt::Write as _;
use std::path::PathBuf;

use punctual_core::PartitionId;
use punctual_daemon::StartupError;
use punctual_plan::{DeviceKind, Diagnostics, Plan, PlanInputs, Policies};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_simulator::layout::TASKS_MAX;
use serde_json::json;

use device::Device;
use proposal::{Found, Proposal};

/// What to look for, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual profile --every manifest.toml       # all partition sizes, once
  punctual layouts manifest.toml
  punctual layouts manifest.toml --busier 8
  punctual layouts manifest.toml --json | jq '.layouts[].name'

Divides the compute units of the manifest's [[partition]]s otherwise, and prints as TOML what is best while
one task in turn is asked more often: a [[layout]] each, to append to the manifest. The planner is the one
that the simulations of docs/results/layouts.md use: it looks at all groups of up to 6 tasks on a kind of
device, cores or TPCs, with the budgets of the profiles. Partitions get no smaller than those measured.
Each layout is added to the manifest in memory and checked as `punctual check` does; one that the plan
refuses is left out, and the reason is on standard error.

TERMINATION CODES: 0 there are layouts; 1 none was found; 3 the manifest or its plan is invalid, or has too
many tasks; 4 a file is missing or unreadable; 5 the GPU or ONNX Runtime is unavailable.")]
pub struct Options {
    /// The manifest (TOML).
    manifest: PathBuf,
    /// How many times as often a task is asked in its turn as in the others'. Over all turns the rates are the
    /// manifest's.
    #[arg(long, value_name = "FACTOR", default_value = "4", value_parser = busier)]
    busier: f64,
    /// A profile made by `punctual profile`; once for each model. Without it, the profile beside
    /// each model's package is used.
    #[arg(long = "profile", value_name = "FILE")]
    profiles: Vec<PathBuf>,
    /// Print what was found, or the manifest's problems, as JSON.
    #[arg(long)]
    json: bool,
}

const BUSIER_MAX: f64 = 1_000.0;

fn busier(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if factor > 1.0 && factor <= BUSIER_MAX {
        Ok(factor)
    } else {
        Err(format!(
            "choose a factor above 1, at most {BUSIER_MAX}, not {factor}"
        ))
    }
}

/// Why no layouts were looked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Inputs(#[from] StartupError),
    /// More tasks than the planner can group.
    #[error(
        "{found} tasks run on {units}, and all groups of at most {TASKS_MAX} tasks can be looked at; write the layouts \
         by hand, or look with a manifest of fewer tasks"
    )]
    TooManyTasks { found: usize, units: &'static str },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Inputs(error) => Termination::Code(error.termination().code()),
            Self::TooManyTasks { .. } => Termination::BadInput,
            Self::Output(error) => error.termination(),
        }
    }
}

/// Prints the layouts, or that there are none.
pub fn run(options: &Options, policies: &Policies) -> Termination {
    match layouts(options, policies) {
        Ok(termination) => termination,
        Err(Error::Inputs(StartupError::Plan(problems))) if options.json => {
            let error = Error::Inputs(StartupError::Plan(problems.clone()));
            let printed = output::text(problems.to_json());
            error.termination().once_printed("layouts", printed)
        }
        Err(error) => Termination::of("layouts", Err(error)),
    }
}

fn layouts(options: &Options, policies: &Policies) -> Result<Termination, Error> {
    let daemon = punctual_daemon::Options {
        manifest: Some(options.manifest.clone()),
        profiles: options.profiles.clone(),
        ..punctual_daemon::Options::default()
    };
    let inputs = punctual_daemon::plan_inputs(&daemon, policies)?;
    let search = Search::new(inputs, options.busier)?;
    for key in &search.plan.renamed_keys {
        output::note(format_args!("warning: {key}"));
    }
    let result = search.all()?;
    let text = if options.json {
        result.json()
    } else {
        result.toml(options)
    };
    for refused in &result.refused {
        output::note(format_args!(
            "punctual layouts: layout {:?} is left out: {}",
            refused.name, refused.reason
        ));
    }
    for remark in &result.remarks {
        output::note(format_args!("punctual layouts: {remark}"));
    }
    if !result.is_empty() || options.json {
        output::text(text)?;
    }
    Ok(if result.is_empty() {
        Termination::BadResult
    } else {
        Termination::Done
    })
}

/// A manifest, and the layouts that the plan accepts in addition to its own.
struct Search {
    inputs: PlanInputs,
    /// Of the manifest as it is.
    plan: Plan,
    busier: f64,
}

/// A layout that the plan refuses.
struct Refused {
    name: String,
    reason: String,
}

#[derive(Default)]
struct Outcome {
    /// By kind of device: what the planner found that the plan accepts.
    found: Vec<(Device, Found)>,
    refused: Vec<Refused>,
    /// What somebody should know who expects more.
    remarks: Vec<String>,
    busier: f64,
}

impl Search {
    fn new(inputs: PlanInputs, busier: f64) -> Result<Self, Error> {
        let plan = Plan::build(&inputs).map_err(StartupError::Plan)?;
        Ok(Self {
            inputs,
            plan,
            busier,
        })
    }

    fn all(self) -> Result<Outcome, Error> {
        let mut outcome = Outcome {
            busier: self.busier,
            ..Outcome::default()
        };
        let profiles = self.inputs.profiles_used().map_err(StartupError::Plan)?;
        let mut accepted = self.inputs.clone();
        if !accepted.manifest_text.ends_with('\n') {
            accepted.manifest_text.push('\n');
        }
        // ONNX Runtime's tasks stay where they are in every layout.
        for kind in [DeviceKind::Cpu, DeviceKind::Cuda] {
            let Some(device) = Device::find(kind, &self.plan, &self.inputs, &profiles) else {
                continue;
            };
            let (found, units) = (device.scenario.tasks.len(), device.unit_name());
            if found > TASKS_MAX {
                return Err(Error::TooManyTasks { found, units });
            }
            let mut found = self.of_device(&device);
            found.proposals.retain(|proposal| {
                let refused = accept(&mut accepted, &device, proposal, self.busier).err();
                let is_accepted = refused.is_none();
                outcome.refused.extend(refused);
                is_accepted
            });
            remark(&device, &found, &mut outcome.remarks);
            outcome.found.push((device, found));
        }
        if outcome.is_empty() {
            outcome.remarks.insert(0, nothing(&outcome));
        }
        Ok(outcome)
    }

    fn of_device(&self, device: &Device) -> Found {
        let layouts = self.plan.layouts.iter();
        let known = layouts.clone().map(|layout| {
            let partitions: &[PartitionId] = &layout.partitions;
            device.ranges(&self.plan, partitions)
        });
        let known: Vec<_> = known.collect();
        let taken = self.plan.partitions.iter().map(|partition| &partition.name);
        let taken = taken.chain(layouts.map(|layout| &layout.name));
        let taken: Vec<&str> = taken.map(String::as_str).collect();
        proposal::find(device, self.busier, &known, &taken)
    }
}

/// Adds a layout to the manifest, if a plan can be made with it.
fn accept(
    inputs: &mut PlanInputs,
    device: &Device,
    proposal: &Proposal,
    busier: f64,
) -> Result<(), Refused> {
    let refused = |reason| Refused {
        name: proposal.name.clone(),
        reason,
    };
    let is_whole = |numbers: &Vec<u16>| {
        numbers
            .windows(2)
            .all(|pair| pair[0].checked_add(1) == Some(pair[1]))
    };
    let mut partitions = proposal
        .partitions
        .iter()
        .map(|partition| &partition.numbers);
    // `tpcs` has no way to leave any out.
    if !device.kind.runs_on_cores() && !partitions.all(is_whole) {
        return Err(refused(
            "its TPCs have others between them; give the [[partition]]s TPCs without a gap".into(),
        ));
    }
    let before = inputs.manifest_text.len();
    inputs.manifest_text += &proposal.toml(device, busier);
    let built = Plan::build(inputs);
    built.map(drop).map_err(|errors: Diagnostics| {
        inputs.manifest_text.truncate(before);
        refused(format!("the plan refuses it\n{errors}"))
    })
}

fn remark(device: &Device, found: &Found, remarks: &mut Vec<String>) {
    let units = device.unit_name();
    let all = 1..=device.scenario.board.units;
    let of_one = device
        .numbers(punctual_core::Units { first: 0, count: 1 })
        .len() as u16;
    let mut wanted = all.map(|count| count * of_one);
    let measured: Vec<String> = device.measured.iter().map(u16::to_string).collect();
    let measured = measured.join(", ");
    if wanted.any(|count| !device.measured.contains(&count)) {
        remarks.push(format!(
            "stages are measured on {measured} {units}; more {units} count as no faster, fewer are not planned: \
             `punctual profile --every MANIFEST` measures all partition sizes"
        ));
    }
    for task in &device.unknown_rates {
        remarks.push(format!(
            "task {task:?} has no `rate_hz`, and counts as one frame a second: set it if there are more"
        ));
    }
    for busy in &found.without {
        let when = match busy {
            Some(task) => format!("while {task:?} is busy"),
            None => "at the manifest's rates".to_owned(),
        };
        remarks.push(format!(
            "{when} no layout on the measured numbers of {units} keeps all promises by the planner's estimate"
        ));
    }
}

fn nothing(outcome: &Outcome) -> String {
    let devices = outcome.found.iter().map(|(device, _)| device.unit_name());
    let devices: Vec<&str> = devices.collect();
    match (&devices[..], outcome.refused.len()) {
        ([], _) => {
            "no layout was found: ONNX Runtime's tasks stay on their partitions, and there are no others".into()
        }
        (devices, 0) => format!(
            "no layout was found for the tasks on {}: even with a task {} times as busy the manifest's own layouts are \
             the best; a larger --busier may change that",
            devices.join(" and on "),
            outcome.busier
        ),
        (devices, refused) => format!(
            "no layout was found for the tasks on {} that the plan accepts; it refuses {refused}",
            devices.join(" and on ")
        ),
    }
}

impl Outcome {
    fn is_empty(&self) -> bool {
        let mut found = self.found.iter();
        found.all(|(_, found)| found.proposals.is_empty())
    }

    /// To append to the manifest.
    fn toml(&self, options: &Options) -> String {
        let (manifest, busier) = (options.manifest.display(), self.busier);
        let mut text = format!("\n# Found by `punctual layouts {manifest} --busier {busier}`.\n");
        for (device, found) in &self.found {
            if found.keeps_first {
                text += &first(device);
            }
            for proposal in &found.proposals {
                text += &proposal.toml(device, busier);
            }
        }
        text
    }

    fn json(&self) -> String {
        let devices = self.found.iter();
        let layouts = devices.flat_map(|(device, found)| {
            let proposals = found.proposals.iter();
            proposals.map(|proposal| json_of(device, proposal, self.busier))
        });
        let layouts: Vec<_> = layouts.collect();
        let refused = self.refused.iter();
        let refused = refused.map(|one| json!({ "name": one.name, "reason": one.reason }));
        let refused: Vec<_> = refused.collect();
        let json = json!({ "busier": self.busier, "layouts": layouts, "refused": refused });
        serde_json::to_string_pretty(&json).expect("plain data serialises") + "\n"
    }
}

/// The manifest's own partitions, which are the best ones for its rates.
fn first(device: &Device) -> String {
    let mut text = String::from("#\n# Best at the manifest's own rates are its [[partition]]s:\n");
    for (units, tasks) in &device.scenario.planned {
        let tasks: Vec<&str> = tasks.iter().map(|&task| device.task_name(task)).collect();
        let place = proposal::units_line(device, device.numbers(*units));
        let _ = writeln!(text, "#   {place}  {}", tasks.join(", "));
    }
    text
}

fn json_of(device: &Device, proposal: &Proposal, busier: f64) -> serde_json::Value {
    let demands = proposal.demands.iter().map(|demand| {
        json!({
            "busy": demand.busy,
            "rates_hz": demand.rates_hz,
            "fullest": demand.fullest,
            "fullest_of_first": demand.fullest_now,
        })
    });
    let partitions = proposal.partitions.iter().map(|partition| {
        json!({
            "name": partition.name,
            "units": partition.numbers,
            "tasks": partition.tasks,
        })
    });
    json!({
        "name": proposal.name,
        "device": device.kind,
        "demands": demands.collect::<Vec<_>>(),
        "partitions": partitions.collect::<Vec<_>>(),
        "toml": proposal.toml(device, busier),
    })
}

#[cfg(test)]
mod tests;
