//! The demo's plan and cameras in virtual time, through the same loop and scheduler as the
//! daemon's: what it promises it keeps exactly, since here no machine can stall.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;
use std::path::Path;

use punctual_core::{
    Action, Actions, Answer, Arrival, ClientId, Confidence, Event, Instant, ModelId, Nanos,
    PolicySpec as _, Reply, RequestId, Scheduler, StageId, TaskId, Ticket, Verdict,
};
use punctual_device::Device;
use punctual_executor::{Events, World, drive};
use punctual_model::Package;
use punctual_plan::{
    Accounts, Board, Diagnostics, Host, HostCores, PackageInput, Plan, PlanInputs, Policies,
    ProfileInput,
};
use punctual_simulator::virtual_device::{Oracle, Uniform, Variation, VirtualDevice};
use punctual_types::Random;

const MANIFEST: &str = include_str!("../../../cli/src/demo/manifest.toml");
const MACHINE: &str = "a virtual machine";
const SECOND: Nanos = Nanos::from_millis(1_000);

/// The demo's plan on two cores, with the figures of an ordinary machine.
fn plan() -> Plan {
    build(MANIFEST.to_owned()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn plan_under(policy: &str) -> Result<Plan, Diagnostics> {
    let daemon = format!("[daemon]\npolicy = \"{policy}\"");
    build(MANIFEST.replacen("[daemon]", &daemon, 1))
}

fn build(manifest_text: String) -> Result<Plan, Diagnostics> {
    let (packages, profiles) = ["signs", "streets"].map(measured).into_iter().unzip();
    let inputs = PlanInputs {
        manifest_text,
        manifest_path: Path::new("manifest.toml").to_owned(),
        board: Board::builtin("host").expect("part of the program"),
        board_is_asked: false,
        host: Host {
            cores: HostCores {
                available: vec![0, 1],
                isolated: Vec::new(),
            },
            memory_bytes: 4 << 30,
            realtime: true,
            machine: MACHINE.to_owned(),
            clocks: "unknown".to_owned(),
            settings: BTreeMap::new(),
            lanes: 4,
            program_bytes: 16 << 20,
            accounts: Accounts::default(),
            gpu: None,
            ort: Err("no ONNX Runtime in this test".to_owned()),
        },
        policies: Policies::shipped(),
        packages,
        profiles,
    };
    Plan::build(&inputs)
}

/// One of the demo's networks, with figures that any machine keeps.
fn measured(name: &str) -> (PackageInput, ProfileInput) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../models")
        .join(name);
    let path = folder.join(name).with_extension("punctual");
    let package = Package::read(&path).expect("the network is part of the tree");
    let mut profile = crate::support::profile(MACHINE, "unknown", &package);
    let mut whole = profile.prepare[3].clone();
    (whole.crop_width, whole.crop_height) = (640, 480);
    (whole.p50_ns, whole.p99_ns, whole.max_ns) = (1_500_000, 1_500_000, 1_500_000);
    profile.prepare.push(whole);
    let package = PackageInput {
        path: format!("{name}.punctual"),
        version: None,
        package: Ok(package),
        layout: None,
        footprints: BTreeMap::new(),
    };
    let profile = ProfileInput {
        path: Path::new(name).with_extension("profile.json"),
        lies_with: Some(package.path.clone()),
        profile: Ok(profile),
    };
    (package, profile)
}

fn within(random: &mut Random, limit: Nanos) -> Nanos {
    Nanos::new(random.within(0, limit.as_nanos()))
}

/// What is going to happen, besides what the device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ScriptedEvent {
    Arrives {
        task: u16,
        sequence: u64,
        captured: u64,
    },
    IsPrepared {
        buffer: u16,
        generation: u32,
        took: u64,
    },
    Drain,
}

/// Cameras, channel, intake and device on one virtual clock.
struct Cameras<'a, O> {
    plan: &'a Plan,
    /// Cameras' rates over the manifest's.
    overload: u64,
    device: VirtualDevice<Uniform, O>,
    ahead: BinaryHeap<Reverse<(u64, ScriptedEvent)>>,
    random: Random,
    verdicts: Vec<Vec<Reply>>,
    captured: Vec<u64>,
    submitted: Vec<u64>,
    end: Instant,
}

