//! `punctual share` as a process, on the demonstration network with last layers of its own.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Network, OperatorKind, Package, WeightImage, WeightRange};
use punctual_signs::{CAMERA_EASIEST, CROP_SIDE, Scene};

fn signs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.punctual")
}

/// An empty folder of the test's own.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("share")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

/// The weights of the operator that writes the last exit.
fn last_layer(network: &Network) -> WeightRange {
    let stage = network.stages.last().expect("a stage");
    let exit = stage.operators.last().expect("an operator");
    assert_eq!(Some(exit.output), stage.scores());
    match exit.kind {
        OperatorKind::Linear(_) => exit.weights[0],
        ref other => panic!("the exit is {other:?}"),
    }
}

fn first_layer(network: &Network) -> WeightRange {
    let ranges = &network.stages[0].operators[0].weights;
    *ranges.first().expect("a convolution has weights")
}

/// The demonstration network with some of its weights multiplied, written to `folder`.
fn variant(
    folder: &Path,
    name: &str,
    layer: fn(&Network) -> WeightRange,
    factor: f32,
) -> (PathBuf, Package) {
    let signs = Package::read(&signs()).expect("the demonstration package");
    let mut network = signs.network().clone();
    let range = layer(&network);
    let mut weights = network.weights.to_vec();
    for weight in &mut weights[range.start as usize..][..range.len as usize] {
        *weight *= factor;
    }
    network.weights = weights.into();
    let package = Package::new(network, signs.calibration().clone()).expect("valid");
    let isa = Isa::detect();
    let layout =
        punctual_device_cpu::image_layout(isa, package.network()).expect("known operators");
    let image = punctual_device_cpu::pack_image(isa, package.network()).expect("known operators");
    let package = package.with_layouts(vec![layout]).expect("fits");
    let package = package.with_image(isa.lanes() as u8, image).expect("fits");
    let path = folder.join(name);
    package.write(&path).expect("written");
    (path, package)
}

fn share(paths: &[&Path], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("share").args(paths).args(arguments);
    command.output().expect("the command runs")
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Scores of one image at all exits.
fn scores(network: &Network) -> Vec<Vec<f32>> {
    let mut evaluator = Evaluator::new(Isa::detect(), network, 1).expect("starts");
    let input = network.input.tensor();
    let pixels = input.channels * input.height * input.width;
    let value = |pixel: u32| (pixel * 37 % 101) as f32 / 50.0 - 1.0;
    let image: Vec<f32> = (0..pixels).map(value).collect();
    let stages = evaluator.scores(&[&image]).into_iter().flatten();
    let exits = stages.filter(|scores| !scores.is_empty());
    exits.collect()
}

fn samples(folder: &Path) -> PathBuf {
    let mut list = String::new();
    let mut rgb = vec![0; (CROP_SIDE * CROP_SIDE * 3) as usize];
    for index in 0..9 {
        let scene = Scene::from_difficulty(78, index, CAMERA_EASIEST);
        scene.render(scene.crop(), &mut rgb);
        let header = format!("P6\n{CROP_SIDE} {CROP_SIDE}\n255\n");
        let name = format!("{index}.ppm");
        fs::write(folder.join(&name), [header.as_bytes(), &rgb].concat()).expect("written");
        list.push_str(&format!("{name},{}\n", scene.label()));
    }
    let path = folder.join("list.csv");
    fs::write(&path, list).expect("written");
    path
}

fn calibrated(package: &Path, samples: &Path) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("calibrate").arg(package).arg("--json");
    command.arg("--samples").arg(samples);
    json(&command.output().expect("the command runs"))
}

#[test]
fn networks_with_another_last_layer_share_all_before_it_and_answer_as_before() {
    let folder = scratch("last_layer");
    let variants = [
        ("a.punctual", 1.0),
        ("b.punctual", 0.5),
        ("c.punctual", 2.0),
    ]
    .map(|(name, factor)| variant(&folder, name, last_layer, factor));
    let paths = variants.each_ref().map(|(path, _)| path.as_path());
    let shared = folder.join("shared");
    let report = json(&share(
        &paths,
        &["--json", "--output", shared.to_str().expect("plain")],
    ));

    let stages = variants[0].1.network().stages.len();
    let common = stages; // The last stage is two now, the first of them common.
    let cut = paths.map(|path| {
        let name = path.file_name().expect("a name");
        Package::read(&shared.join(name)).expect("a valid package")
    });
    for (before, after) in variants.iter().map(|(_, before)| before).zip(&cut) {
        assert_eq!(after.network().stages.len(), stages + 1);
        let prefixes = after.stage_prefixes();
        assert_eq!(prefixes[..common], cut[0].stage_prefixes()[..common]);
        assert_eq!(after.network().stages[common - 1].scores(), None);
        assert_eq!(after.calibration(), before.calibration());
        let lanes = |package: &Package| -> Vec<u8> {
            package.images().iter().map(WeightImage::lanes).collect()
        };
        assert_eq!(lanes(after), lanes(before));
        let exits = scores(after.network());
        assert_eq!(exits.len(), stages);
        assert_eq!(exits, scores(before.network()));
    }
    let last = |package: &Package| package.stage_prefixes()[common].hash;
    assert_ne!(last(&cut[0]), last(&cut[1]));
    assert_ne!(last(&cut[1]), last(&cut[2]));

    let rows = report["stages"].as_array().expect("a list");
    assert_eq!(rows.len(), common + 3, "{report:#}");
    for row in &rows[..common] {
        assert_eq!(row["packages"].as_array().map(Vec::len), Some(3));
    }
    assert_eq!(report["batches"], true);
    assert_eq!(report["cut_at"], stages - 1);
    let bytes = |name: &str| report["memory"][name].as_u64().expect("a figure");
    assert!(bytes("shared_bytes") < bytes("separate_bytes") / 2);
}

