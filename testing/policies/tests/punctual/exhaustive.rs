//! Every course of events of small plans: who submits when, how long each preparation and each stage takes,
//! how sure each exit is, when a stopped device lets go; and once more with actions that fail or do not
//! start, and a client that dies; and of a pipeline, how many parts each frame has. Each course runs from the start; the
//! auditor looks at every step.

use std::cell::RefCell;
use std::rc::Rc;

use super::SURE;
use super::plans::{best_effort, model, model_alone, plan, task};
use punctual_core::{
    Action, Arrival, ClientId, Confidence, Config, Event, Infer, Instant, ModelId, Nanos,
    PartitionId, PolicySpec as _, PunctualConfig, StageId, StageTime, TaskConfig, TaskId, Ticket,
    Units,
};
use punctual_policy_testing::world::{Ending, Nature, UNSURE, World};
use punctual_simulator::audit::{Auditor, Follower, Pipeline, Violation};

/// The path through a tree of choices. The next path after this one changes the last choice that
/// has an alternative left.
#[derive(Debug, Default)]
struct Path {
    /// Taken, out of how many.
    choices: Vec<(u64, u64)>,
    depth: usize,
}

impl Path {
    fn choose(&mut self, alternatives: u64) -> u64 {
        if self.depth == self.choices.len() {
            self.choices.push((0, alternatives));
        }
        let (taken, out_of) = self.choices[self.depth];
        assert_eq!(out_of, alternatives, "a course replays the same");
        self.depth += 1;
        taken
    }

    /// Moves to the next path; false after the last.
    fn advance(&mut self) -> bool {
        self.depth = 0;
        while let Some((taken, out_of)) = self.choices.pop() {
            if taken + 1 < out_of {
                self.choices.push((taken + 1, out_of));
                return true;
            }
        }
        false
    }
}

/// Takes its decisions from a path.
#[derive(Clone, Debug)]
struct Chosen {
    path: Rc<RefCell<Path>>,
    config: Config,
    /// How many more actions may fail or not start.
    faults: u64,
}

impl Chosen {
    /// Whether how sure an exit is can change anything: it is neither the last nor too shallow.
    fn decides(&self, infer: &Infer) -> bool {
        let stages = self.config.models[infer.model.index()].stages.len();
        let tasks = self.config.tasks.iter();
        let counts = tasks.filter(|t| t.model == infer.model);
        infer.stage.index() + 1 < stages
            && counts.map(|t| t.mandatory_exit).min() <= Some(infer.stage)
    }

    fn choose(&self, alternatives: u64) -> u64 {
        self.path.borrow_mut().choose(alternatives)
    }

    /// The bound or nothing (or one, where nothing would mean no work at all).
    fn up_to(&self, bound: Nanos, least: u64) -> Nanos {
        if bound.as_nanos() <= least || self.choose(2) == 0 {
            return bound;
        }
        Nanos::new(least)
    }
}

impl Nature for Chosen {
    fn duration(&mut self, _: &Infer, time: StageTime) -> Nanos {
        self.up_to(time.budget, 1)
    }
    fn preparation(&mut self, task: TaskId) -> Nanos {
        self.up_to(self.config.tasks[task.index()].jitter, 0)
    }
    fn confidence(&mut self, infer: &Infer) -> Confidence {
        if self.decides(infer) && self.choose(2) == 1 {
            return SURE;
        }
        UNSURE
    }
    fn stopping(&mut self, bound: Nanos) -> Nanos {
        self.up_to(bound, 0)
    }
    fn ending(&mut self) -> Ending {
        if self.faults == 0 {
            return Ending::Finished;
        }
        let ending = [Ending::Finished, Ending::Failed, Ending::NotRun][self.choose(3) as usize];
        self.faults -= u64::from(ending != Ending::Finished);
        ending
    }
}

/// A time of a small plan.
const fn t(n: u64) -> Nanos {
    Nanos::new(n)
}

/// When the frames of a task may come.
struct Frames {
    task: u16,
    /// The first comes at one of 0, `step`, ... this many.
    offsets: u64,
    step: u64,
    /// Then as many more, a period apart.
    more: u64,
    /// And one more at one of these times, or none: beyond the reservation.
    extra: &'static [u64],
}

