//! Networks against PyTorch with cuDNN, where it is installed: the same operators and shapes in
//! halves, a few rounds of each in turn.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use punctual_device_cuda::driver::Attribute;
use punctual_device_cuda::{CudaDevice, Division};
use punctual_model::Network;
use punctual_roofline::structures::Structure;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, Setup, StageRun};
use super::super::roofline::Roofline;
use super::super::step::{Prerequisite, Session, Step, StepError};
use super::networks;

pub struct Cudnn;

/// Measures PyTorch: it is given networks and rounds, line by line.
const SCRIPT: &str = include_str!("cudnn.py");

impl Step for Cudnn {
    fn name(&self) -> &'static str {
        "cudnn"
    }

    fn about(&self) -> &'static str {
        "stages against PyTorch with cuDNN, if `python3` has it for CUDA"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        // First: without it, nothing else need be done.
        let (mut torch, versions) = Torch::start(&[])?;
        let structures = [Structure::ResNet34, Structure::ResNet50, Structure::Vgg19];
        let networks = networks::of(session, &structures, 224);
        let batches = session.size(&[1, 8][..], &[1, 2]);
        let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
        let mut rig = Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: Division::Whole,
                queue: rig::queue(session.gpu()?)?,
            },
        )?;
        let headings = [
            "network",
            "batch",
            "stage",
            "ours p50, us",
            "p99",
            "cuDNN p50, us",
            "p99",
            "eager p50, us",
            "ours / cuDNN",
        ];
        let mut sheet = Sheet::new("Stage by stage", &headings, 1);
        let mut result = StepResult::default();
        let mut left = networks.len() * batches.len();
        let roofline = Roofline::find(session)?;
        let multiprocessors = session.gpu()?.attribute(Attribute::Multiprocessors)?;
        for (model, network) in networks.iter().enumerate() {
            for &batch in batches {
                let stage_run = StageRun {
                    partition: 0,
                    model: model as u16,
                    stage: 0,
                    batch,
                    first: 0,
                };
                let predicted = roofline.network(network, batch, multiprocessors);
                let permille = 900 / left as u64;
                let found = compare(session, &mut rig, &mut torch, network, stage_run, permille)?;
                left -= 1;
                let worst = found.iter().map(Pair::ratio).fold(f64::NAN, f64::max);
                let name = format!("{}, batch {batch}, its slowest stage", network.name);
                result.figure("cudnn", &name, worst);
                for (stage, pair) in found.iter().enumerate() {
                    sheet.row(pair.row(network, batch, stage));
                    let of = format!("{}, stage {stage}, batch {batch}", network.name);
                    result
                        .compared
                        .push(predicted.stage(&of, stage, pair.ours.p50_us));
                }
            }
        }
        result.tables.push(sheet);
        result.note(versions);
        result.note(roofline.about());
        result.note(
            "cuDNN: channels last, halves, its fastest algorithms (cudnn.benchmark), each stage a CUDA graph, so that \
             nothing of Python is in its time; from the call to when the host knows. Ours: as the leader measures a stage, \
             inputs read from the request buffers included. eager: PyTorch without graphs.",
        );
        Ok(result)
    }
}

struct Pair {
    ours: Latency,
    graphs: Latency,
    eager: Latency,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.ours.over(&self.graphs)
    }

    fn row(&self, network: &Network, batch: u8, stage: usize) -> [String; 9] {
        let us = |us: f64| format!("{us:.1}");
        [
            network.name.clone(),
            batch.to_string(),
            stage.to_string(),
            us(self.ours.p50_us),
            us(self.ours.p99_us),
            us(self.graphs.p50_us),
            us(self.graphs.p99_us),
            us(self.eager.p50_us),
            format!("{:.2}", self.ratio()),
        ]
    }
}

/// All stages of a network for a batch, a few rounds of each in turn.
fn compare(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    torch: &mut Torch,
    network: &Network,
    stage_run: StageRun,
    permille: u64,
) -> Result<Vec<Pair>, StepError> {
    const TURN: u32 = 10;
    rig.write(stage_run.model, 0, u16::from(stage_run.batch), |seed| {
        rig::picture(network, seed)
    })?;
    torch.load(network, stage_run.batch)?;
    let stages = network.stages.len();
    let empty = || vec![Vec::new(); stages];
    let (mut ours, mut graphs, mut eager) = (empty(), empty(), empty());
    for (turn, ()) in session.rounds(60, 2, permille).enumerate() {
        let mut own = empty();
        for _ in 0..TURN {
            for (stage, own) in own.iter_mut().enumerate() {
                let stage = stage as u8;
                let ran = rig.run(StageRun { stage, ..stage_run })?;
                own.push(ran.measured.as_nanos());
            }
        }
        let turns = [
            (&mut ours, own),
            (&mut graphs, torch.measure(TURN, true)?),
            (&mut eager, torch.measure(TURN, false)?),
        ];
        // The first turn finds cold caches.
        for (all, turn_of) in turns.into_iter().filter(|_| turn > 0) {
            for (all, times) in all.iter_mut().zip(turn_of) {
                all.extend(times);
            }
        }
    }
    let latencies = ours.into_iter().zip(graphs).zip(eager);
    let pair = |((ours, graphs), eager)| Pair {
        ours: Latency::of(ours),
        graphs: Latency::of(graphs),
        eager: Latency::of(eager),
    };
    Ok(latencies.map(pair).collect())
}

