//! Figures of the machine and of the daemon's threads. Anything of it may be missing.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_platform::read;

/// At one moment.
#[derive(Debug)]
pub struct Machine {
    at_ns: u64,
    /// Processor time of the daemon's threads so far, by name, in the kernel's ticks.
    ticks: BTreeMap<String, u64>,
    /// The hottest zone, in degrees Celsius.
    pub celsius: Option<f64>,
    /// The mean clock of the cores, in MHz.
    pub mhz: Option<f64>,
}

/// `USER_HZ`, of all architectures that Linux runs on today.
const TICKS_A_SECOND: f64 = 100.0;

impl Machine {
    pub fn look(pid: u32, at_ns: u64) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let threads = tasks.into_iter().flatten().filter_map(|task| {
            let stat = text(&task.ok()?.path().join("stat"))?;
            ticks(&stat)
        });
        Self {
            at_ns,
            ticks: threads.collect(),
            celsius: hottest(Path::new("/sys/class/thermal")),
            mhz: clock(Path::new("/sys/devices/system/cpu")),
        }
    }

    /// The share of a core that a thread used since `before`, from 0 to 1; none if one of both does not know it.
    pub fn share(&self, before: Option<&Self>, thread: &str) -> Option<f64> {
        let before = before?;
        let seconds = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let ticks = self
            .ticks
            .get(thread)?
            .checked_sub(*before.ticks.get(thread)?)?;
        (seconds > 0.0).then(|| (ticks as f64 / TICKS_A_SECOND / seconds).min(1.0))
    }
}

/// A thread's name, and its time in user and kernel mode, by proc(5).
fn ticks(stat: &str) -> Option<(String, u64)> {
    let (_, rest) = stat.split_once('(')?;
    let (name, fields) = rest.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((name.to_owned(), user + system))
}

/// A file of the kernel's, which are short.
fn text(path: &Path) -> Option<String> {
    const BYTES_MAX: u64 = 4096;
    read::text(path, BYTES_MAX).ok()
}

fn number(path: &Path) -> Option<f64> {
    text(path)?.trim().parse().ok()
}

fn hottest(zones: &Path) -> Option<f64> {
    let zones = std::fs::read_dir(zones).ok()?.filter_map(Result::ok);
    let celsius = zones.filter_map(|zone| Some(number(&zone.path().join("temp"))? / 1e3));
    celsius.reduce(f64::max)
}

fn clock(cores: &Path) -> Option<f64> {
    let cores = std::fs::read_dir(cores).ok()?.filter_map(Result::ok);
    let mhz =
        cores.filter_map(|core| Some(number(&core.path().join("cpufreq/scaling_cur_freq"))? / 1e3));
    let all: Vec<f64> = mhz.collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_name_may_have_brackets_and_its_time_is_of_both_modes() {
        let stat = "12 (port (0)) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 1 0";
        assert_eq!(ticks(stat), Some(("port (0)".to_owned(), 100)));
        assert_eq!(ticks("12 (x) S 1"), None);
        assert_eq!(ticks(""), None);
    }
}
