//! Stages on places: whose they may be, and whose promises depend on them.

use std::cell::Cell;
use std::rc::Rc;

use punctual_core::{
    Action, Config, Infer, Nanos, PartitionConfig, PartitionId, TaskConfig, Units,
};

use super::bench::{Bench, at, model, ms, plan, task};
use crate::audit::{Finding, Violation};

const HOMES: u16 = 3;

/// Three homes of one unit, the units of the first two as places, and both together. The first home has two tasks whose
/// frames come at the same time, the others one each.
fn with_places() -> Config {
    let on = |home, model, period| TaskConfig {
        partition: PartitionId(home),
        ..task(model, ms(period))
    };
    let units = [(0, 1), (1, 1), (2, 1), (0, 1), (1, 1), (0, 2)];
    let like = plan().partitions[0].clone();
    let partition = |(first, count)| PartitionConfig {
        units: Units { first, count },
        ..like.clone()
    };
    let mut network = model(ms(2), ms(3));
    for time in network.stages.iter_mut().flat_map(|stage| &mut stage.times) {
        time.on = vec![time.on[0]; units.len()];
    }
    network.places = (HOMES..units.len() as u16).map(PartitionId).collect();
    Config {
        tasks: vec![on(0, 0, 12), on(0, 0, 20), on(1, 0, 30), on(2, 0, 12)],
        models: vec![network],
        partitions: units.map(partition).to_vec(),
        ..plan()
    }
}

fn is_on_place(infer: &Infer) -> bool {
    infer.partition.0 >= HOMES
}

fn frames(bench: &mut Bench) {
    for n in 0..10 {
        bench.frame(0, at(1 + 12 * n));
        bench.frame(3, at(1 + 12 * n));
    }
    for n in 0..6 {
        bench.frame(1, at(1 + 20 * n));
        bench.frame(2, at(7 + 30 * n));
    }
}

#[test]
fn stages_on_places_of_their_model_are_no_finding() {
    let mut bench = Bench::new(&with_places());
    frames(&mut bench);
    let placed = Rc::new(Cell::new(0));
    let seen = Rc::clone(&placed);
    bench.orders = Box::new(move |action| {
        if let Action::Infer(infer) = &action {
            seen.set(seen.get() + u32::from(is_on_place(infer)));
        }
        vec![action]
    });
    bench.run(&with_places(), at(2_000));
    assert_eq!(bench.auditor.findings().list(), []);
    assert!(placed.get() > 2, "{} stages on places", placed.get());
}

#[test]
fn a_stage_on_a_partition_that_is_no_place_of_its_model_is_found() {
    let mut unplaced = with_places();
    unplaced.models[0].places.clear();
    let mut bench = Bench::new(&unplaced);
    frames(&mut bench);
    bench.run(&with_places(), at(2_000));
    let mut found = bench.auditor.findings().list().iter();
    assert!(found.any(|f| matches!(f.violation, Violation::WrongMember { .. })));
}

#[test]
fn two_stages_on_places_that_share_a_unit_are_found() {
    let mut apart = with_places();
    // To the scheduler all places are on units of their own.
    for (index, place) in (0..).zip(&mut apart.partitions[usize::from(HOMES)..]) {
        place.units.first = 10 + 4 * index;
    }
    let mut bench = Bench::new(&with_places());
    frames(&mut bench);
    bench.run(&apart, at(2_000));
    let mut found = bench.auditor.findings().list().iter();
    assert!(found.any(|f| matches!(f.violation, Violation::UnitsHeld { .. })));
}

#[test]
fn an_overrun_on_a_place_voids_the_promises_of_its_units_and_of_its_members_alone() {
    let mut bench = Bench::new(&with_places());
    bench.takes = |infer, budget: Nanos| {
        if is_on_place(infer) && infer.window.earliest > at(60) {
            budget.saturating_mul(4)
        } else {
            budget
        }
    };
    frames(&mut bench);
    bench.run(&with_places(), at(2_000));
    let found: Vec<&Finding> = bench.auditor.findings().list().iter().collect();
    assert_eq!(found, Vec::<&Finding>::new());
    let gaps = bench.auditor.gaps();
    assert!(gaps.iter().any(|gap| gap.partition < 2), "{gaps:?}");
    assert!(gaps.iter().all(|gap| gap.partition != 2), "{gaps:?}");
}
