//! Which weights come and which go.

use super::{Did, Told, config, model};
use crate::{ClockworkConfig, SeqConfig};
use punctual_core::{ConfigError, Event, Rejection, Scheduler, Verdict};

/// Four models of a page each, transfers of 8 ms, batches of one in 3 ms; room for two.
fn told() -> Told {
    let one = || model(&[(1, 3)], Some((1, 8)));
    Told::new(config(vec![one(), one(), one(), one()], 2))
}

/// A request for a model that is absent is served from `now` to `now + 11`.
fn serve(told: &mut Told, now: u64, model: u16) {
    told.request(now, model, 1000);
    let load = told.load();
    told.loaded(now + 8, load, 8);
    let infer = told.infer();
    told.finished(now + 11, &infer, 3);
}

#[test]
fn the_least_recently_used_weights_make_room() {
    let mut told = told();
    serve(&mut told, 0, 0);
    serve(&mut told, 20, 1);
    // 0 is used again: 1 is now the one.
    told.request(40, 0, 1000);
    let infer = told.infer();
    told.finished(43, &infer, 3);
    assert_eq!(told.request(50, 2, 1000), [Did::Unload(1), Did::Load(2)]);
}

#[test]
fn weights_that_an_action_reads_stay() {
    let mut told = told();
    serve(&mut told, 0, 0);
    serve(&mut told, 20, 1);
    told.request(40, 0, 1000);
    let infer = told.infer();
    told.request(41, 0, 1000);
    told.finished(43, &infer, 3);
    // 0 runs again; 1 was used the longest ago.
    let infer = told.infer();
    assert_eq!(told.request(44, 2, 1000), [Did::Unload(1), Did::Load(2)]);
    let load = told.load();
    // 3 is wanted too. 2 is on its way and 0 in use, until 0's batch ended at 52.
    assert_eq!(told.request(45, 3, 1000), []);
    assert_eq!(told.loaded(52, load, 8), []);
    let did = told.finished(53, &infer, 3);
    assert_eq!(
        did[1..],
        [Did::Infer(2, vec![5], 997), Did::Unload(0), Did::Load(3)]
    );
}

#[test]
fn the_model_with_the_most_waiting_work_comes_first() {
    let mut told = told();
    told.request(0, 0, 1000);
    let load = told.load();
    told.request(1, 1, 1000);
    told.request(2, 2, 1000);
    told.request(3, 2, 1000);
    let did = told.loaded(8, load, 8);
    assert_eq!(did, [Did::Infer(0, vec![1], 997), Did::Load(2)]);
}

#[test]
fn a_request_that_a_transfer_cannot_help_in_time_is_rejected() {
    let mut told = told();
    assert_eq!(
        told.request(0, 0, 10),
        [Did::Reply(1, Verdict::Rejected(Rejection::NoSlack))]
    );
    assert_eq!(told.request(1, 0, 12), [Did::Load(0)]);
    // The bus is busy until 9: 9 + 8 + 3 = 20.
    assert_eq!(
        told.request(2, 1, 19),
        [Did::Reply(3, Verdict::Rejected(Rejection::NoSlack))]
    );
    assert_eq!(told.request(2, 1, 20), []);
    // The transfer overruns: from 9 on it is too late to begin the other.
    told.tell(10, &Event::Tick);
    assert_eq!(
        told.did(),
        [
            Did::Reply(2, Verdict::Rejected(Rejection::NoSlack)),
            Did::Reply(4, Verdict::Rejected(Rejection::NoSlack))
        ]
    );
}

#[test]
fn a_transfer_that_failed_is_tried_again() {
    let mut told = told();
    told.request(0, 0, 1000);
    let action = told.load();
    told.tell(3, &Event::Failed { action });
    assert_eq!(told.did(), [Did::Load(0)]);
    let action = told.load();
    assert_eq!(told.loaded(11, action, 8), [Did::Infer(0, vec![1], 997)]);
}

#[test]
fn pages_are_conserved_over_any_course_of_requests() {
    let mut told = told();
    let mut now = 0;
    for turn in 0u64..200 {
        now += 20;
        let model = (turn * turn + turn / 3) as u16 % 4;
        let did = told.request(now, model, now + 1000);
        if did.iter().any(|did| matches!(did, Did::Load(_))) {
            let load = told.load();
            told.loaded(now + 8, load, 8);
        }
        let infer = told.infer();
        assert_eq!(
            infer.model.0, model,
            "it is served, so its weights are there"
        );
        let done = told.finished(now + 11, &infer, 3);
        assert_eq!(done.len(), 1, "answered, and nothing is fetched needlessly");
    }
}

#[test]
fn a_plan_that_cannot_page_its_weights_is_refused() {
    let plan = |pages| config(vec![model(&[(1, 3)], Some((2, 8)))], pages);
    let large = Scheduler::new(&plan(1), &ClockworkConfig::default())
        .expect_err("two pages do not fit one");
    assert!(matches!(
        large,
        ConfigError::Pages {
            needed: 2,
            pages: 1,
            ..
        }
    ));
    let resident = plan(2);
    let refused =
        Scheduler::new(&resident, &SeqConfig::default()).expect_err("seq moves no weights");
    assert!(matches!(refused, ConfigError::NotResident { .. }));
}
