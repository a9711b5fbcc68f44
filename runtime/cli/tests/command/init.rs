//! `punctual init`, as it is typed: what it writes is a manifest that the others take.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_model::{Package, PrepareProfile};

/// A folder with the demonstration network in it.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a fresh folder");
    let signs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.punctual");
    fs::copy(signs, folder.join("signs.punctual")).expect("a copy");
    folder
}

fn punctual(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(line.split(' ')).current_dir(folder);
    command.output().expect("the command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The keys of a manifest that no comment stands above.
fn unexplained(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.windows(2);
    let keys = pairs.filter(|pair| pair[1].contains(" = ") && !pair[1].starts_with('#'));
    keys.filter(|pair| !pair[0].starts_with('#'))
        .map(|pair| pair[1])
        .collect()
}

#[test]
fn what_is_written_is_measured_and_planned_and_says_why_of_each_key() {
    let folder = scratch("init");
    let first = punctual(&folder, "init signs.punctual");
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let next = String::from_utf8_lossy(&first.stdout).into_owned();
    for command in ["profile", "check", "daemon"] {
        assert!(
            next.contains(&format!("punctual {command} manifest.toml")),
            "{next}"
        );
    }
    let text = fs::read_to_string(folder.join("manifest.toml")).expect("written");
    assert_eq!(unexplained(&text), [""; 0], "{text}");
    assert!(
        text.contains("a guess") && text.contains("deadline_ms = 50"),
        "{text}"
    );

    let measured = punctual(&folder, "profile manifest.toml --quick");
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let planned = punctual(&folder, "check manifest.toml");
    assert_eq!(planned.status.code(), Some(0), "{planned:?}");

    let again = punctual(&folder, "init signs.punctual --output again.toml");
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let text = fs::read_to_string(folder.join("again.toml")).expect("written");
    assert!(
        text.contains("by profiles") && !text.contains("a guess"),
        "{text}"
    );
    let planned = punctual(&folder, "check again.toml");
    assert_eq!(planned.status.code(), Some(0), "{planned:?}");
    let least = "[[task]]\npackage = \"signs.punctual\"\nrate_hz = 30\ndeadline_ms = 50\n";
    fs::write(folder.join("least.toml"), least).expect("written");
    let planned = punctual(&folder, "check least.toml");
    assert_eq!(planned.status.code(), Some(0), "{planned:?}");
}

#[test]
fn several_packages_have_a_task_each_and_options_are_written_as_they_were_said() {
    let folder = scratch("init-several");
    fs::copy(
        folder.join("signs.punctual"),
        folder.join("Other Net.punctual"),
    )
    .expect("a copy");
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let options = ["--rate", "12.5", "--deadline", "70", "--frame", "640x480"];
    let command = command.args(["init", "signs.punctual", "Other Net.punctual"]);
    let output = command.args(options).current_dir(&folder).output();
    assert_eq!(output.expect("it runs").status.code(), Some(0));
    let text = fs::read_to_string(folder.join("manifest.toml")).expect("written");
    for line in [
        "name = \"signs\"",
        "name = \"other-net\"",
        "package = \"Other Net.punctual\"",
        "rate_hz = 12.5",
        "deadline_ms = 70",
        "frame = { format = \"rgb8\", width = 640, height = 480 }",
    ] {
        assert!(
            text.lines().any(|written| written == line),
            "{line}: {text}"
        );
    }
    let best = punctual(
        &folder,
        "init signs.punctual --best-effort --output best.toml",
    );
    assert_eq!(best.status.code(), Some(0), "{best:?}");
    let text = fs::read_to_string(folder.join("best.toml")).expect("written");
    assert!(
        text.contains("\"best-effort\"\n") && !text.contains("rate_hz"),
        "{text}"
    );
}

#[test]
fn no_file_is_overwritten_and_what_cannot_be_served_is_refused() {
    let folder = scratch("init-refused");
    fs::write(folder.join("manifest.toml"), "mine").expect("written");
    for (line, code, words) in [
        (
            "init signs.punctual",
            4,
            "manifest.toml exists: name another file",
        ),
        (
            "init none.punctual --output m.toml",
            4,
            "none.punctual: No such file",
        ),
        ("init manifest.toml --output m.toml", 3, "manifest.toml"),
        (
            "init signs.punctual --output nowhere/m.toml",
            4,
            "cannot write nowhere/m.toml",
        ),
        (
            "init signs.punctual --rate 0",
            2,
            "expected a number from 0.01 to 10000",
        ),
        ("init signs.punctual --frame 640", 2, "such as 640x480"),
    ] {
        let output = punctual(&folder, line);
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        assert!(said(&output).contains(words), "{line}: {output:?}");
    }
    let kept = fs::read_to_string(folder.join("manifest.toml")).expect("still there");
    assert_eq!(kept, "mine");
    assert!(!folder.join("m.toml").exists());
}

#[test]
fn a_manifest_that_is_not_there_is_told_of_with_what_to_do() {
    let folder = scratch("init-none");
    let named = punctual(&folder, "check nothing.toml");
    assert_eq!(named.status.code(), Some(4), "{named:?}");
    assert!(
        said(&named).contains("cannot read the file: No such file"),
        "{named:?}"
    );
    if Path::new("/etc/punctual/manifest.toml").exists() {
        return;
    }
    for line in ["check", "daemon"] {
        let output = punctual(&folder, line);
        assert_eq!(output.status.code(), Some(4), "{line}: {output:?}");
        let words = [
            "there is none at /etc/punctual/manifest.toml",
            "punctual init",
        ];
        let said = said(&output);
        assert!(
            words.iter().all(|words| said.contains(words)),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_robots_manifest_is_judged_here_by_the_profile_that_is_kept_for_its_board() {
    const BOARD: &str = "jetson-agx-orin-64gb";
    let folder = scratch("init-elsewhere");
    let manifest = format!(
        "daemon = {{ board = \"{BOARD}\" }}\npartition = [{{ units = 1 }}]\n[[task]]\npackage = \"signs.punctual\"\nrate_hz = 30\ndeadline_ms = 500\n"
    );
    fs::write(folder.join("robot.toml"), manifest).expect("written");
    let line = format!("check robot.toml --board {BOARD}");
    let unmeasured = punctual(&folder, &line);
    assert_eq!(unmeasured.status.code(), Some(4), "{unmeasured:?}");
    assert!(
        said(&unmeasured).contains("no profile of board"),
        "{unmeasured:?}"
    );

    let package = Package::read(&folder.join("signs.punctual")).expect("a package");
    let mut profile = crate::support::profile("ARMv8 Processor rev 1, neon", "held", &package);
    profile.key.board = BOARD.to_owned();
    profile.key.power_mode = "MODE_30W".to_owned();
    let whole = PrepareProfile {
        width: 96,
        height: 96,
        crop_width: 96,
        crop_height: 96,
        ..profile.prepare[0].clone()
    };
    profile.prepare.push(whole);
    let file = folder.join(format!("signs.{BOARD}.profile.json"));
    profile.write(&file).expect("written");
    let judged = punctual(&folder, &line);
    assert_eq!(judged.status.code(), Some(0), "{judged:?}");
    let plan = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(plan.contains("power mode MODE_30W"), "{plan}");
}
