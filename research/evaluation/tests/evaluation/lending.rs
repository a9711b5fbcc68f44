//! What a chart and its tables show about places, against the stages that ran.

use punctual_core::usage::{HomeUsage, Loan};
use punctual_core::{Instant, Nanos, PunctualConfig};
use punctual_evaluation::report::{self, BARS_MAX, Bar, Home, Page, Record, Recorder};
use punctual_evaluation::workloads;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;

/// Four homes on 41 units, at a load at which they borrow. So short that the chart has all stages.
fn recorded() -> (Scenario, Record) {
    let mut scenario = workloads::by_name("seeb-poisson").expect("a workload");
    scenario.length = Nanos::from_millis(1_000);
    let policy = PunctualConfig::default();
    let mut recorder = Recorder::new(&scenario.config(&policy), Instant::ZERO);
    let settings = Settings {
        seed: 0,
        keep_requests: false,
    };
    simulate(&scenario, &policy, 1.5, settings, &mut recorder).expect("a run");
    let record = recorder.into_record();
    assert!(record.bars.len() < BARS_MAX, "{}", record.bars.len());
    (scenario, record)
}

/// How many of a home's units a bar takes.
fn common(bar: &Bar, home: &Home) -> u16 {
    let units = bar.first..bar.first + bar.count;
    let own = home.first..home.first + home.count;
    units.filter(|unit| own.contains(unit)).count() as u16
}

#[test]
fn the_sums_of_who_lent_what_to_whom_are_those_of_the_bars() {
    let (_, record) = recorded();
    let lending = record.lending.expect("the plan has places");
    let bars: Vec<&Bar> = record.bars.iter().filter(|bar| bar.finished).collect();
    let of = |home: &Home| {
        let own = bars.iter().filter(|bar| home.tasks.contains(&bar.task));
        own.copied().collect::<Vec<&Bar>>()
    };
    let stages: Vec<[usize; 3]> = lending
        .homes
        .iter()
        .map(|home| {
            let whole = |bar: &&&Bar| (bar.first, bar.count) == (home.first, home.count);
            let inside = |bar: &&&Bar| common(bar, home) == bar.count;
            let (all, own) = (of(home), of(home).iter().filter(whole).count());
            let inside = all.iter().filter(inside).count();
            [own, inside - own, all.len() - inside]
        })
        .collect();
    let counted = lending.usage.homes.iter().map(|home: &HomeUsage| {
        [home.own, home.cells, home.borrowed].map(|ran| ran.stages as usize)
    });
    assert_eq!(counted.collect::<Vec<_>>(), stages);
    assert!(stages.iter().any(|[.., borrowed]| *borrowed > 0));
    for Loan {
        owner,
        borrower,
        ran,
        unit_time,
    } in &lending.usage.loans
    {
        let home = |id| {
            let position = lending
                .usage
                .homes
                .iter()
                .position(|usage| usage.home == id);
            &lending.homes[position.expect("a home")]
        };
        let taken = of(home(*borrower)).into_iter();
        let taken: Vec<&Bar> = taken.filter(|bar| common(bar, home(*owner)) > 0).collect();
        assert_eq!(ran.stages as usize, taken.len());
        let times = taken
            .iter()
            .map(|bar| (bar.to - bar.from) * f64::from(common(bar, home(*owner))));
        let us = unit_time.as_nanos() as f64 / 1e3;
        assert!((times.sum::<f64>() - us).abs() < 1.0, "{us} us");
    }
    let members: u64 = bars.iter().map(|bar| u64::from(bar.members)).sum();
    let widths = lending.usage.widths.iter().flatten();
    assert_eq!(widths.map(|width| width.members).sum::<u64>(), members);
}

#[test]
fn the_page_names_homes_and_borrowed_units_only_if_the_plan_has_places() {
    let (scenario, record) = recorded();
    let page = |record: &Record| {
        report::page(&Page {
            charts: vec![report::chart("a run".into(), &scenario, record)],
            ..Page::default()
        })
    };
    let with = page(&record);
    assert!(with.contains("\"homes\":[{\"first\":0,"));
    for said in [
        "on units of another home",
        "<td class=\"words\">units 0 to 11</td>",
        ">4 units</th>",
    ] {
        assert!(with.contains(said), "{said}");
    }
    let without = page(&Record {
        lending: None,
        ..record
    });
    assert!(without.contains("\"homes\":[]"));
    assert!(!without.contains("on units of another home") && !without.contains("units 0 to 11"));
}