struct Torch {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What it says first.
#[derive(Deserialize)]
#[serde(untagged)]
enum Greeting {
    Ready { torch: String, cudnn: u64 },
    Lacks { lacks: String },
}

#[derive(Deserialize)]
struct Loaded {
    stages: usize,
}

/// What it says last if it raised an exception.
#[derive(Deserialize)]
struct Failed {
    failed: String,
}

#[derive(Deserialize)]
struct Times {
    times: Vec<Vec<u64>>,
}

impl Torch {
    /// Starts it; says its versions.
    fn start(arguments: &[&str]) -> Result<(Self, String), StepError> {
        let none = |_| Prerequisite::Torch {
            said: "there is no `python3`".to_owned(),
        };
        let mut child = Command::new("python3")
            .args(["-c", SCRIPT])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(none)?;
        let asks = child.stdin.take().expect("it was piped");
        let answers = child.stdout.take().expect("it was piped");
        let mut torch = Self {
            child,
            asks,
            answers: BufReader::new(answers),
        };
        let greeting = torch
            .answer::<Greeting>()
            .map_err(|_| Prerequisite::Torch {
                said: "`python3` cannot import torch".to_owned(),
            })?;
        match greeting {
            Greeting::Ready {
                torch: version,
                cudnn,
            } => Ok((torch, format!("PyTorch {version}, cuDNN {cudnn}."))),
            Greeting::Lacks { lacks } => Err(Prerequisite::Torch { said: lacks }.into()),
        }
    }

    fn load(&mut self, network: &Network, batch: u8) -> Result<(), StepError> {
        let found: Loaded = self.ask(&json!({ "network": network, "batch": batch }))?;
        if found.stages == network.stages.len() {
            Ok(())
        } else {
            let (found, expected) = (found.stages, network.stages.len());
            let said = format!("loaded {found} stages instead of {expected}");
            Err(StepError::Torch { said })
        }
    }

    /// Nanoseconds by stage.
    fn measure(&mut self, rounds: u32, graphs: bool) -> Result<Vec<Vec<u64>>, StepError> {
        let found: Times = self.ask(&json!({ "rounds": rounds, "graphs": graphs }))?;
        Ok(found.times)
    }

    fn ask<T: for<'d> Deserialize<'d>>(&mut self, what: &Value) -> Result<T, StepError> {
        let asked = writeln!(self.asks, "{what}").and_then(|()| self.asks.flush());
        asked.map_err(|_| Self::gone())?;
        self.answer()
    }

    fn gone() -> StepError {
        let said = "has ended".to_owned();
        StepError::Torch { said }
    }

    fn answer<T: for<'d> Deserialize<'d>>(&mut self) -> Result<T, StepError> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        if read.is_err() || line.is_empty() {
            return Err(Self::gone());
        }
        if let Ok(Failed { failed }) = serde_json::from_str(&line) {
            let said = format!("failed: {failed}");
            return Err(StepError::Torch { said });
        }
        serde_json::from_str(&line).map_err(|_| StepError::Torch {
            said: format!("answers {line}"),
        })
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_conformance::networks as small;

    /// Without PyTorch the test prints a notice and passes.
    #[test]
    fn the_script_runs_every_structure_on_the_processor() {
        let (mut torch, versions) = match Torch::start(&["cpu"]) {
            Ok(started) => started,
            Err(StepError::Prerequisite(lack)) => return eprintln!("skipped: {lack}"),
            Err(error) => panic!("{error}"),
        };
        assert!(versions.contains("PyTorch"), "{versions}");
        let structures = Structure::ALL.map(|structure| structure.outline(32));
        for network in structures
            .into_iter()
            .chain([small::gathers(1), small::residual(1)])
        {
            torch
                .load(&network, 2)
                .expect("all its operators are known");
            let times = torch.measure(1, false).expect("it runs");
            assert_eq!(times.len(), network.stages.len());
            assert!(times.iter().flatten().all(|&ns| ns > 0));
        }
    }
}
