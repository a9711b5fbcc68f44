//! `channel-torture` against the daemon: its clients compare each answer with their frame, and what they counted
//! agrees with what the daemon did.

use std::collections::BTreeMap;

use crate::bed::{CameraPlan, Daemon, DaemonPlan, TestBed};
use crate::manifest::Task;
use crate::outcome::Failure;

/// What the torturer reports about itself, as far as it is read here.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Torture {
    submitted: u64,
    proved: u64,
    kills: u64,
    findings: BTreeMap<String, serde_json::Value>,
}

pub fn for_seconds(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let amount = Amount {
        frames: 40_000,
        kills: 40,
        limit_s: 120,
    };
    torture(bed, &amount)
}

/// How long ten million frames may take, in seconds.
pub const LONG_S: u64 = 3_000;

pub fn for_long(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let amount = Amount {
        frames: 10_000_000,
        kills: 10_000,
        limit_s: LONG_S,
    };
    torture(bed, &amount)
}

struct Amount {
    frames: u64,
    kills: u64,
    limit_s: u64,
}

/// Lets `channel-torture` loose on a daemon that also serves a real-time camera, and compares what all three counted.
fn torture(bed: &mut TestBed<'_>, amount: &Amount) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Mirror]))?;
    let fast = bed.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    let said = run_torture(bed, &daemon, amount)?;
    let counts = bed.stop_camera(&fast)?;
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&counts])?;
    // A client that was killed may have begun one more submission than it made; hostile clients submit, too.
    let daemons = account.submitted(Task::Mirror.name());
    if daemons < said.submitted.saturating_sub(said.kills) {
        return Err(Failure::Disagree {
            task: Task::Mirror.name().to_owned(),
            what: "submitted",
            cameras: said.submitted,
            daemon: daemons,
        });
    }
    if said.proved == 0 {
        return Err(Failure::Missing {
            what: "answers to tortured clients",
        });
    }
    bed.measure("tortured_missed_share", account.missed_share(&counts));
    bed.note_unserved(&counts);
    bed.effect(counts.late, "frames of the real-time camera answered late");
    bed.effect(counts.skipped, "of its frames dropped for want of a slot");
    bed.effect(
        said.submitted,
        "frames of tortured clients, each with one verdict",
    );
    bed.effect(
        said.proved,
        "of their answers compared number by number with the frame",
    );
    bed.effect(said.kills, "clients killed");
    bed.effect(
        account.channel_faults,
        "connections ended by the daemon: their client wrote what no client writes",
    );
    Ok(())
}

fn run_torture(
    bed: &mut TestBed<'_>,
    daemon: &Daemon,
    amount: &Amount,
) -> Result<Torture, Failure> {
    let program = bed.stage.torture.clone().unwrap_or_default();
    let (frames, kills) = (amount.frames.to_string(), amount.kills.to_string());
    let seed = bed.seed.to_string();
    let command = [
        program.as_str(),
        "--socket",
        &daemon.socket,
        "--task",
        Task::Mirror.name(),
        "--mirrors",
        "--clients",
        "4",
        "--hostile",
        "1",
        "--kills",
        &kills,
        "--frames",
        &frames,
        "--seed",
        &seed,
        "--json",
    ];
    let output = bed.try_command("torture the channel", amount.limit_s, &command)?;
    let said: Torture = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if output.code != Some(0) {
        let findings = said.findings.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(Failure::Ending {
            who: "channel-torture".to_owned(),
            found: format!("{:?} ({findings})", output.code),
            wanted: "code 0",
            words: output.stderr,
        });
    }
    Ok(said)
}
