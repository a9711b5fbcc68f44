//! A load on a daemon: clients that submit frames at given rates, level by level.

pub mod arrivals;
pub mod feeder;
pub mod frames;
pub mod outcome;

use std::path::{Path, PathBuf};
use std::thread;

use punctual_client::{Client, ConnectError, now_ns};
use punctual_daemon::{Report, TaskReport};

use arrivals::{Shape, Trace, times};
use feeder::{FeedError, Feeder, Plan, Tally};
use frames::{Frames, FramesError};
use outcome::{Level, TaskOutcome};

/// Between the last client's connection and the first frame, in ns.
const LEAD_NS: u64 = 50_000_000;

/// A task of the daemon, and how it is loaded.
#[derive(Clone, Debug)]
pub struct Task {
    pub name: String,
    pub criticality: String,
    /// Frames a second at factor 1, all clients together; none: each client submits its next frame when the last is answered.
    pub hz: Option<f64>,
    pub clients: usize,
}

impl Task {
    /// As its manifest has it. A best-effort task's rate is a limit, so its clients go on after each answer.
    pub fn of(report: &TaskReport) -> Self {
        let is_best_effort = report.criticality == "best-effort";
        Self {
            name: report.name.clone(),
            criticality: report.criticality.clone(),
            hz: report.rate_hz.filter(|_| !is_best_effort),
            clients: report.clients as usize,
        }
    }
}

/// A load but for its factor.
pub struct Load<'l> {
    pub socket: &'l Path,
    pub tasks: &'l [Task],
    pub shape: &'l Shape,
    /// Of the file that is the shape.
    pub trace: &'l Trace,
    /// Files to show; without any, noise.
    pub pictures: &'l [PathBuf],
    pub seed: u64,
    pub seconds: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("task {task}: no connection to {path}: {source}", path = socket.display())]
    Connect {
        task: String,
        socket: PathBuf,
        source: ConnectError,
    },
    #[error("task {task}: {source}")]
    Feed { task: String, source: FeedError },
    #[error("task {task}: {source}")]
    Frames { task: String, source: FramesError },
    #[error("a client's thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// A load's clients, which stay connected from level to level.
pub struct Clients<'l> {
    load: &'l Load<'l>,
    connected: Vec<Connected>,
}

struct Connected {
    /// Position of its task.
    task: usize,
    /// Its number among those of the task.
    number: usize,
    feeder: Feeder,
}

impl<'l> Clients<'l> {
    pub fn connect(load: &'l Load<'l>) -> Result<Self, LoadError> {
        let mut connected = Vec::new();
        for (task, of) in load.tasks.iter().enumerate() {
            let mut pictures = None;
            for number in 0..of.clients {
                let client = load.connect(of)?;
                if pictures.is_none() {
                    pictures = load.pictures_of(of, &client)?;
                }
                let noise = || Frames::noise(&client, load.seed.wrapping_add(number as u64));
                let frames = pictures.clone().unwrap_or_else(noise);
                let feeder = Feeder::new(client, frames, number);
                connected.push(Connected {
                    task,
                    number,
                    feeder,
                });
            }
        }
        Ok(Self { load, connected })
    }

    /// Runs the load at this factor for its time.
    pub fn at(&mut self, factor: f64) -> Result<Vec<TaskOutcome>, LoadError> {
        let load = self.load;
        let start_ns = now_ns() + LEAD_NS;
        let end_ns = start_ns + (load.seconds * 1e9) as u64;
        let mut tallies: Vec<Tally> = load.tasks.iter().map(|_| Tally::default()).collect();
        thread::scope(|scope| {
            let mut running = Vec::new();
            for client in &mut self.connected {
                let task = client.task;
                let plan = load.plan(task, client.number, factor);
                let thread = thread::Builder::new().name(format!("load/{}", load.tasks[task].name));
                let feeding =
                    thread.spawn_scoped(scope, move || client.feeder.feed(plan, start_ns, end_ns));
                running.push((task, feeding.map_err(LoadError::Thread)?));
            }
            for (task, feeding) in running {
                let fed = feeding
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                let tally = fed.map_err(|source| LoadError::Feed {
                    task: load.tasks[task].name.clone(),
                    source,
                })?;
                tallies[task].add(&tally);
            }
            Ok(())
        })?;
        let tasks = load.tasks.iter().zip(&tallies);
        Ok(tasks
            .map(|(task, tally)| TaskOutcome::new(task, task.hz.map(|hz| hz * factor), tally))
            .collect())
    }
}

impl Load<'_> {
    fn connect(&self, task: &Task) -> Result<Client, LoadError> {
        let options = punctual_client::Options::new(self.socket, &task.name, None);
        let client = options.reconnect(false).connect();
        client.map_err(|source| LoadError::Connect {
            task: task.name.clone(),
            socket: self.socket.to_owned(),
            source,
        })
    }

    /// As the clients of this task show them; none: noise.
    fn pictures_of(&self, task: &Task, client: &Client) -> Result<Option<Frames>, LoadError> {
        if self.pictures.is_empty() {
            return Ok(None);
        }
        let frames = Frames::of_files(client, self.pictures);
        frames.map(Some).map_err(|source| LoadError::Frames {
            task: task.name.clone(),
            source,
        })
    }

    /// When a client of a task submits: the task has one rate, and its frames are dealt out among its clients.
    fn plan(&self, task: usize, client: usize, factor: f64) -> Plan {
        let of = &self.tasks[task];
        let trace = self.trace.get(&of.name).map_or(&[][..], Vec::as_slice);
        let is_traced = matches!(self.shape, Shape::File(_));
        if of.hz.is_none() && !is_traced {
            return Plan::Closed;
        }
        // The same for all clients of the task.
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(task as u64);
        let all = times(self.shape, of.hz.unwrap_or(1.0), seed, trace, factor);
        Plan::At(Box::new(all.skip(client).step_by(of.clients.max(1))))
    }
}

/// Loads level after level, until one does not hold; `told` hears of each.
pub fn levels<E: From<LoadError>>(
    load: &Load<'_>,
    factors: &[f64],
    limit: f64,
    mut told: impl FnMut(&Level) -> Result<(), E>,
) -> Result<Vec<Level>, E> {
    let mut clients = Clients::connect(load)?;
    let mut levels = Vec::new();
    for &factor in factors {
        let tasks = clients.at(factor)?;
        let level = Level {
            factor,
            seconds: load.seconds,
            holds: tasks.iter().all(|task| task.holds(limit)),
            tasks,
        };
        told(&level)?;
        let goes_on = level.holds;
        levels.push(level);
        if !goes_on {
            break;
        }
    }
    Ok(levels)
}

/// The tasks of a daemon that are named, or all that take frames; `Err` has the name that is none of them.
pub fn tasks_of(report: &Report, named: &[String]) -> Result<Vec<Task>, String> {
    let tasks = report.tasks.iter().filter(|task| task.after.is_none());
    let is_unknown = |name: &&String| tasks.clone().all(|task| task.name != **name);
    if let Some(unknown) = named.iter().find(is_unknown) {
        return Err(unknown.clone());
    }
    let wanted = tasks.filter(|task| named.is_empty() || named.contains(&task.name));
    Ok(wanted.map(Task::of).collect())
}
