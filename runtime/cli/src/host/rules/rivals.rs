//! Real-time threads of other processes on the plan's cores.

use punctual_platform::rivals::Rival;

use crate::host::{Cores, Finding, Gravity, Machine, Subject, shown};

const REMEDY: &str = "move them to other cores (taskset -p, or CPUAffinity= of their unit), or keep these cores out of the manifest";

pub fn realtime_threads(machine: &Machine, cores: &Cores) -> Option<Finding> {
    // A record from before this was looked at has nothing to tell.
    machine.text("/proc/self/stat")?;
    let (seen, ours) = (machine.rivals(), cores.all());
    let unseen = seen.unseen.map(|unseen| unseen.to_string());
    let Some(named) = seen.named(&ours) else {
        return Some(match unseen {
            Some(unseen) => Finding::new(Subject::Rivals, Gravity::Notice, unseen)
                .mended_by("sudo punctual doctor"),
            None => Finding::good(Subject::Rivals, format!("none on cores {}", shown(&ours))),
        });
    };
    let stays = |rival: &Rival| rival.is_kept_to(&ours);
    let gravity = if seen.on(&ours).any(stays) {
        Gravity::Costly
    } else {
        // It may run elsewhere when one of the daemon's threads runs here.
        Gravity::Notice
    };
    let unseen = unseen.map_or_else(String::new, |unseen| format!("; {unseen}"));
    let finding = Finding::new(Subject::Rivals, gravity, named + &unseen);
    Some(finding.mended_by(REMEDY))
}