impl<'a, O: Oracle> Cameras<'a, O> {
    fn new(plan: &'a Plan, overload: u64, device: VirtualDevice<Uniform, O>, seed: u64) -> Self {
        let end = Instant::ZERO + Nanos::new(SECOND.as_nanos() * 30);
        let mut cameras = Self {
            plan,
            overload,
            device,
            ahead: BinaryHeap::new(),
            random: Random::new(seed),
            verdicts: vec![Vec::new(); plan.tasks.len()],
            captured: vec![0; plan.tasks.len()],
            submitted: vec![0; plan.tasks.len()],
            end,
        };
        for task in 0..plan.tasks.len() {
            // Cameras are not in step with each other.
            let first = cameras.random.below(30_000_000);
            cameras.capture(task, Instant::from_nanos(first));
        }
        cameras
            .ahead
            .push(Reverse((end.as_nanos(), ScriptedEvent::Drain)));
        cameras
    }

    /// A frame is captured, and arrives within the plan's bound on the channel.
    fn capture(&mut self, task: usize, captured: Instant) {
        if captured >= self.end {
            return;
        }
        self.captured[task] += 1;
        let delay = within(&mut self.random, self.plan.tasks[task].arrival.channel);
        let arrives = ScriptedEvent::Arrives {
            task: task as u16,
            sequence: self.captured[task],
            captured: captured.as_nanos(),
        };
        self.ahead
            .push(Reverse(((captured + delay).as_nanos(), arrives)));
    }

    fn happen(&mut self, happening: ScriptedEvent) -> Event {
        match happening {
            ScriptedEvent::Drain => Event::Drain,
            ScriptedEvent::IsPrepared {
                buffer,
                generation,
                took,
            } => Event::Prepared {
                request: RequestId { buffer, generation },
                measured: Nanos::new(took),
                ready: Ok(()),
            },
            ScriptedEvent::Arrives {
                task,
                sequence,
                captured,
            } => {
                let captured = Instant::from_nanos(captured);
                let at = usize::from(task);
                self.submitted[at] += 1;
                let planned = &self.plan.tasks[at];
                if let (Some(period), Some(_)) = (planned.period, planned.deadline) {
                    self.capture(at, captured + Nanos::new(period.as_nanos() / self.overload));
                }
                Event::Arrived(Arrival {
                    task: TaskId(task),
                    ticket: Ticket {
                        client: ClientId(task),
                        slot: 0,
                        part: 0,
                        sequence,
                    },
                    captured,
                    deadline: None,
                    egress: Nanos::ZERO,
                })
            }
        }
    }
}

impl<O: Oracle> World for Cameras<'_, O> {
    fn now(&self) -> Instant {
        self.device.now()
    }

    fn wait(&mut self, until: Option<Instant>, events: &mut Events) {
        let next = self
            .ahead
            .peek()
            .map(|Reverse((at, _))| Instant::from_nanos(*at));
        let wake = [next, self.device.next_event(), until];
        let wake = wake
            .into_iter()
            .flatten()
            .min()
            .expect("something is ahead");
        self.device.advance_to(wake.max(self.device.now()));
        while events.room() > 0
            && let Some(event) = self.device.poll()
        {
            events.push(event);
        }
        let now = self.device.now().as_nanos();
        while events.room() > 0
            && let Some(Reverse((at, _))) = self.ahead.peek()
            && *at <= now
            && let Some(Reverse((_, happening))) = self.ahead.pop()
        {
            let event = self.happen(happening);
            events.push(event);
        }
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Prepare { request, task, .. } => {
                let worst = self.plan.task(*task).arrival.prepare_worst;
                let took = within(&mut self.random, worst);
                let prepared = ScriptedEvent::IsPrepared {
                    buffer: request.buffer,
                    generation: request.generation,
                    took: took.as_nanos(),
                };
                self.ahead
                    .push(Reverse(((self.now() + took).as_nanos(), prepared)));
            }
            Action::Infer(infer) => self.device.submit(infer).expect("it fits the plan"),
            Action::Load { .. } | Action::Unload { .. } => {
                unreachable!("the plan has no pages: all weights are resident")
            }
            Action::Demote(_) | Action::Reinstate { .. } | Action::Deliver(_) => {}
            Action::Preempt { partition, action } => self.device.preempt(*partition, *action),
            Action::Reply(reply) => {
                let task = reply.task.index();
                self.verdicts[task].push(*reply);
                if self.plan.tasks[task].deadline.is_none() {
                    // Closed loop: the next frame follows the answer.
                    self.capture(task, self.now() + Nanos::from_micros(100));
                }
            }
        }
    }
}

