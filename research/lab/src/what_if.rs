//! What would have become of recorded frames under another policy or plan.

use punctual_core::{PolicySpec as _, TaskId};
use punctual_evaluation::recorded::{Log, Opened, Played};
use punctual_evaluation::report::{self, Row, span};
use punctual_platform::output;
use punctual_report::{Table, percent};
use punctual_simulator::audit::Auditor;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::recorded::TimeSources;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::summary::Summary;

use crate::replay::{Error, Options};
use crate::simulate::audited;
use crate::{planned, workload};

pub fn run(options: &Options, opened: &Opened<'_>) -> Result<(), Error> {
    let log = Log::of(opened)?;
    let set = std::slice::from_ref(&opened.policy);
    let policy = options.policy.as_deref();
    let policy = policy.map(|name| workload::policy(name, set)).transpose()?;
    let mut played = match &options.manifest {
        None => Played::again(opened, &log)?,
        Some(path) => {
            let plan = planned::of_file(path, &options.profiles, policy.as_ref())?;
            Played::under(opened, &log, &plan)?
        }
    };
    let policy = policy.unwrap_or_else(|| played.policy.clone());
    let config = played.scenario.config(&policy);
    let mut auditor = options
        .audit
        .then(|| Auditor::new(&config, policy.contract()));
    let settings = Settings {
        seed: options.seed,
        keep_requests: false,
    };
    let outcome = simulate(&played.scenario, &policy, 1.0, settings, &mut auditor);
    let outcome = outcome.map_err(workload::Error::from)?;
    let name = std::mem::take(&mut played.scenario.name);
    let recorded = played.recorded(&name, opened.policy.name());
    let summary = outcome.summary();
    let what_if = Row::new(&name, policy.name(), 1.0, options.seed, &summary);
    let found = WhatIf {
        log: &log,
        played: &played,
        outcome: &outcome,
        rows: [recorded, what_if],
    };
    if options.json {
        output::line(found.json())?;
    } else {
        output::text(found.text())?;
    }
    if let Some(auditor) = auditor {
        audited(&auditor)?;
    }
    Ok(())
}

struct WhatIf<'a> {
    log: &'a Log,
    played: &'a Played,
    outcome: &'a Outcome,
    /// As recorded, and as it would have been.
    rows: [Row; 2],
}

impl WhatIf<'_> {
    fn text(&self) -> String {
        let width = output::width();
        let mut text = format!(
            "{:width$}\n{:width$}\n",
            report::comparison(&self.rows),
            self.tasks()
        );
        let times = self.outcome.times.unwrap_or_default();
        text += &format!("{}\n", sources(&times));
        for note in self.notes() {
            text += &format!("{note}\n");
        }
        text
    }

    /// A line for each task as recorded, and one as it would have been.
    fn tasks(&self) -> Table {
        let headings = [
            "task", "", "requests", "on time", "late", "rejected", "failed", "exits", "accuracy",
            "p50", "p99", "max",
        ];
        let mut table = Table::new(&headings, 2).keys(2);
        for (index, task) in self.played.scenario.tasks.iter().enumerate() {
            let id = TaskId(index as u16);
            let recorded = self.played.summary(Some(id));
            let what_if = self.outcome.summary_of(id);
            for (when, summary) in [("recorded", recorded), ("what if", what_if)] {
                table.row(cells(&task.name, when, &summary));
            }
        }
        table
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.log.omitted.notes();
        for (task, frames) in &self.played.without_task {
            notes.push(format!(
                "the plan has no task {task}: its {frames} frames are left out"
            ));
        }
        for model in &self.played.without_model {
            notes.push(format!(
                "the plan has no model {model} with as many stages: none of its times and answers are taken over"
            ));
        }
        notes
    }

    fn json(&self) -> String {
        let [recorded, what_if] = &self.rows;
        let times = self.outcome.times.unwrap_or_default();
        let of_task = |(index, task): (usize, &punctual_simulator::scenario::Task)| {
            let id = TaskId(index as u16);
            serde_json::json!({
                "task": task.name,
                "recorded": self.played.summary(Some(id)),
                "what_if": self.outcome.summary_of(id),
            })
        };
        let tasks = self.played.scenario.tasks.iter().enumerate();
        let json = serde_json::json!({
            "recorded": recorded,
            "what_if": what_if,
            "times": times,
            "tasks": tasks.map(of_task).collect::<Vec<_>>(),
            "omitted": self.log.omitted,
            "tasks_without_match": self.played.without_task,
            "models_without_match": self.played.without_model,
        });
        serde_json::to_string_pretty(&json).expect("plain data")
    }
}

fn cells(task: &str, when: &str, summary: &Summary) -> [String; 12] {
    let exits: Vec<String> = summary.exits.iter().map(u64::to_string).collect();
    [
        task.to_owned(),
        when.to_owned(),
        summary.submitted.to_string(),
        summary.on_time.to_string(),
        summary.late.to_string(),
        summary.rejected.sum().to_string(),
        summary.failed.sum().to_string(),
        exits.join(" "),
        percent(summary.accuracy),
        span(summary.latency_us.p50),
        span(summary.latency_us.p99),
        span(summary.latency_us.max),
    ]
}

/// How much of a run had which times.
pub fn sources(times: &TimeSources) -> String {
    let all = (times.own + times.drawn + times.scaled + times.planned).max(1) as f64;
    let share = |count: u64| percent(count as f64 / all);
    format!(
        "times of stages: {} measured for the same frame, {} for other frames, {} at another batch or width and scaled, {} the \
         plan's budgets",
        share(times.own),
        share(times.drawn),
        share(times.scaled),
        share(times.planned)
    )
}
