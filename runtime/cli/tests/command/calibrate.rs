//! `punctual calibrate` as a process, on the demonstration network and pictures of its cameras.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use punctual_model::{Calibration, Package};
use punctual_signs::{CAMERA_EASIEST, CLASSES, CROP_SIDE, Scene};

/// A set that nothing was trained on or chosen with.
const SEED: u64 = 77;
const PICTURES: u64 = 120;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.punctual")
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("calibrate")
        .join(name)
}

/// A folder of folders, and next to it the same pictures as a list.
fn pictures() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("pictures");
        let _ = fs::remove_dir_all(&folder);
        let mut list = String::new();
        let mut rgb = vec![0; (CROP_SIDE * CROP_SIDE * 3) as usize];
        for index in 0..PICTURES {
            let scene = Scene::from_difficulty(SEED, index, CAMERA_EASIEST);
            scene.render(scene.crop(), &mut rgb);
            let class = CLASSES[scene.label()];
            fs::create_dir_all(folder.join(class)).expect("a folder for tests");
            let name = format!("{class}/{index:03}.ppm");
            let header = format!("P6\n{CROP_SIDE} {CROP_SIDE}\n255\n");
            let bytes = [header.as_bytes(), &rgb].concat();
            fs::write(folder.join(&name), bytes).expect("written");
            list.push_str(&format!("pictures/{name},{}\n", scene.label()));
        }
        fs::write(scratch("list.csv"), list).expect("written");
        folder
    })
}

fn calibrate(samples: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command
        .arg("calibrate")
        .arg(package())
        .arg("--samples")
        .arg(samples);
    command.args(arguments).output().expect("the command runs")
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain names")
}

#[test]
fn deeper_exits_are_right_more_often_and_a_higher_threshold_goes_deeper() {
    let report = json(&calibrate(pictures(), &["--json"]));
    assert_eq!(report["samples"], PICTURES);
    let accuracy = |exit: usize| {
        report["exits"][exit]["accuracy"]
            .as_f64()
            .expect("a figure")
    };
    assert!(accuracy(2) > accuracy(0) && accuracy(2) > 0.9, "{report}");
    let depths: Vec<f64> = report["thresholds"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|threshold| threshold["depth"].as_f64().expect("a figure"))
        .collect();
    assert_eq!(depths[0], 1.0);
    assert!(
        depths.is_sorted() && depths[depths.len() - 1] > 1.2,
        "{depths:?}"
    );
}

#[test]
fn folders_and_a_list_of_the_same_pictures_give_the_same_report() {
    let folders = json(&calibrate(pictures(), &["--json"]));
    let list = json(&calibrate(&scratch("list.csv"), &["--json"]));
    assert_eq!(
        folders["exits"][0]["accuracy"],
        list["exits"][0]["accuracy"]
    );
    assert_eq!(folders["thresholds"], list["thresholds"]);
}