/// What there is to see.
#[derive(Debug, Default)]
struct Explored {
    courses: u64,
    /// Promises made in all of them, and frames that offloaded.
    promised: u64,
    offloaded: u64,
    /// Stages on places.
    lent: u64,
    /// Parts of frames.
    parts: u64,
}

/// Runs every course. `gone`: the last task's client may die at one of these times.
fn explore(config: &Config, frames: &[Frames], faults: u64, gone: &[u64]) -> Explored {
    explore_from(config, frames, faults, gone, |world, _, _| {
        world.run_until(Instant::from_nanos(1_000))
    })
}

/// The same; `run` runs a course from its frames, whose times it is told by task.
fn explore_from(
    config: &Config,
    frames: &[Frames],
    faults: u64,
    gone: &[u64],
    run: impl Fn(&mut World<Chosen>, &Chosen, &[Vec<Instant>]) -> Result<(), Violation>,
) -> Explored {
    let path = Rc::new(RefCell::new(Path::default()));
    let chosen = Chosen {
        path: Rc::clone(&path),
        config: config.clone(),
        faults,
    };
    let mut explored = Explored::default();
    loop {
        let mut world = World::new(config.clone(), chosen.clone());
        let times: Vec<_> = frames
            .iter()
            .map(|f| submit(&mut world, &chosen, f))
            .collect();
        if let Some(&at) = gone.get(chosen.choose(gone.len() as u64 + 1) as usize) {
            let client = ClientId(config.tasks.len() as u16 - 1);
            world.schedule(Instant::from_nanos(at), Event::ClientGone { client });
        }
        let outcome = run(&mut world, &chosen, &times).and_then(|()| world.drain());
        let course = || std::format!("{:?}\n{:#?}", path.borrow().choices, world.log);
        assert_eq!(outcome, Ok(()), "{}", course());
        let kept = world.auditor.gaps().is_empty() && world.misses() == 0;
        assert!(kept || faults > 0, "{}", course());
        for f in frames {
            let task = usize::from(f.task);
            let reserved = config.tasks[task].reserved && f.extra.is_empty();
            let refused = world.refused(TaskId(f.task));
            assert!(!reserved || faults > 0 || refused == 0, "{}", course());
        }
        explored.courses += 1;
        explored.promised += world.auditor.promised();
        explored.offloaded += world.offloaded();
        explored.parts += world
            .auditor
            .queries()
            .iter()
            .map(|of| of.parts)
            .sum::<u64>();
        let is_home = |p| config.tasks.iter().any(|task| task.partition == p);
        let orders = world.orders();
        explored.lent += orders.filter(|(_, i)| !is_home(i.partition)).count() as u64;
        if !path.borrow_mut().advance() {
            return explored;
        }
    }
}

/// The times of the frames of a task.
fn submit(world: &mut World<Chosen>, chosen: &Chosen, frames: &Frames) -> Vec<Instant> {
    let mut times = Vec::new();
    let period = world.config.tasks[usize::from(frames.task)].period;
    let mut at = Instant::from_nanos(chosen.choose(frames.offsets) * frames.step);
    for _ in 0..=frames.more {
        world.frame(frames.task, at);
        times.push(at);
        at = at + period;
    }
    let extra = chosen.choose(frames.extra.len() as u64 + 1) as usize;
    if let Some(at) = frames.extra.get(extra) {
        world.frame(frames.task, Instant::from_nanos(*at));
        times.push(Instant::from_nanos(*at));
    }
    times.sort_unstable();
    times
}

/// One frame at 0, `step`, ...
const fn frames(task: u16, offsets: u64, step: u64) -> Frames {
    Frames {
        task,
        offsets,
        step,
        more: 0,
        extra: &[],
    }
}

fn assert_no_course_breaks_a_promise(
    config: &Config,
    frames: &[Frames],
    courses_min: u64,
) -> Explored {
    let explored = explore(config, frames, 0, &[]);
    std::println!("{explored:?}");
    // Else the frames do not meet, and the test shows nothing.
    assert!(explored.courses >= courses_min, "{explored:?}");
    explored
}

