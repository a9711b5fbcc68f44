//! From the start of a process to the first answer, with everything loaded when it is wanted and with PASK:
//! its Figure 6.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_cuda_measuring::cold_start::{ModuleLoad, Order, Start, first_answers};
use punctual_device_cuda::PAGE_BYTES;
use punctual_model::{Calibration, Network, Package};
use punctual_platform::clock;
use punctual_report::{Axis, Bars};
use punctual_roofline::structures::Structure;
use serde::{Deserialize, Serialize};

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig;
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct ColdStart;

/// When things were done, in nanoseconds on the one clock, and what was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Times {
    /// How long `cuInit` took, and making the context: the same work in every order.
    init: u64,
    context: u64,
    opened: u64,
    lowered: u64,
    loaded: u64,
    first: u64,
    deepest: u64,
    /// Launches by kernels that stood in for others.
    replaced: usize,
    /// Modules that were loaded before the last answer.
    modules: usize,
}

type Starts = Vec<Times>;

impl Step for ColdStart {
    fn name(&self) -> &'static str {
        "cold-start"
    }

    fn about(&self) -> &'static str {
        "from the start of a process to the first answer, reactive and interleaved (PASK, Figure 6)"
    }

    fn seconds(&self) -> u32 {
        22
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let structures = [Structure::ResNet50, Structure::ResNet152];
        let mut left = session.size(structures.len(), 1) as u64;
        let mut found = Vec::new();
        for network in networks::of(session, &structures, 224) {
            let name = network.name.clone();
            let package = Kept::new(session, network)?;
            found.push((name, starts(session, &package.0, 950 / left)?));
            left -= 1;
        }
        Ok(report(&found))
    }
}

/// A package that is removed when it is no longer needed.
struct Kept(PathBuf);