#[test]
fn pictures_named_by_their_class_and_folders_of_classes_without_names_give_the_same_report() {
    let folders = json(&calibrate(pictures(), &["--json"]));
    let accuracy = |report: &serde_json::Value| report["exits"][0]["accuracy"].clone();

    let flat = scratch("named");
    let _ = fs::remove_dir_all(&flat);
    fs::create_dir_all(&flat).expect("a folder");
    let classes = fs::read_dir(pictures()).expect("folders");
    for class in classes.map(|entry| entry.expect("an entry").path()) {
        let name = class.file_name().expect("a name").to_string_lossy();
        for picture in fs::read_dir(&class).expect("pictures") {
            let picture = picture.expect("an entry");
            let file = picture.file_name();
            let to = flat.join(format!("{name}-{}", file.to_string_lossy()));
            fs::copy(picture.path(), to).expect("a copy");
        }
    }
    assert_eq!(
        accuracy(&json(&calibrate(&flat, &["--json"]))),
        accuracy(&folders)
    );
    fs::write(flat.join("cat.ppm"), "").expect("written");
    let unknown = calibrate(&flat, &[]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no class `cat`"));

    // As from an ONNX file alone: as many folders as classes, in the order of their names.
    let mut network = Package::read(&package())
        .expect("a package")
        .network()
        .clone();
    network.classes = (0..CLASSES.len()).map(|at| format!("class_{at}")).collect();
    let unnamed = scratch("unnamed.punctual");
    let unnamed_package = Package::new(network, Calibration::default()).expect("a package");
    unnamed_package.write(&unnamed).expect("written");
    let ordered = scratch("ordered");
    let _ = fs::remove_dir_all(&ordered);
    for (at, class) in CLASSES.iter().enumerate() {
        let folder = ordered.join(format!("n{:04}", 1_000 + at));
        fs::create_dir_all(&folder).expect("a folder");
        let pictures = fs::read_dir(pictures().join(class))
            .into_iter()
            .flatten()
            .flatten();
        for picture in pictures {
            fs::copy(picture.path(), folder.join(picture.file_name())).expect("a copy");
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command
        .arg("calibrate")
        .arg(&unnamed)
        .arg("--json")
        .arg("--samples")
        .arg(&ordered);
    assert_eq!(
        accuracy(&json(&command.output().expect("it runs"))),
        accuracy(&folders)
    );
}

#[test]
fn a_package_with_temperatures_gives_the_same_answers_with_other_confidences() {
    let (into, records) = (scratch("scaled.punctual"), scratch("records.json"));
    let (svg, html) = (scratch("plot.svg"), scratch("page.html"));
    pictures();
    let written = calibrate(
        pictures(),
        &[
            "--temperature",
            "--into",
            text(&into),
            "--output",
            text(&records),
            "--svg",
            text(&svg),
            "--html",
            text(&html),
            "--json",
        ],
    );
    let report = json(&written);
    let scaled = Package::read(&into).expect("a package");
    let stored = Calibration::from_json(&fs::read_to_string(&records).expect("records"));
    assert_eq!(scaled.calibration(), &stored.expect("records"));
    assert!(
        fs::read_to_string(&svg)
            .expect("a picture")
            .contains("</svg>")
    );
    assert!(
        fs::read_to_string(&html)
            .expect("a page")
            .contains("<table")
    );

    // Calibrated again, the temperatures are 1 and the answers the same.
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command
        .arg("calibrate")
        .arg(&into)
        .arg("--samples")
        .arg(pictures())
        .arg("--json");
    let again = json(&command.output().expect("the command runs"));
    for (before, after) in exits(&report).iter().zip(exits(&again)) {
        assert_eq!(before["accuracy"], after["accuracy"]);
        let temperature = after["temperature"].as_f64().expect("a figure");
        assert!((temperature - 1.0).abs() < 0.01, "{after}");
        let (promised, found) = (&before["expected_error_scaled"], &after["expected_error"]);
        let difference = promised.as_f64().expect("a figure") - found.as_f64().expect("a figure");
        assert!(difference.abs() < 0.005, "{promised} and {found}");
    }
}

fn exits(report: &serde_json::Value) -> &[serde_json::Value] {
    report["exits"].as_array().expect("a list")
}

#[test]
fn what_cannot_be_used_is_named_with_a_code() {
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let missing = calibrate(&scratch("nowhere"), &[]);
    assert_eq!(missing.status.code(), Some(4), "{missing:?}");
    assert!(said(&missing).contains("nowhere"));

    let unknown = scratch("unknown");
    fs::create_dir_all(unknown.join("no such sign")).expect("a folder");
    let unknown = calibrate(&unknown, &[]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");
    assert!(
        said(&unknown).contains("no class `no such sign`"),
        "{}",
        said(&unknown)
    );

    let empty = scratch("empty");
    fs::create_dir_all(&empty).expect("a folder");
    assert_eq!(calibrate(&empty, &[]).status.code(), Some(3));

    let broken = scratch("broken");
    fs::create_dir_all(broken.join("stop")).expect("a folder");
    fs::write(broken.join("stop/1.png"), b"not a picture").expect("written");
    let broken = calibrate(&broken, &[]);
    assert_eq!(broken.status.code(), Some(3), "{broken:?}");
    assert!(said(&broken).contains("1.png"), "{}", said(&broken));

    let list = scratch("bad.csv");
    fs::write(&list, "a.png;3\n").expect("written");
    let list = calibrate(&list, &[]);
    assert!(
        said(&list).contains("bad.csv:1: expected `picture,class`"),
        "{}",
        said(&list)
    );
}
