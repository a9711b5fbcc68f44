//! `punctual plan`: sessions and queries packed onto the boards of a fleet.

use std::path::PathBuf;

use punctual_fleet::{FleetInputs, FleetPlan};
use punctual_plan::Diagnostics;
use punctual_platform::files::write_whole;
use punctual_platform::output;

use punctual_platform::termination::Termination;

/// What to plan, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual plan examples/fleet.toml
  punctual plan fleet.toml --svg fleet.svg
  punctual plan fleet.toml --json | jq '.nodes[].occupancy'

Packs sessions (a model, a rate, a deadline) and queries (several models, one deadline) onto the
partitions of a fleet of boards, with the planner of Nexus: deadlines of queries are divided so
that they take the fewest boards, models that begin with the same stages share batches, and sessions
share duty cycles. The file is described in docs/planning.md.

TERMINATION CODES: 0 everything has a place; 1 the fleet is too small; 3 the file is invalid; 4 a file
is missing, unreadable or cannot be written.")]
pub struct Options {
    /// The fleet (TOML).
    fleet: PathBuf,
    /// Print the plan, or the problems, as JSON.
    #[arg(long)]
    json: bool,
    /// Write a picture of the duty cycles.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Prints the plan or the problems.
pub fn run(options: &Options) -> Termination {
    let plan = match FleetInputs::read(&options.fleet).and_then(|inputs| FleetPlan::build(&inputs))
    {
        Ok(plan) => plan,
        Err(errors) => return refuse(&errors, options.json),
    };
    for key in &plan.renamed_keys {
        output::note(format!("warning: {key}"));
    }
    if let Some(path) = &options.svg
        && let Err(error) = write_whole(path, plan.to_svg().as_bytes())
    {
        output::note(format_args!(
            "punctual plan: cannot write {}: {error}",
            path.display()
        ));
        return Termination::File;
    }
    let text = if options.json {
        plan.to_json()
    } else {
        format!("{plan:0$}", output::width())
    };
    let termination = if plan.unplaced.is_empty() {
        Termination::Done
    } else {
        Termination::BadResult
    };
    termination.once_printed("plan", output::text(text))
}

fn refuse(errors: &Diagnostics, json: bool) -> Termination {
    let termination = if errors.is_about_files_only() {
        Termination::File
    } else {
        Termination::BadInput
    };
    if json {
        return termination.once_printed("plan", output::text(errors.to_json()));
    }
    output::note(errors);
    termination
}
