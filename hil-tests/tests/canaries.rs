//! The rig's own test: faults are planted in what it tests, and it must find each; and where none is, it must find
//! none. What is tested is a fake (`examples/fake-daemon.rs`), so that this takes seconds and needs no network.
#![forbid(unsafe_code)]

mod fakes;

use fakes::{Fakes, finding};
use serde_json::Value;
use std::process::Command;

/// A second and a half of frames; the shortest soak there is.
const SHORT_SOAK: [&str; 4] = ["--case", "soak/steady", "--hours", "0.001"];

const FRAMES: [&str; 2] = ["--case", "smoke/frames-are-answered"];

/// What a sound daemon keeps on any machine, however busy with other tests.
const CALM: &str = "about = 'no latencies'
[smoke]
on_time_share = { min = 0.1, why = 'some are answered' }
[soak]
rss_growth_kib = { max = 1024, why = 'a sound daemon keeps nothing' }
descriptors_growth = { max = 0.9, why = 'nor descriptors' }
";

#[test]
fn without_a_fault_nothing_is_found() {
    let fakes = Fakes::with("none");
    fakes.write("calm.toml", CALM);
    let bounds = fakes.path("calm.toml");
    let cases = [
        &FRAMES[..],
        &SHORT_SOAK,
        &["--suite", "smoke", "--bounds", &bounds],
    ]
    .concat();
    let (code, report) = fakes.run(&cases);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["cases"].as_array().map(Vec::len), Some(7));
    for case in report["cases"].as_array().expect("cases") {
        assert_eq!(case["outcome"], "passed", "{case:#}");
    }
}

#[test]
fn a_verdict_that_is_lost_is_found() {
    let (code, report) = Fakes::with("loses").run(&[&FRAMES[..], &["--patience", "2"]].concat());
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("frames have no verdict"),
        "{report:#}"
    );
}

#[test]
fn answers_that_are_late_are_found_even_if_the_daemon_calls_them_punctual() {
    let (code, report) = Fakes::with("late").run(&FRAMES);
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(found.contains("smoke.on_time_share is 0"), "{found}");
    assert!(
        found.contains("hil-tests/bounds/host.toml"),
        "it names the file: {found}"
    );
}

#[test]
fn a_leak_of_memory_is_found() {
    let (code, report) = Fakes::with("leaks").run(&SHORT_SOAK);
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("soak.rss_growth_kib"),
        "{report:#}"
    );
}

#[test]
fn a_daemon_that_hangs_at_its_start_is_found_and_killed() {
    let fakes = Fakes::with("hangs");
    let (code, report) = fakes.run(&[&FRAMES[..], &["--patience", "1"]].concat());
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("was not ready after 1 s"),
        "{report:#}"
    );
    fakes.assert_nothing_is_left();
}

#[test]
fn a_report_that_says_more_than_happened_is_found() {
    let (code, report) = Fakes::with("invents").run(&FRAMES);
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("task front: submitted: the cameras count"),
        "{report:#}"
    );
}

#[test]
fn a_daemon_that_ends_badly_is_found() {
    let (code, report) = Fakes::with("falls").run(&FRAMES);
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("ended with code 70, not with code 0"),
        "{report:#}"
    );
}

#[test]
fn a_process_that_is_left_over_is_found_and_killed() {
    let fakes = Fakes::with("leaves-one");
    let (code, report) = fakes.run(&FRAMES);
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(
        found.contains("still runs after the case: sleep 1000"),
        "{found}"
    );
    fakes.assert_nothing_is_left();
}

#[test]
fn a_daemon_of_another_version_is_found() {
    let fakes = Fakes::with("none");
    fakes.write("punctual", &fakes::COMMAND.replace("0.1.0", "0.2.0"));
    let (code, report) = fakes.run(&["--case", "smoke/versions-agree"]);
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("does not contain `0.2.0`"),
        "{report:#}"
    );
}

#[test]
fn a_daemon_that_takes_any_manifest_is_found() {
    let fakes = Fakes::with("none");
    fakes.write("punctual", "#!/bin/sh\necho punctual 0.1.0\n");
    let (code, report) = fakes.run(&["--case", "smoke/check-refuses"]);
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("ended with code 0, not with code 3"),
        "{report:#}"
    );
}

#[test]
fn binaries_that_are_not_there_are_named_and_nothing_stays_on_the_target() {
    let fakes = Fakes::with("none");
    std::fs::remove_file(fakes.path("punctuald")).expect("it was there");
    let (code, report) = fakes.run(&FRAMES);
    assert_eq!((code, report), (Some(5), Value::Null));
    assert!(
        fakes.words().contains("punctuald --version` does not run"),
        "{}",
        fakes.words()
    );
    fakes.assert_nothing_is_left();
}

#[test]
fn a_bound_of_its_own_is_missed_by_name() {
    let fakes = Fakes::with("none");
    fakes.write(
        "mine.toml",
        "about = 'x'\n[smoke]\nstart_ms = { max = 0.001, why = 'no time' }\n",
    );
    let bounds = fakes.path("mine.toml");
    let (code, report) = fakes.run(&[&FRAMES[..], &["--bounds", &bounds]].concat());
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(
        found.contains("smoke.start_ms") && found.contains(&bounds),
        "{found}"
    );
}