/// Thirty seconds; submissions and verdicts by task.
fn run(overload: u64, seed: u64) -> (Vec<u64>, Vec<Vec<Reply>>) {
    run_plan(&plan(), overload, seed)
}

fn run_plan(plan: &Plan, overload: u64, seed: u64) -> (Vec<u64>, Vec<Vec<Reply>>) {
    let config = &plan.scheduler;
    let mut scheduler = Scheduler::new(config, &plan.policy).expect("the plan holds");
    let mut actions = Actions::for_config(config);
    let mut events = Events::with_capacity(16);
    // Three of four are sure at the first exit, as of an ordinary day's signs.
    let mut sure = Random::new(seed ^ 1);
    let oracle = move |_: RequestId, _: ModelId, stage: StageId| Answer {
        class: 1,
        confidence: Confidence(if sure.below(4) < 3 || stage.0 == 2 {
            65_000
        } else {
            30_000
        }),
    };
    let variation = Variation {
        least_permille: 400,
        most_permille: 1_000,
    };
    let device = VirtualDevice::new(
        config.models.clone(),
        &config.partitions,
        config.request_buffers,
        variation.seeded(seed),
        oracle,
    );
    let mut world = Cameras::new(plan, overload, device, seed);
    drive(&mut scheduler, &mut world, &mut events, &mut actions);
    assert_eq!((scheduler.open(), scheduler.stale_events()), (0, 0));
    (world.submitted, world.verdicts)
}

fn count(verdicts: &[Reply], wanted: impl Fn(Verdict) -> bool) -> usize {
    verdicts
        .iter()
        .filter(|reply| wanted(reply.verdict))
        .count()
}

#[test]
fn the_demo_loses_nothing_and_answers_every_real_time_frame_on_time() {
    for seed in 0..3 {
        let (submitted, verdicts) = run(1, seed);
        for task in 0..4 {
            assert_eq!(
                submitted[task],
                verdicts[task].len() as u64,
                "lost, seed {seed}"
            );
        }
        for (task, rate) in [(0, 30), (1, 60), (2, 10)] {
            assert!(submitted[task] >= rate * 29, "{submitted:?}");
            let on_time = count(&verdicts[task], |v| v == Verdict::OnTime) as u64;
            assert_eq!(on_time, submitted[task], "task {task}, seed {seed}");
        }
        // What is left is used, and deeper exits than the first are reached.
        assert!(submitted[3] > 1_000, "{submitted:?}");
        let deeper = |reply: &&Reply| reply.answer.is_some_and(|(exit, _)| exit.0 > 0);
        assert!(verdicts[0].iter().filter(deeper).count() > 100);
    }
}

#[test]
fn at_four_times_the_rate_frames_are_refused_early_but_none_that_was_accepted_is_late() {
    for seed in 0..3 {
        let (submitted, verdicts) = run(4, seed);
        for task in 0..4 {
            assert_eq!(
                submitted[task],
                verdicts[task].len() as u64,
                "lost, seed {seed}"
            );
        }
        for task in 0..3 {
            assert_eq!(
                count(&verdicts[task], |v| v == Verdict::Late),
                0,
                "seed {seed}"
            );
            let failed = |v| matches!(v, Verdict::Failed(_));
            assert_eq!(count(&verdicts[task], failed), 0, "seed {seed}");
            let on_time = count(&verdicts[task], |v| v == Verdict::OnTime) as u64;
            // At least the rate that the plan reserves for.
            let reserved = submitted[task] / 4;
            assert!(on_time >= reserved - 1, "{on_time} of {}", submitted[task]);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_verdicts() {
    assert_eq!(run(4, 7), run(4, 7));
}

#[test]
fn every_policy_that_takes_turns_on_the_cores_serves_the_same_cameras_and_loses_nothing() {
    for policy in Policies::shipped().iter() {
        let name = policy.name();
        let plan = plan_under(name).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(&plan.policy, policy);
        let (submitted, verdicts) = run_plan(&plan, 1, 0);
        for (task, verdicts) in verdicts.iter().enumerate() {
            assert_eq!(submitted[task], verdicts.len() as u64, "{name}: lost");
        }
        assert!(submitted[0] >= 30 * 29, "{name}: {submitted:?}");
    }
}
