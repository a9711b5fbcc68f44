//! Through the channel: a classifier's frames while a segmenter also runs, which gives outputs, or none.

use std::collections::BTreeMap;
use std::path::Path;

use hdrhistogram::Histogram;
use punctual_client::{Crop, Lost, Options as ClientOptions, PixelFormat, now_ns};
use punctual_conformance::networks;
use punctual_model::{
    Calibration, Package, PackageError, PrepareProfile, Profile, ProfileKey, SolutionMemory,
    StageProfile,
};
use punctual_platform::clock::sleep_until_ns;

use super::{Options, Row, forms, histogram};
use crate::programs::{self, Folder, ProgramError, Programs};

#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("the daemon was lost: {0}")]
    Lost(#[from] Lost),
    #[error("a frame of the task {task} could not be submitted: {why}")]
    Submit { task: &'static str, why: String },
    #[error("the task {task} gave no verdict in time")]
    NoVerdict { task: &'static str },
}

/// Longer than any verdict takes.
const LIMIT_NS: u64 = 20_000_000_000;

/// A client's times in ns.
struct Times {
    /// From a frame's submission until its verdict was read.
    latency: Histogram<u64>,
    /// From the verdict until the client had it, with a view of its outputs.
    view: Histogram<u64>,
    /// Of the outputs of an answer.
    bytes: usize,
}

impl Times {
    fn new() -> Self {
        Self {
            latency: histogram(),
            view: histogram(),
            bytes: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        self.latency += &other.latency;
        self.view += &other.view;
        self.bytes = self.bytes.max(other.bytes);
    }
}

/// With outputs of the segmenter and without, in turns. The classifier runs on the first core.
pub fn measure(options: &Options, cores: [usize; 2]) -> Result<Vec<Row>, ChannelError> {
    let programs = Programs::new(options.bin.as_deref());
    let folder = folder(cores, options.rate)?;
    // By side: the classifier's, the segmenter's.
    let mut all = [(); 2].map(|()| [Times::new(), Times::new()]);
    for _ in 0..options.turns {
        for (outputs, all) in [true, false].into_iter().zip(&mut all) {
            let socket = folder.path("socket");
            let daemon = programs.daemon(&folder.path(manifest_name(outputs)), &socket, [])?;
            let times = turn(options, &socket)?;
            programs::stop(daemon)?;
            all.iter_mut()
                .zip(&times)
                .for_each(|(all, times)| all.add(times));
        }
    }
    let sides = ["segmenter with outputs", "segmenter without outputs"];
    let rows = sides
        .into_iter()
        .zip(&all)
        .flat_map(|(side, [class, segments])| {
            [
                Row::of("classifier's frames", side, class.bytes, &class.latency),
                Row::of(
                    "segmenter's frames",
                    side,
                    segments.bytes,
                    &segments.latency,
                ),
                Row::of(
                    "classifier: verdict to view",
                    side,
                    class.bytes,
                    &class.view,
                ),
                Row::of(
                    "segmenter: verdict to view",
                    side,
                    segments.bytes,
                    &segments.view,
                ),
            ]
        });
    Ok(rows.collect())
}

/// What the daemons are started with.
fn folder(cores: [usize; 2], rate: u32) -> Result<Folder, ChannelError> {
    let folder = Folder::new("answers")?;
    let segmenter = forms::FORMS[SEGMENTER].network();
    for (name, network) in [("class", networks::residual(1)), ("segment", segmenter)] {
        let package = Package::new(network, Calibration::default())?;
        folder.write(&format!("{name}.punctual"), &package.encode())?;
        let profile = profile(&package).to_json();
        folder.write(&format!("{name}.profile.json"), profile.as_bytes())?;
    }
    for outputs in [true, false] {
        let manifest = manifest(cores, rate, outputs);
        folder.write(manifest_name(outputs), manifest.as_bytes())?;
    }
    Ok(folder)
}

/// The classifier's and the segmenter's times.
fn turn(options: &Options, socket: &Path) -> Result<[Times; 2], ChannelError> {
    let frames = u64::from(options.rate) * u64::from(options.seconds);
    let period = 1_000_000_000 / u64::from(options.rate);
    let client = |task, first| camera(socket, task, frames, period, first);
    let start = now_ns();
    std::thread::scope(|scope| {
        // At different times, as cameras are.
        let segments = scope.spawn(|| client("segment", start + period / 3));
        let class = client("class", start);
        let segments = segments.join().expect("no panic");
        Ok([class?, segments?])
    })
}

/// Submits frames at their times and waits for each verdict.
fn camera(
    socket: &Path,
    task: &'static str,
    frames: u64,
    period: u64,
    start: u64,
) -> Result<Times, ChannelError> {
    let soon = || Some(now_ns() + LIMIT_NS);
    let mut client = ClientOptions::new(socket, task, PixelFormat::Rgb8).open(soon())?;
    let mut times = Times::new();
    let behind = now_ns().saturating_sub(start);
    let start = start + behind.next_multiple_of(period);
    for frame in 0..frames {
        sleep_until_ns(start + frame * period);
        let slot = client.slot(soon())?;
        let mut slot = slot.ok_or(ChannelError::NoVerdict { task })?;
        slot.pixels().fill(frame as u8);
        let submitted = now_ns();
        let crop = Crop { x: 0, y: 0 };
        slot.submit(submitted, None, crop)
            .map_err(|error| ChannelError::Submit {
                task,
                why: error.to_string(),
            })?;
        let response = client.verdict(soon())?;
        let response = response.ok_or(ChannelError::NoVerdict { task })?;
        let outputs = response.outputs();
        let tensor = outputs.and_then(|outputs| outputs.at(0));
        let read = now_ns();
        if response.answer.is_none() {
            continue;
        }
        times.latency.saturating_record(read - submitted);
        times
            .view
            .saturating_record(read.saturating_sub(response.finished_ns));
        if let Some(tensor) = tensor {
            times.bytes = tensor.bytes().len();
            // A client reads its answer.
            std::hint::black_box(
                tensor
                    .bytes()
                    .iter()
                    .map(|&byte| u64::from(byte))
                    .sum::<u64>(),
            );
        }
    }
    Ok(times)
}

/// Which of the forms the segmenter's answer has.
const SEGMENTER: usize = 2;
const SEGMENTER_SIDE: u32 = 112;
const CLASSIFIER_SIDE: u32 = 24;

const fn manifest_name(outputs: bool) -> &'static str {
    if outputs { "with.toml" } else { "without.toml" }
}

fn manifest(cores: [usize; 2], rate: u32, outputs: bool) -> String {
    let mut text = "[daemon]\nboard = \"host\"\n".to_owned();
    for (core, (name, side, criticality)) in cores.into_iter().zip([
        ("class", CLASSIFIER_SIDE, "real-time"),
        ("segment", SEGMENTER_SIDE, "best-effort"),
    ]) {
        let deadline = match criticality {
            "real-time" => "deadline_ms = 100\n",
            _ => "",
        };
        let none = if name == "segment" && !outputs {
            "outputs = []\n"
        } else {
            ""
        };
        text += &format!(
            r#"
[[model]]
name = "{name}"
package = "{name}.punctual"

[[partition]]
name = "{name}"
cores = [{core}]

[[task]]
name = "{name}"
model = "{name}"
partition = "{name}"
criticality = "{criticality}"
rate_hz = {rate}
{deadline}{none}queue_depth = 32
frame = {{ format = "rgb8", width = {side}, height = {side}, crop = [{side}, {side}] }}
"#
        );
    }
    text
}

/// Figures that any machine keeps: what a frame takes is measured from outside.
fn profile(package: &Package) -> Profile {
    const STAGE_NS: u64 = 5_000_000;
    let stages = 0..package.network().stages.len() as u8;
    let stages = stages.flat_map(|stage| {
        let sizes = [1, 2].into_iter();
        sizes.flat_map(move |units| [1, 2, 4, 8].map(|batch| (stage, units, batch)))
    });
    let input = package.network().input;
    Profile {
        key: ProfileKey {
            board: "host".to_owned(),
            machine: punctual_device_cpu::machine(),
            package: package.hash().to_string(),
            timing: package.timing().to_string(),
            power_mode: "default".to_owned(),
            clocks: punctual_device_cpu::clocks(),
        },
        settings: BTreeMap::new(),
        same_as: Vec::new(),
        stages: stages
            .map(|(stage, units, batch)| StageProfile {
                stage,
                batch,
                units,
                samples: 1_000,
                p50_ns: STAGE_NS * u64::from(batch),
                p99_ns: STAGE_NS * u64::from(batch),
                max_ns: STAGE_NS * u64::from(batch),
            })
            .collect(),
        prepare: vec![PrepareProfile {
            format: "rgb8".to_owned(),
            width: input.width,
            height: input.height,
            crop_width: input.width,
            crop_height: input.height,
            letterbox: false,
            samples: 1_000,
            p50_ns: 1_000_000,
            p99_ns: 1_000_000,
            max_ns: 1_000_000,
        }],
        beside: Vec::new(),
        preemption_ns_max: 500_000,
        solutions: Vec::new(),
        solution_memory: SolutionMemory::default(),
        look_stride: None,
        verified: None,
        field: None,
        launches: Vec::new(),
        prepare_on_device: Vec::new(),
        preemption: Vec::new(),
    }
}
