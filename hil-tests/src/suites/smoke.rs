//! Whether there is anything to test: the binaries run, refuse what they must, and answer a frame.

use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Output;

pub const CASES: &[Case] = &[
    Case {
        suite: "smoke",
        name: "versions-agree",
        about: "`punctual` and `punctuald` say the same version.",
        needs: &[],
        limit_s: 30,
        measures: &[],
        body: versions_agree,
    },
    Case {
        suite: "smoke",
        name: "check-accepts",
        about: "`punctual check` plans the manifest of the other cases.",
        needs: &[],
        limit_s: 60,
        measures: &[],
        body: check_accepts,
    },
    Case {
        suite: "smoke",
        name: "check-refuses",
        about: "A misspelt key is refused by name with code 3, by `check` and by the daemon.",
        needs: &[],
        limit_s: 60,
        measures: &[],
        body: check_refuses,
    },
    Case {
        suite: "smoke",
        name: "no-manifest",
        about: "A manifest that is not there ends the daemon with code 4.",
        needs: &[],
        limit_s: 30,
        measures: &[],
        body: no_manifest,
    },
    Case {
        suite: "smoke",
        name: "frames-are-answered",
        about: "A daemon starts, answers a camera's frames with a verdict each, and ends with code 0.",
        needs: &[],
        limit_s: 90,
        measures: &[("start_ms", "ms"), ("on_time_share", "")],
        body: frames_are_answered,
    },
    Case {
        suite: "smoke",
        name: "own-camera",
        about: "`punctual camera` shows labelled frames, and the answers are mostly right.",
        needs: &[],
        limit_s: 90,
        measures: &[("right_share", "")],
        body: own_camera,
    },
];

/// The version after a program's name.
fn version(output: &Output) -> String {
    output
        .text()
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned()
}

fn versions_agree(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let ask = |program: &str| bed.try_command("ask for the version", 20, &[program, "--version"]);
    let wanted = version(&ask(&bed.stage.command)?);
    let said = ask(&bed.stage.daemon)?;
    if version(&said) == wanted && !wanted.is_empty() {
        return Ok(());
    }
    Err(Failure::Words {
        who: "punctuald --version",
        said: said.text(),
        wanted,
    })
}

fn check_accepts(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    bed.write("good.toml", &bed.stage.manifest(&Task::ALL, ""))?;
    let command = [bed.stage.command.as_str(), "check", "good.toml"];
    let output = bed.try_command("check a manifest", 30, &command)?;
    ends_with("punctual check", &output, 0, "code 0")
}

fn check_refuses(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let good = bed.stage.manifest(&Task::ALL, "");
    bed.write("bad.toml", &good.replacen("deadline_ms", "deadlin_ms", 1))?;
    let (command, daemon) = (bed.stage.command.as_str(), bed.stage.daemon.as_str());
    let socket = bed.path("socket");
    for (who, words) in [
        ("punctual check", vec![command, "check", "bad.toml"]),
        (
            "punctuald",
            vec![daemon, "bad.toml", "--socket", socket.as_str()],
        ),
    ] {
        let output = bed.try_command("try a bad manifest", 30, &words)?;
        ends_with(who, &output, 3, "code 3")?;
        let said = format!("{}{}", output.text(), output.stderr);
        if !said.contains("deadlin_ms") {
            return Err(Failure::Words {
                who,
                said,
                wanted: "deadlin_ms".to_owned(),
            });
        }
    }
    bed.effect(2, "refusals of a misspelt key, each naming it");
    Ok(())
}

fn no_manifest(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let command = [bed.stage.daemon.as_str(), "absent.toml"];
    let output = bed.try_command("start without a manifest", 20, &command)?;
    ends_with("punctuald", &output, 4, "code 4")
}

fn frames_are_answered(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Front]))?;
    let events = bed.events(&daemon)?;
    if let (Some(started), Some(ready)) = (first_start(&events), first_ready(&events)) {
        bed.measure("start_ms", (ready - started) as f64 / 1e6);
    }
    let camera = bed.camera(&daemon, &CameraPlan::of(Task::Front).for_seconds(2.0))?;
    let counts = bed.finish(&camera)?;
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with(Task::Front.name(), &[&counts])?;
    bed.measure(
        "on_time_share",
        counts.on_time as f64 / counts.submitted.max(1) as f64,
    );
    bed.picture("front", &counts.latency_us);
    bed.effect(
        counts.on_time,
        format!("answers on time of {} frames", counts.submitted),
    );
    Ok(())
}

fn own_camera(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Front]))?;
    let command = [
        bed.stage.command.as_str(),
        "camera",
        "--socket",
        daemon.socket.as_str(),
        "--task",
        "front",
        "--fps",
        "30",
        "--seconds",
        "2",
        "--json",
    ];
    let output = bed.try_command("show labelled frames", 60, &command)?;
    ends_with("punctual camera", &output, 0, "code 0")?;
    bed.end_daemon(&daemon)?;
    let last = output.text().lines().last().unwrap_or_default().to_owned();
    let said: serde_json::Value = serde_json::from_str(&last).map_err(|_| Failure::Form {
        who: "punctual camera".to_owned(),
        said: last,
    })?;
    let count = |key: &str| said[key].as_u64().unwrap_or_default();
    let answers = count("on_time") + count("late");
    bed.effect(
        count("correct"),
        format!("right classes of {answers} answers"),
    );
    bed.measure(
        "right_share",
        count("correct") as f64 / answers.max(1) as f64,
    );
    Ok(())
}

fn first_start(events: &[crate::records::ServiceEvent]) -> Option<u64> {
    events.iter().find_map(|event| match event {
        crate::records::ServiceEvent::Started { at_ns, .. } => Some(*at_ns),
        _ => None,
    })
}

fn first_ready(events: &[crate::records::ServiceEvent]) -> Option<u64> {
    events.iter().find_map(|event| match event {
        crate::records::ServiceEvent::Ready { at_ns } => Some(*at_ns),
        _ => None,
    })
}

fn ends_with(who: &str, output: &Output, code: i32, wanted: &'static str) -> Result<(), Failure> {
    if output.code == Some(code) {
        return Ok(());
    }
    Err(Failure::Ending {
        who: who.to_owned(),
        found: output
            .code
            .map_or("a signal".to_owned(), |code| format!("code {code}")),
        wanted,
        words: output.stderr.clone(),
    })
}
