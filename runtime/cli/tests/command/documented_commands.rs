//! The commands of the documents and help texts, typed: in a folder that has the files which they name.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::documented::{TYPED_IN_ORDER, in_files, in_text, root};

/// What is not run, by words that it contains, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("punctual demo", "seconds of real time: tests/demo.rs"),
    (
        "punctual daemon",
        "serves until a signal: the daemon's own tests",
    ),
    ("punctual camera", "needs such a daemon: tests/demo.rs"),
    (
        "punctual load",
        "real time, most with such a daemon: load.rs",
    ),
    ("punctual ask", "needs such a daemon: ask.rs, drawings.rs"),
    ("punctual top", "needs such a daemon: top.rs"),
    ("punctual status", "needs such a daemon: top.rs"),
    ("punctual metrics", "serves until a signal: metrics.rs"),
    ("record dump", "needs such a daemon: record.rs"),
    ("explain --socket", "needs such a daemon: record.rs"),
    ("punctual profile", "minutes; a quick one is run first"),
    (
        "resnet.onnx --normalise imagenet --answer classes --verify",
        "the same network as models/signs/signs.toml, which is verified",
    ),
    ("/etc/punctual", "a service's files"),
    ("check robot.toml", "needs a profile: init.rs"),
    ("MANIFEST", "a place for a name"),
    ("gpu.toml", "needs a GPU"),
    ("examples/segmenter.", "drawings.rs types them"),
    ("examples/depth.toml", "drawings.rs types them"),
    ("examples/steering.toml", "drawings.rs types them"),
    ("loads 0.5,1,2,3,4", "a minute when it is not optimised"),
    ("seeb-pai --seeds 10", "a minute when it is not optimised"),
    ("simulate robot-day", "minutes when it is not optimised"),
    ("simulate --experiment", "minutes when it is not optimised"),
    ("simulate --fuzz 10000", ".ci/run fuzzes"),
    (
        "bench answers",
        "minutes of real time: bench/tests/answers.rs",
    ),
    (
        "bench beside",
        "half an hour of real time: bench/tests/beside.rs",
    ),
    (
        "bench detection",
        "minutes of real time: bench/tests/detection.rs",
    ),
    (
        "bench engine",
        "needs ONNX Runtime: tests of punctual-device-ort",
    ),
    (
        "bench overhead",
        "minutes of real time: bench/tests/overhead.rs",
    ),
    (
        "bench lending",
        "minutes of real time: bench/tests/lending.rs",
    ),
    (
        "bench paging",
        "half a minute of real time: bench/tests/paging.rs",
    ),
    (
        "bench prefix",
        "minutes of real time: bench/tests/prefix.rs",
    ),
    ("bench start", "minutes of real time: bench/tests/start.rs"),
    (
        "bench wakeup",
        "minutes of real time: bench/tests/wakeup.rs",
    ),
    ("bench gpu", "needs a GPU: bench/tests/gpu.rs"),
];

/// Codes other than 0 that mean that a command did what it is shown for.
const ENDINGS: &[(&str, i32)] = &[
    // Whatever is wrong with the machine that tests.
    ("doctor", 1),
    // No GPU.
    ("board detect", 5),
];

fn punctual(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts")
}

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documented");
    let _ = fs::remove_dir_all(&folder);
    for below in ["models/signs", "examples", "boards", "held-out", "val"] {
        fs::create_dir_all(folder.join(below)).expect("a folder");
    }
    // A folder for each class, as held-out pictures have.
    for class in punctual_signs::CLASSES {
        for samples in ["held-out", "val"] {
            fs::create_dir(folder.join(samples).join(class)).expect("a folder");
        }
    }
    let copy = |from: &str, to: &str| {
        fs::copy(root().join(from), folder.join(to))
            .unwrap_or_else(|error| panic!("{from}: {error}"));
    };
    for name in [
        "signs.onnx",
        "signs.toml",
        "calibration.json",
        "signs.punctual",
    ] {
        copy(
            &format!("models/signs/{name}"),
            &format!("models/signs/{name}"),
        );
        copy(&format!("models/signs/{name}"), name);
    }
    for name in ["resnet.onnx", "resnet50.onnx", "model.onnx"] {
        copy("models/signs/signs.onnx", name);
    }
    // Those of docs/networks.md, as its Python writes them.
    // And those of docs/detectors.md.
    for name in [
        "classifier",
        "segmenter",
        "detector",
        "steering",
        "depth",
        "yolo11n",
        "ssd",
    ] {
        let name = format!("{name}.onnx");
        copy(&format!("runtime/cli/tests/documented/{name}"), &name);
    }
    copy(
        "runtime/compile/tests/data/retinanet.onnx",
        "retinanet.onnx",
    );
    for name in [
        "camera.punctual",
        "resnet.punctual",
        "cats.punctual",
        "dogs.punctual",
        "birds.punctual",
    ] {
        copy("models/signs/signs.punctual", name);
    }
    for name in [
        "one-camera.toml",
        "fleet.toml",
        "robot.toml",
        "traffic.toml",
        "workload.toml",
    ] {
        copy(&format!("examples/{name}"), &format!("examples/{name}"));
    }
    copy("examples/fleet.toml", "fleet.toml");
    copy("examples/workload.toml", "my-workload.toml");
    let write =
        |name: &str, content: &[u8]| fs::write(folder.join(name), content).expect("written");
    let manifest = fs::read_to_string(root().join("examples/one-camera.toml")).expect("text");
    write(
        "manifest.toml",
        manifest
            .replace("../models/signs/signs.punctual", "camera.punctual")
            .as_bytes(),
    );
    let picture = [b"P6 64 64 255\n".to_vec(), vec![128; 64 * 64 * 3]].concat();
    write("held-out/stop/1.ppm", &picture);
    write("val/stop/1.ppm", &picture);
    // As many names as resnet50.onnx has classes here.
    let names = punctual_signs::CLASSES.map(|name| format!("{name}\n"));
    write("imagenet.txt", names.concat().as_bytes());
    write("held-out.csv", b"held-out/stop/1.ppm,stop\n");
    calibrated(&folder);
    folder
}

