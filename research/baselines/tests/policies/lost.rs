//! Every policy, on a device that does not report an action.

use punctual_core::{
    Action, Actions, Arrival, ClientId, Config, Event, Failure, Instant, Nanos, PartitionId,
    PolicySpec, Rejection, Reply, Scheduler, TaskId, Ticket, Verdict,
};
use punctual_policy_testing::plans::random_plan;
use punctual_types::Random;

/// A scheduler, the time, and what it decided last.
struct Bench {
    scheduler: Scheduler,
    actions: Actions,
    now: Instant,
    sequence: u64,
    replies: Vec<(Instant, Reply)>,
    infers: Vec<punctual_core::Infer>,
}

impl Bench {
    fn new(config: &Config, policy: &dyn PolicySpec) -> Self {
        Self {
            scheduler: Scheduler::new(config, policy).expect("the plan is valid"),
            actions: Actions::for_config(config),
            now: Instant::from_nanos(1_000_000),
            sequence: 0,
            replies: Vec::new(),
            infers: Vec::new(),
        }
    }

    /// One step; preparations take no time, and so do loads.
    fn step(&mut self, event: &Event) {
        self.actions.clear();
        self.scheduler.step(self.now, event, &mut self.actions);
        let mut follow = Vec::new();
        for action in &self.actions {
            match action {
                Action::Prepare { request, .. } => follow.push(Event::Prepared {
                    request: *request,
                    measured: Nanos::ZERO,
                    ready: Ok(()),
                }),
                Action::Load { id, .. } => follow.push(Event::Loaded {
                    action: *id,
                    measured: Nanos::ZERO,
                }),
                Action::Infer(infer) => self.infers.push(infer.clone()),
                Action::Reply(reply) => self.replies.push((self.now, *reply)),
                Action::Unload { .. }
                | Action::Preempt { .. }
                | Action::Deliver(_)
                | Action::Demote(_)
                | Action::Reinstate { .. } => {}
            }
        }
        for event in follow {
            self.step(&event);
        }
    }

    fn submit(&mut self) -> u64 {
        self.sequence += 1;
        self.step(&Event::Arrived(Arrival {
            task: TaskId(0),
            ticket: Ticket {
                client: ClientId(0),
                slot: 0,
                part: 0,
                sequence: self.sequence,
            },
            captured: self.now,
            deadline: None,
            egress: Nanos::ZERO,
        }));
        self.sequence
    }

    /// Lets all timers up to `end` run out.
    fn wait(&mut self, end: Instant) {
        while let Some(timer) = self.scheduler.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(timer);
            self.step(&Event::Tick);
        }
        self.now = end;
    }

    fn verdict(&self, sequence: u64) -> Option<Verdict> {
        let of = |(_, reply): &&(Instant, Reply)| reply.ticket.sequence == sequence;
        self.replies.iter().find(of).map(|(_, reply)| reply.verdict)
    }
}

/// A plan of one task, that the policy takes.
fn plan(policy: &dyn PolicySpec) -> Config {
    let mut seed = 0;
    loop {
        let mut config = random_plan(policy, &mut Random::new(seed));
        config.tasks.truncate(1);
        config.request_buffers = 8;
        config.tasks[0].queue_max = 8;
        // Long enough for anything to be promised, short enough to be over before the loss.
        config.tasks[0].deadline = Some(Nanos::from_millis(90));
        if Scheduler::new(&config, policy).is_ok() {
            return config;
        }
        seed += 1;
    }
}

#[test]
fn a_lost_action_fails_its_members_and_locks_what_it_may_touch_until_it_is_reported() {
    for policy in punctual_baselines::all().iter() {
        let name = policy.name();
        let mut bench = Bench::new(&plan(policy), policy);
        let first = bench.submit();
        // Policies that collect, collect.
        bench.wait(bench.now + Nanos::from_millis(60));
        assert_eq!(bench.infers.len(), 1, "{name}");
        let waiting = bench.submit();
        // 16 times the longest stage of these plans is below 300 ms.
        bench.wait(bench.now + Nanos::from_millis(600));
        let failed = Some(Verdict::Failed(Failure::Device));
        assert_eq!(bench.verdict(first), failed, "{name}");
        let over = bench.verdict(waiting).expect("a verdict in bounded time");
        assert!(!matches!(over, Verdict::OnTime), "{name}: {over:?}");
        let refused = bench.submit();
        let no_slack = Some(Verdict::Rejected(Rejection::NoSlack));
        assert_eq!(bench.verdict(refused), no_slack, "{name}");
        assert_eq!(
            (bench.infers.len(), bench.scheduler.open()),
            (1, 0),
            "{name}"
        );

        let action = bench.infers[0].id;
        bench.step(&Event::Failed { action });
        assert_eq!(bench.scheduler.stale_events(), 0, "{name}");
        let served = bench.submit();
        bench.wait(bench.now + Nanos::from_millis(60));
        assert_eq!(bench.infers.len(), 2, "{name}: it runs again");
        assert_eq!(bench.verdict(served), None, "{name}");
        bench.step(&Event::Drain);
        let action = bench.infers[1].id;
        bench.step(&Event::Failed { action });
        assert!(bench.scheduler.drained(), "{name}");
        let all: Vec<u64> = bench
            .replies
            .iter()
            .map(|(_, r)| r.ticket.sequence)
            .collect();
        assert_eq!(all.len(), 4, "{name}: {all:?}");
    }
}

#[test]
fn what_is_lost_fails_as_starved_while_the_machine_does_not_run_the_partition() {
    for policy in punctual_baselines::all().iter() {
        let name = policy.name();
        let config = plan(policy);
        let mut bench = Bench::new(&config, policy);
        let starved = |bench: &mut Bench, starved| {
            let partitions = (0..config.partitions.len() as u16).map(PartitionId);
            partitions.for_each(|partition| bench.step(&Event::Starved { partition, starved }));
        };
        let first = bench.submit();
        bench.wait(bench.now + Nanos::from_millis(60));
        starved(&mut bench, true);
        bench.wait(bench.now + Nanos::from_millis(600));
        let verdict = bench.verdict(first);
        assert_eq!(verdict, Some(Verdict::Failed(Failure::Starved)), "{name}");

        // The next one is lost for a reason of its own.
        starved(&mut bench, false);
        let action = bench.infers[0].id;
        bench.step(&Event::Failed { action });
        let second = bench.submit();
        bench.wait(bench.now + Nanos::from_millis(600));
        let verdict = bench.verdict(second);
        assert_eq!(verdict, Some(Verdict::Failed(Failure::Device)), "{name}");
    }
}
