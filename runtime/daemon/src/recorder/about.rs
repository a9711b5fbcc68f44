//! What a recording says about the daemon that made it, so that it can be understood away from the robot.

use punctual_core::{StageId, TaskId};
use punctual_plan::{DeviceKind, ModelPlan, PlanInputs};
use punctual_recording::{ExitLabels, Labels, Names, Setting};

use super::boxes::BoxSink;
use crate::describe;
use crate::validate::Validated;

/// What every recording of a daemon begins with.
pub struct About {
    pub setting: Setting,
    pub files: Vec<Attached>,
    /// By task; none where no pictures are recorded.
    pub labels: Option<Vec<Labels>>,
}

/// A file in a recording.
pub struct Attached {
    pub name: String,
    pub media_type: &'static str,
    pub content: Vec<u8>,
}

impl About {
    pub fn of(validated: &Validated, boxes: Option<&BoxSink>) -> Self {
        let (plan, inputs) = (&validated.plan, &validated.inputs);
        let names = Names {
            tasks: plan.tasks.iter().map(|task| task.name.clone()).collect(),
            models: plan.models.iter().map(|model| model.name.clone()).collect(),
            partitions: plan.partitions.iter().map(|p| p.name.clone()).collect(),
        };
        let setting = Setting {
            config: plan.scheduler.clone(),
            policy: json(&plan.policy),
            names,
        };
        let mut files = vec![
            Attached {
                name: "manifest.toml".to_owned(),
                media_type: "application/toml",
                content: inputs.manifest_text.clone().into_bytes(),
            },
            Attached::json("plan.json", plan),
            Attached::json("build.json", &Build::of(inputs)),
        ];
        files.extend(
            plan.models
                .iter()
                .filter_map(|model| profile(model, inputs)),
        );
        let labels = (!plan.recorder.payloads.is_none()).then(|| labels(validated, boxes));
        Self {
            setting,
            files,
            labels,
        }
    }
}

impl Attached {
    fn json(name: &str, value: &impl serde::Serialize) -> Self {
        Self {
            name: name.to_owned(),
            media_type: "application/json",
            content: serde_json::to_vec(value).expect("plain data"),
        }
    }
}

/// By task.
fn labels(validated: &Validated, boxes: Option<&BoxSink>) -> Vec<Labels> {
    let plan = &validated.plan;
    let tasks = plan.tasks.iter().zip(describe::facts(validated));
    let labels = (0..)
        .map(TaskId)
        .zip(tasks)
        .map(|(id, (task, exits))| Labels {
            classes: plan.models[task.model.index()].classes.clone(),
            exits: (0..)
                .map(StageId)
                .zip(&exits)
                .map(|(stage, exit)| ExitLabels {
                    has_class: exit.has_class,
                    has_confidence: exit.has_confidence,
                    has_boxes: boxes.is_some_and(|boxes| boxes.has_boxes(id, stage)),
                })
                .collect(),
        });
    labels.collect()
}

fn json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("plain data")
}

/// The program and the machine.
#[derive(serde::Serialize)]
struct Build<'a> {
    version: &'static str,
    machine: &'a str,
    clocks: &'a str,
    cores: &'a [u16],
    realtime: bool,
    kernel: String,
}

impl<'a> Build<'a> {
    fn of(inputs: &'a PlanInputs) -> Self {
        let host = &inputs.host;
        let kernel = punctual_platform::read::text("/proc/sys/kernel/osrelease".as_ref(), 256);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: &host.machine,
            clocks: &host.clocks,
            cores: &host.cores.available,
            realtime: host.realtime,
            kernel: kernel.unwrap_or_default().trim().to_owned(),
        }
    }
}

/// The profile that a model's budgets are from.
fn profile(model: &ModelPlan, inputs: &PlanInputs) -> Option<Attached> {
    let on_processor = model.device == DeviceKind::Cpu;
    let mut profiles = inputs.profiles.iter();
    let profile = profiles.find_map(|input| {
        let profile = input.profile.as_ref().ok()?;
        let key = &profile.key;
        let is_of_machine = (key.machine == inputs.host.machine) == on_processor;
        (key.package == model.hash && key.board == inputs.board.name && is_of_machine)
            .then_some(profile)
    })?;
    let name = format!("profile/{}", model.name);
    Some(Attached {
        name,
        media_type: "application/json",
        content: profile.to_json().into_bytes(),
    })
}