#[test]
fn a_suite_that_there_is_not_is_refused_with_those_that_there_are() {
    let fakes = Fakes::with("none");
    let (code, _) = fakes.run(&["--suite", "smok"]);
    assert_eq!(code, Some(3));
    assert!(
        fakes
            .words()
            .contains("there is no suite `smok`; there are: smoke,"),
        "{}",
        fakes.words()
    );
}

#[test]
fn a_run_in_which_everything_is_skipped_is_no_success() {
    let fakes = Fakes::with("none");
    let (code, report) = fakes.run(&["--suite", "upgrade"]);
    assert_eq!(code, Some(6));
    let reason = report["cases"][0]["skipped_because"]
        .as_str()
        .expect("a reason");
    assert!(reason.contains("--old-bin"), "{reason}");
}

#[test]
fn a_host_behind_ssh_is_tested_as_this_one_is() {
    let fakes = Fakes::with("none");
    // An ssh that runs here what it would there, as the login shell would: from one text.
    fakes.write("ssh", fakes::SSH);
    let (code, report) = fakes.run(&[&FRAMES[..], &["--target", "ssh:some@board"]].concat());
    assert_eq!(code, Some(0), "{report:#}\n{}", fakes.words());
    assert_eq!(report["target"], "ssh:some@board");
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let fakes = Fakes::with("none");
    fakes.write(
        "ssh",
        "#!/bin/sh\necho 'Connection refused' >&2\nexit 255\n",
    );
    let (code, _) = fakes.run(&[&FRAMES[..], &["--target", "ssh:board"]].concat());
    assert_eq!(code, Some(5));
    let words = fakes.words();
    assert!(
        words.contains("ssh:board cannot be reached") && words.contains("refused"),
        "{words}"
    );
}

#[test]
fn a_rig_that_is_told_to_end_clears_the_target_first() {
    let fakes = Fakes::with("none");
    let rig = fakes.start(&["--suite", "soak", "--hours", "1"]);
    fakes.wait_for("daemon.out");
    let kill = Command::new("kill").arg(rig.id().to_string()).status();
    assert!(kill.expect("kill runs").success());
    let (code, report) = fakes.end(rig);
    assert_eq!(code, Some(7));
    assert!(finding(&report).contains("interrupted"), "{report:#}");
    fakes.assert_nothing_is_left();
}

/// Only what a case of the hostile suite is tested for here, on any machine, however busy.
fn hostile(fault: &str, case: &str, bound: &str) -> (Option<i32>, Value) {
    let fakes = Fakes::with(fault);
    fakes.write("one.toml", &format!("about = 'one'\n[hostile]\n{bound}\n"));
    let bounds = fakes.path("one.toml");
    let outcome = fakes.run(&["--case", case, "--bounds", &bounds]);
    fakes.assert_nothing_is_left();
    outcome
}

const DESCRIPTORS: &str = "descriptors_growth = { max = 0.9, why = 'none is kept' }";
const UNANSWERED: &str = "unanswered = { max = 0, why = 'somebody answers' }";
const IDLE: &str = "idle_attack_cpu_share = { max = 0.3, why = 'silence costs nothing' }";

#[test]
fn a_sound_daemon_withstands_an_attack() {
    let bounds = [DESCRIPTORS, UNANSWERED, IDLE].join("\n");
    for case in ["hostile/openings-garbage", "hostile/silent-40"] {
        let (code, report) = hostile("none", case, &bounds);
        assert_eq!(code, Some(0), "{report:#}");
    }
}

#[test]
fn a_daemon_that_an_attack_ends_is_found() {
    let (code, report) = hostile("falls-for-garbage", "hostile/openings-garbage", "");
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(
        found.contains("ended with code 8, not with none"),
        "{found}"
    );
}

#[test]
fn a_daemon_that_answers_nobody_is_found() {
    let (code, report) = hostile("deaf", "hostile/openings-garbage", UNANSWERED);
    assert_eq!(code, Some(1));
    assert!(
        finding(&report).contains("hostile.unanswered"),
        "{report:#}"
    );
}

#[test]
fn descriptors_that_attackers_leave_behind_are_found() {
    let (code, report) = hostile("hoards", "hostile/openings-garbage", DESCRIPTORS);
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(found.contains("hostile.descriptors_growth"), "{found}");
}

#[test]
fn a_busy_loop_is_found() {
    // Less than a whole core: other tests run at the same time.
    let little = IDLE.replace("0.3", "0.05");
    let (code, report) = hostile("busy", "hostile/silent-40", &little);
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(found.contains("hostile.idle_attack_cpu_share"), "{found}");
}

#[test]
fn a_report_that_replaces_what_is_no_file_is_found() {
    let (code, report) = hostile("replaces", "hostile/report-onto-a-pipe", "");
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(found.contains("is still what it was"), "{found}");
}

#[test]
fn a_report_that_is_waited_for_is_found() {
    // Opening a pipe that has no reader waits for one.
    let (code, report) = hostile("none", "hostile/report-onto-a-pipe", "");
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(found.contains("the daemon had not ended"), "{found}");
}

#[test]
fn a_signal_that_ends_a_daemon_without_its_report_is_found() {
    let (code, report) = hostile("none", "hostile/signals-that-drain", "");
    assert_eq!(code, Some(1));
    let found = finding(&report);
    assert!(found.contains("HUP ended with signal 1"), "{found}");
}
