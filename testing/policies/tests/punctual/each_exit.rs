//! Each answer that counts goes to the client at once; a deeper one replaces it until the verdict.

use super::SURE;
use super::plans::{at, model_alone, ms, plan, task};
use punctual_core::{
    Action, Answers, ClientId, Confidence, Event, Infer, Nanos, StageId, StageTime, TaskConfig,
    Verdict,
};
use punctual_policy_testing::world::{Ending, Nature, UNSURE, World};

/// The stage `slow` takes 30 ms more than its budget, or the device fails it; sure at one exit and unsure before.
#[derive(Clone, Debug)]
struct Device {
    sure_at: u8,
    slow: Option<u8>,
    fails_after: u32,
}

const SOUND: Device = Device {
    sure_at: 9,
    slow: None,
    fails_after: u32::MAX,
};

impl Nature for Device {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        let longer = self.slow == Some(infer.stage.0);
        time.budget + if longer { ms(30) } else { ms(0) }
    }

    fn confidence(&mut self, infer: &Infer) -> Confidence {
        if infer.stage.0 == self.sure_at {
            SURE
        } else {
            UNSURE
        }
    }

    fn ending(&mut self) -> Ending {
        match self.fails_after.checked_sub(1) {
            Some(left) => {
                self.fails_after = left;
                Ending::Finished
            }
            None => Ending::Failed,
        }
    }
}

/// One camera, a deadline of 20 ms, and a network of three stages of 2 ms each.
fn world(mandatory_exit: u8, device: Device) -> World<Device> {
    let tasks = vec![TaskConfig {
        answers: Answers::EachExit,
        mandatory_exit: StageId(mandatory_exit),
        ..task(0, ms(20), ms(100))
    }];
    World::new(plan(tasks, vec![model_alone(&[ms(2); 3])], ms(1)), device)
}

/// What the client of one frame gets: when, from which exit, and whether it is the verdict.
fn told(mut world: World<Device>) -> Vec<(u64, u8, bool)> {
    world.frame(0, at(0));
    world.run_until(at(90)).expect("no violation");
    let told = world.log.iter().filter_map(|(at, action)| {
        let (reply, is_verdict) = match action {
            Action::Deliver(reply) => (reply, false),
            Action::Reply(reply) => (reply, true),
            _ => return None,
        };
        assert_eq!(reply.verdict, Verdict::OnTime);
        let (exit, _) = reply.answer.expect("an answer");
        Some((at.as_nanos() / 1_000_000, exit.0, is_verdict))
    });
    told.collect()
}

#[test]
fn each_answer_that_counts_is_delivered_as_it_comes_and_the_last_with_the_verdict() {
    let all = [(2, 0, false), (4, 1, false), (6, 2, true)];
    assert_eq!(told(world(0, SOUND)), all);
    assert_eq!(told(world(1, SOUND)), all[1..], "exit 0 does not count");
    assert_eq!(told(world(2, SOUND)), all[2..]);
}

#[test]
fn a_sure_answer_comes_with_the_verdict_alone() {
    let device = Device {
        sure_at: 0,
        ..SOUND
    };
    assert_eq!(told(world(0, device)), [(2, 0, true)]);
}

#[test]
fn the_verdict_on_what_was_delivered_comes_at_the_last_moment() {
    let device = Device {
        slow: Some(1),
        ..SOUND
    };
    assert_eq!(told(world(0, device)), [(2, 0, false), (20, 0, true)]);
}

#[test]
fn a_deeper_stage_that_fails_takes_no_answer_back() {
    let device = Device {
        fails_after: 1,
        ..SOUND
    };
    let [first, verdict] = told(world(0, device))[..] else {
        panic!("two");
    };
    assert_eq!((first, verdict), ((2, 0, false), (4, 0, true)));
}

#[test]
fn a_client_that_is_gone_is_told_nothing_more() {
    let mut world = world(0, SOUND);
    world.frame(0, at(0));
    let client = ClientId(0);
    world.schedule(at(3), Event::ClientGone { client });
    world.run_until(at(90)).expect("no violation");
    let delivered = world.log.iter();
    let delivered = delivered.filter(|(_, action)| matches!(action, Action::Deliver(_)));
    assert_eq!(delivered.count(), 1);
}
