//! Plans of files, to play a recording under.

use std::path::{Path, PathBuf};

use punctual_core::PolicySpec as _;
use punctual_evaluation::format;
use punctual_evaluation::recorded::Planned;
use punctual_plan::{Plan, PolicyChoice};
use punctual_platform::read;
use punctual_recording::Names;
use punctual_simulator::recording::setting;

use crate::workload::Error;

/// That of a manifest, which is planned as the daemon would on this machine, or of a workload file; `policy` instead of its
/// own.
pub fn of_file(
    path: &Path,
    profiles: &[PathBuf],
    policy: Option<&PolicyChoice>,
) -> Result<Planned, Error> {
    if names_packages(path) {
        return of_manifest(path, profiles, policy);
    }
    let workload = format::read(path).map_err(Error::Format)?;
    let chosen = policy.cloned().or_else(|| {
        let default = PolicyChoice::default();
        let mut set = workload.policies.into_iter();
        set.find(|policy| policy.name() == default.name())
    });
    let policy = chosen.unwrap_or_default();
    let config = workload.scenario.config(&policy);
    let names = setting(&workload.scenario, &config, serde_json::Value::Null).names;
    Ok(Planned {
        config,
        names,
        policy,
    })
}

fn of_manifest(
    path: &Path,
    profiles: &[PathBuf],
    policy: Option<&PolicyChoice>,
) -> Result<Planned, Error> {
    let plan = plan(path, profiles)?;
    let names = Names {
        tasks: plan.tasks.iter().map(|task| task.name.clone()).collect(),
        models: plan.models.iter().map(|model| model.name.clone()).collect(),
        partitions: plan.partitions.iter().map(|one| one.name.clone()).collect(),
    };
    Ok(Planned {
        config: plan.scheduler,
        names,
        policy: policy.cloned().unwrap_or(plan.policy),
    })
}

/// What the daemon would serve of a manifest on this machine.
pub fn plan(manifest: &Path, profiles: &[PathBuf]) -> Result<Plan, Error> {
    let options = punctual_daemon::Options {
        manifest: Some(manifest.to_owned()),
        profiles: profiles.to_vec(),
        ..punctual_daemon::Options::default()
    };
    let plan = punctual_daemon::plan(&options, &punctual_baselines::all());
    plan.map_err(|error| Error::Manifest(Box::new(error)))
}

/// Models of a manifest are packages; those of a workload file are times. What cannot be read is left to the workload's reader,
/// which says why.
pub fn names_packages(path: &Path) -> bool {
    let text = read::text(path, read::TEXT_BYTES_MAX).unwrap_or_default();
    let table: toml::Table = toml::from_str(&text).unwrap_or_default();
    let all = ["model", "task"].iter().filter_map(|key| table.get(*key));
    let all = all.filter_map(toml::Value::as_array).flatten();
    all.into_iter().any(|named| named.get("package").is_some())
}