#[test]
fn no_course_of_optional_and_best_effort_work_beside_a_busy_task_breaks_a_promise() {
    let tasks = vec![
        TaskConfig {
            jitter: t(1),
            ..task(0, t(7), t(7))
        },
        TaskConfig {
            mandatory_exit: StageId(1),
            ..task(1, t(14), t(14))
        },
        best_effort(2),
    ];
    let models = vec![
        model_alone(&[t(2)]),
        model_alone(&[t(2), t(2), t(3)]),
        model_alone(&[t(5)]),
    ];
    let busy = Frames {
        more: 1,
        ..frames(0, 3, 2)
    };
    let frames = [busy, frames(1, 3, 1), frames(2, 2, 1)];
    assert_no_course_breaks_a_promise(&plan(tasks, models, t(1)), &frames, 5_000);
}

#[test]
fn no_course_of_batches_and_extras_beside_a_bystander_breaks_a_promise() {
    let tasks = vec![
        TaskConfig {
            batch_max: 2,
            jitter: t(1),
            ..task(0, t(9), t(9))
        },
        TaskConfig {
            batch_max: 2,
            reserved: false,
            ..task(0, t(12), t(12))
        },
        task(1, t(10), t(20)),
    ];
    let models = vec![
        model(&[vec![(1, t(2)), (2, t(3))]], 1),
        model_alone(&[t(3)]),
    ];
    let reserved = Frames {
        extra: &[0, 3],
        ..frames(0, 2, 1)
    };
    let others = Frames {
        extra: &[2],
        ..frames(1, 3, 1)
    };
    let frames = [reserved, others, frames(2, 4, 1)];
    assert_no_course_breaks_a_promise(&plan(tasks, models, t(0)), &frames, 5_000);
}

#[test]
fn no_course_of_survivors_that_batch_again_breaks_a_promise() {
    let tasks = vec![TaskConfig {
        batch_max: 2,
        ..task(0, t(9), t(9))
    }];
    let models = vec![model(
        &[vec![(1, t(2)), (2, t(3))], vec![(1, t(2)), (2, t(3))]],
        1,
    )];
    let again = Frames {
        more: 1,
        extra: &[0, 1, 3],
        ..frames(0, 3, 1)
    };
    assert_no_course_breaks_a_promise(&plan(tasks, models, t(0)), &[again], 1_000);
}

#[test]
fn no_course_of_frames_that_spill_to_a_partition_with_promises_of_its_own_breaks_one() {
    // Two frames at once are too many for the first partition; what spills meets the reserved task
    // of the second.
    let own = TaskConfig {
        reserved: false,
        offload_to: Some(TaskId(1)),
        ..task(0, t(6), t(7))
    };
    let taker = TaskConfig {
        offload_to: None,
        model: ModelId(1),
        partition: PartitionId(1),
        ..own.clone()
    };
    let promised = TaskConfig {
        partition: PartitionId(1),
        ..task(2, t(8), t(8))
    };
    let tasks = vec![own, taker, promised];
    let stages = |times: &[Nanos]| {
        let stages: Vec<_> = times.iter().map(|&time| vec![(1, time)]).collect();
        model(&stages, 2)
    };
    let models = vec![stages(&[t(4)]), stages(&[t(5)]), stages(&[t(2)])];
    let mut config = plan(tasks, models, t(1));
    let mut second = config.partitions[0].clone();
    second.units.first = 1;
    config.partitions.push(second);
    let own = Frames {
        more: 1,
        extra: &[1, 3, 5],
        ..frames(0, 3, 1)
    };
    let others = Frames {
        more: 1,
        ..frames(2, 4, 1)
    };
    let explored = assert_no_course_breaks_a_promise(&config, &[own, others], 1_000);
    assert!(explored.offloaded * 3 > explored.courses, "{explored:?}");
}

