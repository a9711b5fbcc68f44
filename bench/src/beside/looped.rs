//! A loop around ONNX Runtime in this process: its threads, where the daemon's would be, and what its cameras need.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use punctual_core::{Criticality, Nanos};
use punctual_device_ort::{Library, OrtError};
use punctual_kernels::preprocess::{PreprocessError, PreprocessSpec, Preprocessor};
use punctual_plan::{Plan, Role, TaskPlan};
use punctual_platform::Missing;
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};
use punctual_types::Size;

use super::contestants::{Rules, Threads};
use super::engine::{Engine, Network};
use super::queue::Queue;
use super::served::Served;
use super::worker::{Done, Lane, Worker};

#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    #[error("ONNX Runtime: {0}")]
    Runtime(#[from] OrtError),
    #[error("a camera's frames cannot be prepared: {0}")]
    Prepare(#[from] PreprocessError),
    #[error("a thread of a loop cannot be started: {0}")]
    Thread(#[from] ThreadError),
    #[error("a thread of a loop ended before it was ready")]
    Ended,
}

/// What loops are made of, for all turns.
pub struct Ground<'p> {
    pub library: Library,
    pub plan: &'p Plan,
    /// By model of the plan.
    pub networks: [Network; 2],
}

/// A thread of a loop: the cameras that it serves, and how urgent it is.
struct Share {
    tasks: Vec<usize>,
    priority: Option<u8>,
}

/// A running loop.
pub struct Looped {
    queues: Vec<Arc<Queue>>,
    threads: Vec<RealtimeThread<Result<(), OrtError>>>,
}

impl Looped {
    /// Loads the sessions, starts the threads and waits until they have taken their times. Cameras are by task, as `names` calls them.
    pub fn start(
        ground: &Ground<'_>,
        rules: Rules,
        names: &[&'static str],
    ) -> Result<(Self, Vec<Served>), LoopError> {
        let plan = ground.plan;
        let leader = plan.threads.iter().find(|of| is_worker(of.role));
        let leader = leader.expect("the demo's plan has a partition");
        let (done, received): (Vec<_>, Vec<_>) = plan.tasks.iter().map(|_| channel()).unzip();
        let mut looped = Self {
            queues: Vec::new(),
            threads: Vec::new(),
        };
        let mut queue_of = vec![Arc::default(); plan.tasks.len()];
        for share in shares(&plan.tasks, rules.threads, leader.priority) {
            let queue = Arc::default();
            for &task in &share.tasks {
                queue_of[task] = Arc::clone(&queue);
            }
            let worker = ground.worker(rules, &share.tasks, &done, Arc::clone(&queue))?;
            let name = names[share.tasks[0]];
            let spec = ThreadSpec::new(name, Some(usize::from(leader.core)), share.priority);
            looped.queues.push(queue);
            looped.threads.push(started(spec, worker)?);
        }
        let ends = queue_of.into_iter().zip(received);
        let served = ends.enumerate().map(|(camera, (queue, done))| {
            let task = &plan.tasks[camera];
            let network = &ground.networks[task.model.index()];
            let preprocessor = preprocessor(task, network)?;
            let slots = (0..task.channel.slots).map(|_| network.slot());
            Ok(Served {
                task: names[camera],
                camera,
                deadline_ns: task.deadline.map(|deadline| deadline.as_nanos()),
                frame: vec![0; task.frame.layout().len()],
                copy: vec![0; preprocessor.copy_len_max()],
                preprocessor,
                slots: slots.collect::<Result<_, OrtError>>()?,
                queue,
                done,
                submitted: 0,
                answered: 0,
            })
        });
        let served = served.collect::<Result<_, LoopError>>()?;
        Ok((looped, served))
    }

    /// What the machine did not grant.
    pub fn missing(&self) -> Vec<Missing> {
        self.threads
            .iter()
            .flat_map(|thread| thread.missing().to_vec())
            .collect()
    }

    pub fn stop(self) -> Result<(), LoopError> {
        self.queues.iter().for_each(|queue| queue.close());
        for thread in self.threads {
            thread.join().map_err(|_| LoopError::Ended)??;
        }
        Ok(())
    }
}

const fn is_worker(role: Role) -> bool {
    matches!(role, Role::Worker { .. })
}

/// All tasks together, or each by itself: the shorter its deadline the more urgent, from the partition's priority down, and best
/// effort ordinary.
fn shares(tasks: &[TaskPlan], threads: Threads, priority: Option<u8>) -> Vec<Share> {
    if threads == Threads::One {
        return vec![Share {
            tasks: (0..tasks.len()).collect(),
            priority,
        }];
    }
    let mut by_deadline: Vec<usize> = (0..tasks.len()).collect();
    by_deadline.sort_by_key(|&task| tasks[task].deadline.unwrap_or(Nanos::MAX));
    let share = |(task, rank): (usize, u8)| {
        let is_real_time = tasks[task].criticality == Criticality::RealTime;
        let urgent = priority.filter(|_| is_real_time);
        Share {
            tasks: vec![task],
            priority: urgent.map(|priority| priority.saturating_sub(rank)),
        }
    };
    by_deadline.into_iter().zip(0..).map(share).collect()
}

impl Ground<'_> {
    fn worker(
        &self,
        rules: Rules,
        tasks: &[usize],
        done: &[Sender<Done>],
        queue: Arc<Queue>,
    ) -> Result<Worker, OrtError> {
        let all = &self.plan.tasks;
        let is_used = |model| tasks.iter().any(|&task| all[task].model.index() == model);
        let engine = |(model, network)| {
            let engine = is_used(model).then(|| Engine::load(self.library, network, rules.depth));
            engine.transpose()
        };
        let engines = self.networks.iter().enumerate().map(engine);
        let lane = |(task, done): (&TaskPlan, &Sender<Done>)| Lane {
            model: task.model.index(),
            threshold: task.threshold.as_probability(),
            done: done.clone(),
        };
        Ok(Worker {
            rules,
            queue,
            engines: engines.collect::<Result<_, _>>()?,
            lanes: all.iter().zip(done).map(lane).collect(),
        })
    }
}

/// Returns when the worker waits for frames.
fn started(
    spec: ThreadSpec,
    mut worker: Worker,
) -> Result<RealtimeThread<Result<(), OrtError>>, LoopError> {
    let (tell, ready) = channel();
    let thread = spawn_realtime(spec, move || {
        worker.warm_up()?;
        // The starting thread waits for it.
        let _ = tell.send(());
        worker.serve()
    })?;
    match ready.recv() {
        Ok(()) => Ok(thread),
        Err(_) => Err(match thread.join() {
            Ok(Err(error)) => error.into(),
            _ => LoopError::Ended,
        }),
    }
}

/// As the daemon's intake has it.
fn preprocessor(task: &TaskPlan, network: &Network) -> Result<Preprocessor, PreprocessError> {
    let input = &network.input;
    let (mean, std) = input.form.normalisation();
    Preprocessor::new(&PreprocessSpec {
        frame: task.frame.layout(),
        crop: task.frame.crop,
        output: Size {
            width: input.width,
            height: input.height,
        },
        channels: input.channels,
        fit: task.frame.fit,
        mean,
        std,
    })
}
