//! Cases themselves can be wrong: one that never ends, one that leaves a process behind. The rig
//! ends both and reports them.
#![forbid(unsafe_code)]

use punctual_client::now_ns;
use punctual_hil::bed::{Setting, TestBed};
use punctual_hil::bounds::Bounds;
use punctual_hil::case::Case;
use punctual_hil::facts::Facts;
use punctual_hil::outcome::{CaseReport, Failure, Outcome};
use punctual_hil::stage::Stage;
use punctual_hil::target::process::Started;
use punctual_hil::target::{Place, Target};

/// Longer than anything here takes, even on a busy machine.
const LIMIT_NS: u64 = 60_000_000_000;

fn play(name: &'static str, body: fn(&mut TestBed<'_>) -> Result<(), Failure>) -> CaseReport {
    let case = Case {
        suite: "test",
        name,
        about: "It misbehaves.",
        needs: &[],
        limit_s: 1,
        measures: &[],
        body,
    };
    let mark = format!("{name}-{}", std::process::id());
    let folder = format!("{}/punctual-hil-{mark}", std::env::temp_dir().display());
    let stage = Stage {
        case: format!("{folder}/case"),
        folder,
        mark,
        board: "host".to_owned(),
        agent: String::new(),
        daemon: String::new(),
        command: String::new(),
        old_daemon: None,
        torture: None,
    };
    let target = Target::new(Place::Local);
    let _cleared = Cleared(stage.folder.clone());
    let setting = Setting {
        target: &target,
        stage: &stage,
        facts: &Facts::default(),
        bounds: &Bounds::default(),
        seed: 1,
        hours: 0.0,
        patience_s: 1,
    };
    let report = case.play(setting);
    let left = target.marked(&stage.mark, now_ns() + LIMIT_NS);
    assert_eq!(
        left.expect("looked"),
        [],
        "nothing is left, whatever the case did"
    );
    report
}

/// A folder that goes with the test, however it ends.
struct Cleared(String);

impl Drop for Cleared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sleeper(bed: &mut TestBed<'_>) -> Result<Started, Failure> {
    let command = ["sleep", "1000"].map(str::to_owned).to_vec();
    Ok(bed.start("sleeper", &[], command)?)
}

#[test]
fn a_case_that_waits_for_ever_is_ended_at_its_limit_and_what_it_started_is_killed() {
    let report = play("endless", |bed| {
        sleeper(bed)?;
        let never: Option<()> = bed.look_for(1_000_000, |_| Ok(None))?;
        never.ok_or(Failure::Missing {
            what: "the end of the world",
        })
    });
    assert_eq!(report.outcome, Outcome::Failed);
    assert!(
        report.findings[0].contains("within its time limit"),
        "{report:?}"
    );
    assert!(report.seconds < 50.0, "{report:?}");
}

#[test]
fn a_command_that_never_ends_is_killed_at_the_limit() {
    let report = play("stuck", |bed| {
        bed.try_command("sleep", 1_000_000, &["sleep", "1000"])?;
        Ok(())
    });
    assert_eq!(report.outcome, Outcome::Failed);
    assert!(report.findings[0].contains("killed"), "{report:?}");
}

#[test]
fn a_case_that_forgets_a_process_fails_by_its_name() {
    let report = play("forgetful", |bed| sleeper(bed).map(drop));
    assert_eq!(report.outcome, Outcome::Failed);
    assert!(
        report.findings[0].contains("still runs after the case: sleep 1000"),
        "{report:?}"
    );
}

#[test]
#[should_panic(expected = "declares what it measures")]
fn a_measure_that_was_not_declared_is_a_mistake_of_the_case() {
    play("undeclared", |bed| {
        bed.measure("surprise", 1.0);
        Ok(())
    });
}