impl Kept {
    fn new(session: &Session<'_>, network: Network) -> Result<Self, StepError> {
        let path = session
            .folder
            .path()
            .join(format!("{}.punctual", network.name));
        Package::new(network, Calibration::default())?.write(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A file left behind does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts in every order, one of each in turn.
fn starts(session: &Session<'_>, package: &Path, permille: u64) -> Result<Vec<Starts>, StepError> {
    let mut found = vec![Vec::new(); Order::ALL.len()];
    for () in session.rounds(20, 1, permille) {
        for (order, found) in Order::ALL.into_iter().zip(&mut found) {
            found.push(start(session, package, order)?);
        }
    }
    Ok(found)
}

/// One start in a process of its own, counted from just before it is started.
fn start(session: &Session<'_>, package: &Path, order: Order) -> Result<Times, StepError> {
    let program = std::env::current_exe().map_err(StepError::Process)?;
    let mut command = Command::new(program);
    command
        .args(["gpu", "--cold-start", order.name(), "--package"])
        .arg(package)
        .args(["--device", &session.device.to_string(), "--out"])
        .arg(session.folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if session.quick {
        command.arg("--quick");
    }
    let started = clock::now_ns();
    let output = command.output().map_err(StepError::Process)?;
    let times: Option<Times> = serde_json::from_slice(&output.stdout).ok();
    let times = times.filter(|_| output.status.success());
    let times = times.ok_or(StepError::Started(output.status))?;
    Ok(times.since(started))
}

/// What such a process does: answers once, and prints when things were done.
pub fn answer_once(
    session: &Session<'_>,
    package: &Path,
    order: &str,
) -> Result<String, StepError> {
    let order = Order::ALL.into_iter().find(|each| each.name() == order);
    let start = Start {
        page_bytes: session.size(PAGE_BYTES, 256 << 10),
        ..Start::new(order.unwrap_or(Order::Reactive))
    };
    let picture = |network: &Network| rig::picture(network, 0);
    let before = clock::now_ns();
    let gpu = session.gpu()?;
    let init = clock::now_ns() - before;
    let answers = first_answers(gpu, package, picture, &start)?;
    let exits = answers.exits.iter().map(|exit| exit.at.as_nanos());
    let deepest = exits.clone().max().unwrap_or(0);
    let before = |load: &&ModuleLoad| load.to.as_nanos() <= deepest;
    let times = Times {
        init,
        context: answers.context_ns,
        opened: answers.opened.as_nanos(),
        lowered: answers.lowered.as_nanos(),
        loaded: answers.loaded.as_nanos(),
        first: exits.min().unwrap_or(0),
        deepest,
        replaced: answers.replaced.len(),
        modules: answers.loads.iter().filter(before).count(),
    };
    Ok(serde_json::to_string(&times).expect("plain data"))
}

impl Times {
    /// The time to the first answer but for the start of CUDA, which no order of ours changes.
    const fn ours(&self) -> u64 {
        self.first.saturating_sub(self.init + self.context)
    }

    fn since(mut self, start: u64) -> Self {
        let times = [
            &mut self.opened,
            &mut self.lowered,
            &mut self.loaded,
            &mut self.first,
            &mut self.deepest,
        ];
        for time in times {
            *time = time.saturating_sub(start);
        }
        self
    }
}

fn latency(starts: &Starts, of: fn(&Times) -> u64) -> Latency {
    Latency::of(starts.iter().map(of).collect())
}

fn report(found: &[(String, Vec<Starts>)]) -> StepResult {
    let mut result = StepResult::default();
    let before = ["network", "order"];
    let after = [
        "sooner than reactive",
        "but for CUDA's start",
        "cuInit, p50",
        "context",
        "opened",
        "lowered",
        "loaded",
        "deepest exit",
        "stood in",
        "modules",
    ];
    let title =
        "To the first exit's answer, from before the process was started, batch 1; times in us";
    let mut sheet = Sheet::of_latencies(title, &before, &after);
    let at = |order| {
        Order::ALL
            .iter()
            .position(|each| *each == order)
            .unwrap_or(0)
    };
    let ours = at(Order::Interleaved);
    let reactive = at(Order::Reactive);
    for (name, orders) in found {
        let first = |order: usize| latency(&orders[order], |times| times.first);
        let rest = |order: usize| latency(&orders[order], Times::ours);
        for (position, order) in Order::ALL.into_iter().enumerate() {
            let starts = &orders[position];
            let us = |of| format!("{:.0}", latency(starts, of).p50_us);
            let last = starts.last();
            let count = |of: fn(&Times) -> usize| last.map_or(0, of).to_string();
            let after = [
                format!("{:.2}x", first(reactive).over(&first(position))),
                format!("{:.2}x", rest(reactive).over(&rest(position))),
                us(|times| times.init),
                us(|times| times.context),
                us(|times| times.opened),
                us(|times| times.lowered),
                us(|times| times.loaded),
                us(|times| times.deepest),
                count(|times| times.replaced),
                count(|times| times.modules),
            ];
            let what = [name.clone(), order.name().to_owned()];
            sheet.latency(what, &first(position), after);
        }
        result.figure("cold-start", name, rest(reactive).over(&rest(ours)));
    }
    let series = Order::ALL.iter().enumerate().map(|(position, order)| {
        let ms =
            |orders: &Vec<Starts>| latency(&orders[position], |times| times.first).p50_us / 1e3;
        let medians = found.iter().map(|(_, orders)| Some(ms(orders)));
        (order.name().to_owned(), medians.collect())
    });
    result.bars.push(Bars {
        title: "Median to the first exit's answer".into(),
        y: Axis::linear("ms"),
        groups: found.iter().map(|(name, _)| name.clone()).collect(),
        series: series.collect(),
    });
    result.tables.push(sheet);
    result.note(
        "reactive: all is lowered, all weights are loaded, and each launch first loads its kernel: PASK's baseline. \
         interleaved: on two threads, absent kernels replaced after the milestone; no-milestone: replaced from the beginning. Packages are in the page cache; the \
         start of CUDA in the process is part of every time but that behind `but for CUDA's start`, which the bound is about: \
         where `cuInit` and the context take most of a start, no order can be several times sooner. Ways alternate, \
         start by start.",
    );
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_how_much_sooner_the_first_answer_comes_than_reactively_once_cuda_is_there() {
        let times = |first| Times {
            init: 300_000,
            context: 200_000,
            opened: 1,
            lowered: 2,
            loaded: 3,
            first,
            deepest: 2 * first,
            replaced: 0,
            modules: 1,
        };
        let orders = Order::ALL.map(|order| match order {
            Order::Reactive => vec![times(3_500_000)],
            _ => vec![times(1_000_000)],
        });
        let result = report(&[("a".to_owned(), orders.to_vec())]);
        assert_eq!(result.figures[0].value, 6.0);
        assert_eq!(result.tables[0].rows.len(), Order::ALL.len());
        // Of the whole start: 3.5.
        assert!(
            result.tables[0]
                .rows
                .iter()
                .flatten()
                .any(|cell| cell == "3.50x"),
            "{:?}",
            result.tables[0].rows
        );
        let since = times(5_000).since(1_000);
        assert_eq!(
            (since.opened, since.first, since.deepest),
            (0, 4_000, 9_000)
        );
    }
}