#[test]
fn a_stage_without_an_exit_is_shown_as_one() {
    let folder = scratch("inspect");
    let (a, _) = variant(&folder, "a.punctual", last_layer, 1.0);
    let (b, _) = variant(&folder, "b.punctual", last_layer, 0.5);
    let inspected = |path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(["inspect", "--json"]).arg(path);
        json(&command.output().expect("the command runs"))
    };
    let before = inspected(&a);
    json(&share(&[&a, &b], &["--in-place", "--json"]));
    let after = inspected(&a);
    let of = |report: &serde_json::Value, list: &str, key: &str| -> Vec<serde_json::Value> {
        let rows = report[list].as_array().expect("a list").iter();
        rows.map(|row| row[key].clone()).collect()
    };
    assert_eq!(of(&before, "exits", "stage"), [0, 1, 2]);
    assert_eq!(of(&after, "exits", "stage"), [0, 1, 3]);
    let mut accuracies = of(&before, "stages", "accuracy");
    accuracies.insert(2, serde_json::Value::Null);
    assert_eq!(of(&after, "stages", "accuracy"), accuracies);
    let (before, after) = (of(&before, "stages", "hash"), of(&after, "stages", "hash"));
    assert_eq!(before[..2], after[..2]);
    assert_ne!(before[2], after[2]);
}

#[test]
fn a_stage_without_an_exit_is_no_exit_to_calibrate() {
    let folder = scratch("calibrate");
    let (a, _) = variant(&folder, "a.punctual", last_layer, 1.0);
    let (b, _) = variant(&folder, "b.punctual", last_layer, 0.5);
    let samples = samples(&folder);
    let before = calibrated(&b, &samples);
    json(&share(&[&a, &b], &["--in-place", "--json"]));
    assert_eq!(calibrated(&b, &samples), before);
}

#[test]
fn packages_cut_in_place_stay_as_they_are_when_cut_again() {
    let folder = scratch("in_place");
    let (a, _) = variant(&folder, "a.punctual", last_layer, 1.0);
    let (b, _) = variant(&folder, "b.punctual", last_layer, 0.5);
    let first = share(&[&a, &b], &["--in-place"]);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let text = String::from_utf8(first.stdout).expect("text");
    assert!(text.contains(", cut\n"), "{text}");
    assert!(
        text.contains("each `mandatory_exit` of 2 or more"),
        "{text}"
    );
    let written = [&a, &b].map(|path| fs::read(path).expect("there"));
    let again = json(&share(&[&a, &b], &["--in-place", "--json"]));
    assert_eq!(again["packages"][0]["cut"], false, "{again:#}");
    assert_eq!(again["cut_at"], serde_json::Value::Null);
    assert_eq!(written, [&a, &b].map(|path| fs::read(path).expect("there")));
}

#[test]
fn networks_that_differ_from_the_first_layer_on_are_refused_by_name() {
    let folder = scratch("unrelated");
    let (a, _) = variant(&folder, "a.punctual", last_layer, 1.0);
    let (b, _) = variant(&folder, "b.punctual", last_layer, 0.5);
    let (other, _) = variant(&folder, "other.punctual", first_layer, 0.5);
    let written = fs::read(&a).expect("there");
    let refused = share(&[&a, &b, &other], &["--in-place"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let text = String::from_utf8(refused.stderr).expect("text");
    assert!(
        text.contains("other.punctual have no stage in common"),
        "{text}"
    );
    assert_eq!(fs::read(&a).expect("there"), written);
}

#[test]
fn two_packages_for_one_file_and_missing_files_are_told_from_each_other() {
    let folder = scratch("files");
    let (a, _) = variant(&folder, "a.punctual", last_layer, 1.0);
    let twice = share(&[&a, &a], &["--in-place"]);
    assert_eq!(twice.status.code(), Some(3), "{twice:?}");
    let missing = share(&[&a, &folder.join("none.punctual")], &["--in-place"]);
    assert_eq!(missing.status.code(), Some(4), "{missing:?}");
}