/// Networks that are no classifiers, with a picture and what is right of it.
fn calibrated(folder: &Path) {
    for (file, package, answer) in [
        ("calibrated/boxes", "finder", "detections"),
        ("documented/segmenter", "segmenter", "none"),
        ("documented/steering", "steering", "none"),
    ] {
        let file = root().join(format!("runtime/cli/tests/{file}.onnx"));
        let (file, package) = (file.display(), format!("{package}.punctual"));
        let line = format!("compile {file} --normalise none --answer {answer} --output {package}");
        let compiled = punctual(folder, &line.split(' ').collect::<Vec<_>>());
        assert!(compiled.status.success(), "{compiled:?}");
    }
    for part in ["pictures", "masks"] {
        fs::create_dir(folder.join(part)).expect("a folder");
        let picture = image::GrayImage::new(64, 64);
        picture
            .save(folder.join(part).join("1.png"))
            .expect("written");
    }
    let write = |name: &str, content: &str| fs::write(folder.join(name), content).expect("written");
    write("angles.csv", "pictures/1.png,0,0,0\n");
    let annotations = r#"{"images": [{"id": 1, "file_name": "pictures/1.png"}], "annotations": [], "categories": []}"#;
    write("annotations.json", annotations);
}

/// The help of the program and of each command below it.
fn in_help(folder: &Path, command: &[&str]) -> Vec<crate::documented::Documented> {
    let output = punctual(folder, &[command, &["--help"]].concat());
    let help = String::from_utf8(output.stdout).expect("text");
    let (_, examples) = help.split_once("EXAMPLES:").unwrap_or(("", ""));
    let mut found = in_text(&command.join(" "), examples);
    let listed = help
        .split_once("Commands:\n")
        .map_or("", |(_, listed)| listed);
    let names = listed.lines().take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            found.extend(in_help(folder, &[command, &[name]].concat()));
        }
    }
    found
}

#[test]
fn commands_work_as_they_are_shown() {
    let folder = scratch();
    let measured = punctual(&folder, &["profile", "manifest.toml", "--quick"]);
    assert!(measured.status.success(), "{measured:?}");
    // Of the same package by another name, which examples/one-camera.toml is about.
    for copy in ["signs.profile.json", "models/signs/signs.profile.json"] {
        fs::copy(folder.join("camera.profile.json"), folder.join(copy)).expect("a copy");
    }
    let mut shown = in_files();
    shown.extend(in_help(&folder, &[]));
    shown.retain(|command| {
        command.words[0] == "punctual" && !TYPED_IN_ORDER.contains(&command.place.as_str())
    });
    let (mut typed, mut failed) = (Vec::new(), Vec::new());
    for command in shown {
        let line = command.words.join(" ");
        let left_out = NOT_RUN.iter().any(|(words, _)| line.contains(words));
        // A list is a list, whatever it is of.
        if (left_out && !line.ends_with("--list")) || typed.contains(&line) {
            continue;
        }
        let arguments: Vec<&str> = command.words[1..].iter().map(String::as_str).collect();
        let output = punctual(&folder, &arguments);
        let code = output.status.code();
        let fine = |(words, other): &(&str, i32)| line.contains(words) && code == Some(*other);
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        if code != Some(0) && !ENDINGS.iter().any(fine) {
            failed.push(format!("{}: {line}: {code:?} {said}", command.place));
        }
        if printed.contains("NaN") || printed.contains(" inf") {
            failed.push(format!("{}: {line}: no number: {printed}", command.place));
        }
        typed.push(line);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(typed.len() > 30, "{typed:#?}");
    for (words, why) in NOT_RUN {
        assert!(
            typed
                .iter()
                .all(|line| !line.contains(words) || line.ends_with("--list")),
            "{words}: {why}"
        );
    }
}