/// Two homes of one unit with the same units as places, and both units together, where stages take two thirds.
fn with_places(tasks: Vec<TaskConfig>, stages: &[&[u64]]) -> Config {
    let models = stages.iter().map(|stages| {
        let sizes: Vec<_> = stages
            .iter()
            .map(|&time| vec![(1, t(3 * time)), (2, t(5 * time))])
            .collect();
        let mut model = model(&sizes, 5);
        for time in model.stages.iter_mut().flat_map(|stage| &mut stage.times) {
            time.on[4].budget = Nanos::new(time.on[4].budget.as_nanos() * 2 / 3);
        }
        model.places = vec![PartitionId(2), PartitionId(3), PartitionId(4)];
        model
    });
    let mut config = plan(tasks, models.collect(), t(1));
    let home = config.partitions[0].clone();
    for (first, count) in [(1, 1), (0, 1), (1, 1), (0, 2)] {
        let mut other = home.clone();
        other.units = Units { first, count };
        config.partitions.push(other);
    }
    config
}

fn stages_on_places(explored: &Explored) -> bool {
    2 * explored.lent > explored.courses
}

#[test]
fn no_course_of_stages_on_idle_units_of_a_neighbour_with_promises_breaks_one() {
    let twice = TaskConfig {
        mandatory_exit: StageId(1),
        ..task(0, t(15), t(15))
    };
    let extras = TaskConfig {
        reserved: false,
        ..task(0, t(12), t(12))
    };
    let neighbour = TaskConfig {
        partition: PartitionId(1),
        ..task(1, t(9), t(12))
    };
    let config = with_places(vec![twice, extras, neighbour], &[&[1, 1], &[1]]);
    let neighbours = Frames {
        more: 1,
        ..frames(2, 4, 1)
    };
    let extras = Frames {
        extra: &[0],
        ..frames(1, 3, 2)
    };
    let all = [frames(0, 2, 2), extras, neighbours];
    let explored = assert_no_course_breaks_a_promise(&config, &all, 5_000);
    assert!(stages_on_places(&explored), "{explored:?}");
}

#[test]
fn no_course_of_stages_on_places_beside_best_effort_work_breaks_a_promise() {
    let own = TaskConfig {
        batch_max: 2,
        ..task(0, t(12), t(12))
    };
    let idle = TaskConfig {
        partition: PartitionId(1),
        ..best_effort(1)
    };
    let config = with_places(vec![own, idle], &[&[1, 1], &[2]]);
    let own = Frames {
        extra: &[0, 2, 5],
        ..frames(0, 3, 1)
    };
    let idle = Frames {
        extra: &[4],
        ..frames(1, 3, 2)
    };
    let explored = assert_no_course_breaks_a_promise(&config, &[own, idle], 3_000);
    assert!(stages_on_places(&explored), "{explored:?}");
}

#[test]
fn no_course_of_failed_actions_on_places_and_a_dying_client_loses_a_verdict_or_a_buffer() {
    let own = TaskConfig {
        reserved: false,
        mandatory_exit: StageId(1),
        ..task(0, t(18), t(18))
    };
    let neighbour = TaskConfig {
        partition: PartitionId(1),
        ..task(1, t(12), t(12))
    };
    let config = with_places(vec![own, neighbour], &[&[1, 1], &[1]]);
    let twice = Frames {
        extra: &[0],
        ..frames(0, 2, 1)
    };
    let explored = explore(&config, &[twice, frames(1, 3, 1)], 1, &[0, 2, 4, 6]);
    std::println!("{explored:?}");
    assert!(
        explored.courses > 1_000 && stages_on_places(&explored),
        "{explored:?}"
    );
}

#[test]
fn no_course_of_failed_actions_and_a_dying_client_loses_a_verdict_or_a_buffer() {
    let alike = TaskConfig {
        batch_max: 2,
        ..task(0, t(12), t(12))
    };
    let tasks = vec![
        alike.clone(),
        TaskConfig {
            reserved: false,
            ..alike
        },
    ];
    let models = vec![model(&[vec![(1, t(2)), (2, t(3))], vec![(1, t(2))]], 1)];
    let config = plan(tasks, models, t(1));
    let frames = [frames(0, 3, 1), frames(1, 2, 1)];
    let explored = explore(&config, &frames, 1, &[0, 1, 3, 4]);
    std::println!("{explored:?}");
    assert!(explored.courses > 1_000, "{explored:?}");
}

/// The root of the pipelines below, and its follower.
const ROOT: TaskId = TaskId(0);
const FOLLOWER: TaskId = TaskId(1);

