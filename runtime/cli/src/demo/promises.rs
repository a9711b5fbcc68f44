//! Rates and deadlines of the demo's cameras that this machine can promise, now.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_daemon::StartupError;
use punctual_device::profile::Effort;
use punctual_model::Profile;
use punctual_plan::Policies;
use punctual_platform::{clock, output};

use super::MANIFEST;
use super::error::DemoError;
use crate::cache;
use crate::folder::Folder;

/// How many times slower the cameras may be, at most: a frame every second.
const SLOWER: [f64; 12] = [
    1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0,
];

/// A machine of which other programs use more than this share is busy: figures that are measured then are theirs, too.
const BUSY_SHARE: f64 = 0.15;

/// For how long the machine is looked at.
const LOOK_NS: u64 = 300_000_000;

/// What the demo promises.
pub struct Promises {
    pub profiles: BTreeMap<String, Profile>,
    /// The factor by which the cameras send fewer frames, each due later; 1: as they should.
    pub slower: f64,
}

/// Writes profiles of the packages into `folder`, and a manifest there that the daemon can serve by them. Networks are measured if
/// this machine has no figures of them, or figures by which the demo's own rates cannot be promised. What is measured on a busy
/// machine is not kept for the next time.
pub fn prepare(folder: &Folder, recorder: &str, again: bool) -> Result<Promises, DemoError> {
    let manifest = folder.write("manifest.toml", (MANIFEST.to_owned() + recorder).as_bytes());
    let manifest = manifest.map_err(DemoError::Folder)?;
    let busy = busy_share();
    let is_busy = busy > BUSY_SHARE;
    if is_busy {
        output::note(format_args!(
            "this machine is busy: other programs use {:.0}% of its processor time. Answers may be late or shallow, \
             and measuring takes up to a minute; stop the others, and try again",
            100.0 * busy
        ));
    }
    let measure = |again| cache::profiles(&manifest, MANIFEST, Effort::Brief, again, !is_busy);
    let mut found = measure(again)?;
    let mut refused = problem(&manifest)?;
    // Kept figures may be from a busy time, and a quiet machine may have stood still while it was measured.
    if refused.is_some() && (!found.is_new || !is_busy) {
        output::note(
            "by the figures that this machine has of the networks the cameras' rates cannot be promised",
        );
        found = measure(true)?;
        refused = problem(&manifest)?;
    }
    let factor = match refused {
        Some(_) => slow_down(&manifest, recorder)?,
        None => 1.0,
    };
    if factor > 1.0 {
        output::note(format_args!(
            "the cameras' rates cannot be promised here{}: they send {factor} times fewer frames, and each is due {factor} times later \
             (`--profile-again` measures anew)",
            if is_busy { " while it is busy" } else { "" }
        ));
    }
    Ok(Promises {
        profiles: found.profiles,
        slower: factor,
    })
}

/// Writes the demo's manifest, and `recorder` after it, with rates low enough that they can be promised. Returns how many times
/// fewer frames that are.
pub fn slow_down(manifest: &Path, recorder: &str) -> Result<f64, DemoError> {
    for factor in SLOWER {
        let text = slowed(MANIFEST, factor) + recorder;
        std::fs::write(manifest, text).map_err(DemoError::Folder)?;
        if problem(manifest)?.is_none() {
            return Ok(factor);
        }
    }
    Err(DemoError::TooSlow {
        slower: SLOWER[SLOWER.len() - 1],
    })
}

/// Why the manifest cannot be promised; none: it can.
pub fn problem(manifest: &Path) -> Result<Option<StartupError>, DemoError> {
    let daemon = punctual_daemon::Options {
        manifest: Some(manifest.to_owned()),
        ..punctual_daemon::Options::default()
    };
    match punctual_daemon::plan(&daemon, &Policies::shipped()) {
        Ok(_) => Ok(None),
        Err(problem @ StartupError::Plan(_)) => Ok(Some(problem)),
        Err(other) => Err(DemoError::Plan(other)),
    }
}

/// The manifest with rates lower and deadlines later by a factor.
fn slowed(manifest: &str, factor: f64) -> String {
    let line = |line: &str| match line.split_once(" = ") {
        Some(("rate_hz", rate)) => format!("rate_hz = {:?}\n", number(rate) / factor),
        Some(("deadline_ms", deadline)) => {
            format!("deadline_ms = {:?}\n", number(deadline) * factor)
        }
        _ => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

fn number(text: &str) -> f64 {
    text.parse().expect("the demo's manifest has numbers there")
}

/// The share of all processors' time that is in use, looked at for a moment; 0 where the kernel does not say.
fn busy_share() -> f64 {
    let Some(before) = Ticks::now() else {
        return 0.0;
    };
    clock::sleep_until_ns(clock::now_ns() + LOOK_NS);
    Ticks::now().map_or(0.0, |now| now.busy_since(&before))
}

/// Processor time since the start of the machine, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// By the line `cpu`, proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are part of the first.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map_while(|tick| tick.parse().ok())
            .collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum();
        Some(Self { idle, all })
    }

    fn busy_since(&self, before: &Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        if all == 0 {
            return 0.0;
        }
        1.0 - (idle.min(all) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_cameras_have_lower_rates_and_later_deadlines_in_a_manifest_that_is_else_the_same() {
        let slower = slowed(MANIFEST, 1.5);
        let lines: Vec<&str> = slower.lines().collect();
        for line in [
            "rate_hz = 20.0",
            "deadline_ms = 49.5",
            "rate_hz = 40.0",
            "deadline_ms = 18.0",
        ] {
            assert!(lines.contains(&line), "{line} in {slower}");
        }
        let others = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter(|line| !line.contains("rate_hz") && !line.contains("deadline_ms"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(others(&slower), others(MANIFEST));
    }

    #[test]
    fn a_machine_is_as_busy_as_it_was_not_idle() {
        let at = |idle: u64, user: u64| {
            let stat = format!("cpu  {user} 0 10 {idle} 5 0 0 3 99 0\ncpu0 1 2 3\n");
            Ticks::parse(&stat).expect("a line of processors")
        };
        assert_eq!(
            at(100, 50),
            Ticks {
                idle: 105,
                all: 168
            }
        );
        assert!((at(130, 80).busy_since(&at(100, 50)) - 0.5).abs() < 1e-9);
        assert_eq!(at(100, 50).busy_since(&at(100, 50)), 0.0);
        assert_eq!(Ticks::parse("processor 1"), None);
        assert_eq!(Ticks::parse("cpu 1 2"), None);
    }
}
