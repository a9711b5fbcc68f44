//! `punctual doctor` on machines that were recorded, and on the one that runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn punctual(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("doctor").args(arguments);
    command.output().expect("punctual runs")
}

fn machine(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    folder.join(name)
}

/// The report on a recorded machine, and the code.
fn report(name: &str) -> (Value, Option<i32>) {
    let path = machine(name);
    let path = path.to_str().expect("a path in UTF-8");
    let output = punctual(&["--json", "--root", path]);
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    (report, output.status.code())
}

/// Gravity, what was found, and the remedy, of a subject.
fn finding(report: &Value, subject: &str) -> (String, String, String) {
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|f| f["subject"] == subject);
    let found = found.unwrap_or_else(|| panic!("nothing about {subject}: {report:#}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    assert!(!text("why").is_empty() && !text("source").is_empty());
    (text("gravity"), text("found"), text("remedy"))
}

fn gravity(report: &Value, subject: &str) -> String {
    finding(report, subject).0
}

#[test]
fn a_jetson_out_of_the_box_hears_of_its_clocks_and_its_interrupts() {
    let (report, code) = report("orin-jetpack6.txt");
    assert_eq!(
        code,
        Some(1),
        "an ordinary user has no real-time priorities"
    );
    assert_eq!(gravity(&report, "real-time-privilege"), "grave");
    let (grade, found, remedy) = finding(&report, "frequency-governor");
    assert_eq!(
        (grade.as_str(), found.as_str()),
        ("costly", "schedutil on cores 0-7")
    );
    assert_eq!(remedy, "sudo jetson_clocks");
    let (_, found, _) = finding(&report, "power-mode");
    assert!(
        found.contains("17000000.gpu from 306 to 624 MHz"),
        "{found}"
    );
    let (_, found, _) = finding(&report, "idle-states");
    assert_eq!(found, "c7 takes 5000 us to leave, on cores 0-7");
    let (_, found, remedy) = finding(&report, "starved-interrupts");
    assert!(found.contains("on core 0 only"), "{found}");
    assert!(
        remedy.contains("leave one core out"),
        "all are the plan's: {remedy}"
    );
    assert_eq!(gravity(&report, "transparent-huge-pages"), "costly");
    assert_eq!(gravity(&report, "swap"), "notice", "in memory only");
    assert_eq!(gravity(&report, "rt-throttling"), "good");
    assert_eq!(gravity(&report, "interrupts-on-cores"), "good");
}

#[test]
fn a_jetson_that_was_set_up_is_left_with_its_group_and_its_heat() {
    let (report, code) = report("orin-jetpack5.txt");
    assert_eq!(code, Some(1));
    let (grade, _, remedy) = finding(&report, "rt-group-share");
    assert_eq!(grade, "grave", "SCHED_FIFO is refused in such a group");
    assert!(remedy.contains("/sys/fs/cgroup/cpu/system.slice/cpu.rt_runtime_us"));
    let (grade, found, _) = finding(&report, "thermal-throttling");
    assert_eq!(grade, "costly");
    assert_eq!(found, "CPU-therm is at 97.5 C, slowed down at 99.0 C");
    for subject in [
        "real-time-privilege",
        "memory-lock",
        "kernel-preemption",
        "frequency-governor",
        "idle-states",
        "power-mode",
        "core-isolation",
        "timer-migration",
        "clock-source",
        "shared-huge-pages",
        "swap",
        "other-realtime-threads",
    ] {
        assert_eq!(gravity(&report, subject), "good", "{subject}");
    }
}

#[test]
fn a_server_with_its_defaults_hears_of_all_that_servers_do() {
    let (report, _) = report("server.txt");
    for subject in [
        "cpu-quota",
        "clock-source",
        "idle-states",
        "frequency-governor",
        "thermal-throttling",
        "transparent-huge-pages",
        "swap",
        "numa-balancing",
        "smt-siblings",
        "other-realtime-threads",
        "interrupts-on-cores",
        "irqbalance",
    ] {
        assert_eq!(gravity(&report, subject), "costly", "{subject}");
    }
    let (grade, found, remedy) = finding(&report, "shared-huge-pages");
    assert!(
        grade == "notice" && found.contains("outputs are pinned"),
        "{found}"
    );
    assert!(remedy.starts_with("echo deny"), "{remedy}");
    let (_, found, remedy) = finding(&report, "interrupts-on-cores");
    assert_eq!(found, "40 (nvme0q1), 41 (eth0-rx-0) on cores 1-15");
    assert!(remedy.starts_with("for i in 40 41; do echo 0 "), "{remedy}");
    let (_, found, _) = finding(&report, "cpu-quota");
    assert!(
        found.contains("batch.service/cpu.max is 200000 100000"),
        "{found}"
    );
    let (_, _, remedy) = finding(&report, "core-isolation");
    assert!(remedy.contains("nohz_full=1-15"), "{remedy}");
}

#[test]
fn real_time_threads_of_others_are_named_or_it_is_said_that_they_cannot_be_seen() {
    let (server, _) = report("server.txt");
    let (_, found, remedy) = finding(&server, "other-realtime-threads");
    let named = "process 1440 \"grabberd\", thread \"grab/0\" (fifo 80, cores 4, runs)";
    assert_eq!(found, named);
    assert!(remedy.contains("taskset"), "{remedy}");
    let (jetson, _) = report("orin-jetpack6.txt");
    let (grade, found, remedy) = finding(&jetson, "other-realtime-threads");
    assert_eq!(grade, "notice", "nothing of the kernel's is visible");
    assert!(found.contains("hidepid="), "{found}");
    assert!(remedy.starts_with("sudo"), "{remedy}");
}

#[test]
fn the_recorded_virtual_machine_is_known_for_one() {
    let (report, _) = report("virtual.txt");
    assert_eq!(gravity(&report, "virtual-machine"), "notice");
    assert_eq!(gravity(&report, "clock-source"), "good");
    assert_eq!(gravity(&report, "rt-throttling"), "good");
}

#[test]
fn a_record_of_this_machine_gives_the_findings_of_this_machine() {
    let path = std::env::temp_dir().join(format!("punctual-record-{}", std::process::id()));
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    let subjects = |output: &Output| -> Vec<(Value, Value)> {
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings").clone();
        // Stolen time and temperatures change meanwhile.
        findings
            .iter()
            .map(|f| (f["subject"].clone(), f["gravity"].clone()))
            .collect()
    };
    let here = punctual(&["--json", "--record", &path]);
    let there = punctual(&["--json", "--root", &path]);
    std::fs::remove_file(&path).expect("it was written");
    assert!(!subjects(&here).is_empty());
    assert_eq!(subjects(&here), subjects(&there));
    assert_eq!(here.status.code(), there.status.code());
}

#[test]
fn the_table_says_why_who_says_so_and_what_to_do() {
    let path = machine("server.txt");
    let output = punctual(&["--root", path.to_str().expect("UTF-8")]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("GRAVE   real-time-privilege"), "{text}");
    assert!(text.contains("[kernel: admin-guide/pm/cpuidle]"), "{text}");
    assert!(
        text.contains("mend  sudo sysctl -w kernel.numa_balancing=0"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn what_is_not_there_is_an_error_about_a_file() {
    let output = punctual(&["--root", "/no/such/machine"]);
    assert_eq!(output.status.code(), Some(4));
    let output = punctual(&["no/such/manifest.toml"]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn the_former_name_is_refused_with_the_present_one() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let output = command.args(["check", "--host"]).output();
    let output = output.expect("punctual runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`punctual doctor`"), "{said}");
}

#[test]
fn a_boards_reference_settings_are_shown_with_their_sources() {
    let board = ["--board", "jetson-agx-orin-64gb", "--power-mode", "MAXN"];
    let text = punctual(&board);
    assert_eq!(text.status.code(), Some(0), "{text:?}");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for words in [
        "power mode MAXN, 12 cores, 8 TPCs",
        "NAME=MAXN",
        "isolcpus=managed_irq,domain,2-11",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = punctual(&[&board[..], &["--json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let settings = json["settings"].as_array().expect("settings");
    let has_source = |setting: &Value| !setting["source"].as_str().unwrap_or_default().is_empty();
    assert!(
        settings.len() > 9 && settings.iter().all(has_source),
        "{json:#}"
    );
    for (arguments, code, words) in [
        (
            ["--board", "nowhere"].as_slice(),
            4,
            "the program has host, jetson",
        ),
        (
            &["--board", "host", "--power-mode", "MAXN"],
            3,
            "only default",
        ),
    ] {
        let output = punctual(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