/// The reply to a frame is handed over after this time.
const HAND_OVER: Nanos = t(1);

/// Frames every 14, due after `root_due`, with up to two parts each, due 10 later; and a third task. Stages of 1 always take
/// that long.
fn pipeline(root_due: u64, root_takes: &[Nanos], part_takes: Nanos, third: TaskConfig) -> Config {
    let tasks = vec![
        task(0, t(root_due), t(14)),
        TaskConfig {
            burst: 2,
            jitter: t(root_due) + HAND_OVER,
            ..task(1, t(root_due + 10), t(14))
        },
        third,
    ];
    let models = vec![
        model_alone(root_takes),
        model_alone(&[part_takes]),
        model_alone(&[t(3)]),
    ];
    plan(tasks, models, t(1))
}

/// Runs a course in which each answer of the root has none to all parts. Frames are handed over in the order in which they
/// arrived.
fn run_pipeline(
    world: &mut World<Chosen>,
    chosen: &Chosen,
    times: &[Vec<Instant>],
) -> Result<(), Violation> {
    let at_most = world.config.tasks[FOLLOWER.index()].burst;
    let follower = Follower {
        task: FOLLOWER,
        at_most,
    };
    let pipeline = Pipeline {
        root: ROOT,
        followers: vec![follower],
    };
    let auditor = Auditor::new(&world.config, PunctualConfig::default().contract());
    world.auditor = auditor.with_pipelines(vec![pipeline]);
    let mut handed_over = 0;
    let mut sequence = 1_000;
    for now in 0..200 {
        let now = Instant::from_nanos(now);
        world.run_until(now)?;
        while let Some(&captured) = times[0].get(handed_over) {
            let replies = world.log.iter().filter_map(|(_, action)| match action {
                Action::Reply(reply) if reply.task == ROOT => Some(reply),
                _ => None,
            });
            let Some(reply) = replies.into_iter().find(|reply| reply.captured == captured) else {
                break;
            };
            let parts = match reply.answer {
                Some(_) => chosen.choose(u64::from(at_most) + 1),
                None => 0,
            };
            hand_over(world, now + HAND_OVER, captured, sequence..sequence + parts);
            handed_over += 1;
            sequence += parts;
        }
    }
    Ok(())
}

fn hand_over(
    world: &mut World<Chosen>,
    at: Instant,
    captured: Instant,
    parts: std::ops::Range<u64>,
) {
    let requests = parts.clone().count() as u8;
    let burst = Event::Burst {
        task: FOLLOWER,
        captured,
        requests,
    };
    world.schedule(at, burst);
    for sequence in parts {
        let part = Arrival {
            task: FOLLOWER,
            ticket: Ticket {
                client: ClientId(ROOT.0),
                slot: 0,
                part: 0,
                sequence,
            },
            captured,
            deadline: None,
            egress: Nanos::ZERO,
        };
        world.schedule(at, Event::Arrived(part));
    }
}

#[test]
fn no_course_of_a_pipeline_beside_best_effort_work_misses_a_query() {
    let config = pipeline(7, &[t(2)], t(1), best_effort(2));
    let root = Frames {
        more: 1,
        extra: &[10],
        ..frames(0, 1, 0)
    };
    let frames = [root, frames(2, 2, 3)];
    let explored = explore_from(&config, &frames, 0, &[], run_pipeline);
    println!("{explored:?}");
    let enough = explored.courses > 5_000 && explored.parts > explored.courses;
    assert!(enough, "{explored:?}");
}

#[test]
fn no_course_of_a_pipeline_whose_frames_overtake_each_other_beside_extras_misses_a_query() {
    let extras = TaskConfig {
        reserved: false,
        ..task(2, t(12), t(14))
    };
    // Due after the next frame was captured, which may be sure at once.
    let config = pipeline(16, &[t(2), t(2)], t(2), extras);
    let root = Frames {
        more: 1,
        ..frames(0, 1, 0)
    };
    let frames = [root, frames(2, 2, 14)];
    let explored = explore_from(&config, &frames, 0, &[], run_pipeline);
    println!("{explored:?}");
    let enough = explored.courses > 3_000 && explored.parts > explored.courses;
    assert!(enough, "{explored:?}");
}
