//! Seconds of what `channel-torture` does for hours, with the real processes.
#![forbid(unsafe_code)]

use punctual_torture::report::Report;
use punctual_torture::rig::{Against, Options, run};

fn torture(seed: u64, frames: u64, kills: u64, hostile: usize) -> Report {
    let options = Options {
        frames,
        kills,
        clients: 3,
        hostile,
        seed,
        late_ns: 2_000_000_000,
        against: Against::OwnServer { slots: 4, side: 16 },
        client: vec![
            env!("CARGO_BIN_EXE_channel-torture").into(),
            "client".into(),
        ],
    };
    let report = run(&options, &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(
        report.submitted >= frames && report.kills >= kills,
        "{report}"
    );
    assert_eq!(report.submitted, report.verdicts + report.gone, "{report}");
    assert!(report.early > frames / 10, "{report}");
    report
}

#[test]
fn clients_that_are_killed_and_stopped_cost_nobody_else_a_verdict() {
    let report = torture(1, 20_000, 40, 0);
    assert!(report.stops > 0 && report.freed.count > 0, "{report}");
}

#[test]
fn hostile_clients_cost_nobody_else_a_verdict() {
    let report = torture(2, 20_000, 20, 2);
    assert!(report.hostile_connections > 10, "{report}");
    assert!(report.hostile_faults.len() > 1, "{report}");
    assert_eq!(report.late, 0, "{report}");
}
