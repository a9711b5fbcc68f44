//! `punctual calibrate` on networks of `tests/calibrated`, whose answers can be worked out by hand: detections, masks, numbers
//! and labels.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::{GrayImage, Luma, Rgb, RgbImage};
use punctual_model::{CalibrationExit, Package};
use serde_json::{Value, json};

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calibrate-kinds");
    let folder = folder.join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

fn punctual(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let command = command.args(arguments).current_dir(folder);
    command.output().expect("the command runs")
}

/// Compiles `tests/FILE` to `network.punctual`.
fn compile(folder: &Path, file: &str, answer: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(file);
    let file = file.to_str().expect("a path in UTF-8");
    let line = format!(
        "compile {file} --normalise none --no-images --output network.punctual --answer {answer}"
    );
    let compiled = punctual(&line.split(' ').collect::<Vec<_>>(), folder);
    assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
}

fn calibrate(folder: &Path, arguments: &str) -> Output {
    let line = format!("calibrate network.punctual {arguments}");
    punctual(&line.split(' ').collect::<Vec<_>>(), folder)
}

fn report(folder: &Path, arguments: &str) -> Value {
    let output = calibrate(folder, &format!("{arguments} --json"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What it says when it refuses, and its code.
fn refused(folder: &Path, arguments: &str) -> (String, Option<i32>) {
    let output = calibrate(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (said, output.status.code())
}

fn near(found: &Value, expected: f64) {
    let number = found.as_f64().unwrap_or_else(|| panic!("{found}"));
    assert!((number - expected).abs() < 1e-4, "{number}, not {expected}");
}

fn plain(path: &Path, size: [u32; 2], colour: [u8; 3]) {
    let picture = RgbImage::from_pixel(size[0], size[1], Rgb(colour));
    picture.save(path).expect("written");
}

/// The threshold `at` of a report.
fn threshold(report: &Value, at: f64) -> &Value {
    let mut thresholds = report["thresholds"].as_array().expect("a list").iter();
    let found = thresholds.find(|threshold| threshold["threshold"] == at);
    found.expect("a threshold that is reported")
}

/// Four pictures of more and more green with one object each: exit 0 finds the first two, exit 1 finds all.
fn detections(name: &str) -> PathBuf {
    let folder = scratch(name);
    compile(&folder, "calibrated/boxes.onnx", "detections");
    for (at, green) in [0, 64, 128, 255].into_iter().enumerate() {
        plain(&folder.join(format!("{at}.png")), [32, 32], [0, green, 0]);
    }
    let images = (0..4)
        .map(|id| json!({"id": id, "file_name": format!("{id}.png"), "width": 32, "height": 32}));
    let objects =
        (0..4).map(|image| json!({"image_id": image, "category_id": 3, "bbox": [8, 8, 16, 16]}));
    let annotations = json!({
        "images": images.collect::<Vec<_>>(),
        "annotations": objects.collect::<Vec<_>>(),
        "categories": [{"id": 3, "name": "box"}],
    });
    fs::write(folder.join("annotations.json"), annotations.to_string()).expect("written");
    folder
}

#[test]
fn detections_have_a_mean_average_precision_by_exit_and_by_threshold() {
    let folder = detections("detections");
    let report = report(
        &folder,
        "--annotations annotations.json --into calibrated.punctual",
    );
    assert_eq!(
        (&report["kind"], &report["samples"]),
        (&json!("detections"), &json!(4))
    );
    let exits = &report["exits"];
    // Two of four objects at all recalls up to a half; the second overlaps by 0.5987.
    near(&exits[0]["figures"]["mAP50"], 51.0 / 101.0);
    near(
        &exits[0]["figures"]["mAP50-95"],
        (2.0 * 51.0 + 8.0 * 26.0) / 1010.0,
    );
    near(&exits[1]["figures"]["mAP50-95"], 1.0);
    near(&exits[0]["accuracy"], 0.5);
    near(&exits[0]["classes"][0]["figures"]["AP50"], 51.0 / 101.0);
    assert_eq!(exits[0]["classes"][0]["count"], 4);
    // Confidence says which frames exit 0 gets right; at exit 1 there is nothing to tell apart.
    near(&exits[0]["concordance"], 1.0);
    assert_eq!(exits[1]["concordance"], Value::Null);
    let effect = threshold(&report, 0.7);
    near(&effect["figures"]["mAP50"], 1.0);
    near(&effect["accuracy"], 1.0);
    near(&effect["at_random"], 0.75);
    near(&effect["depth"], 1.5);
    // From 0.5 on, the confidence of the third picture is too low: 127 of 255.
    near(&report["recommended"], 0.5);
    let said = report["quality"].as_str().expect("a sentence");
    assert!(said.contains("score of at least 0.75"), "{said}");

    let package = Package::read(&folder.join("calibrated.punctual")).expect("a package");
    let samples = &package.calibration().samples;
    let exits = |sample: usize| &samples[sample].exits;
    assert_eq!(exits(0)[0], CalibrationExit::judged(65_535, true));
    assert_eq!(
        (exits(3)[0], exits(3)[1].quality),
        (CalibrationExit::judged(0, false), 65_535)
    );
}

#[test]
fn what_is_found_with_a_lower_score_than_given_does_not_count() {
    let folder = detections("score");
    let report = report(&folder, "--annotations annotations.json --score 0.8");
    near(&report["exits"][1]["accuracy"], 0.0);
    near(&report["exits"][1]["figures"]["mAP50"], 1.0);
}

#[test]
fn boxes_are_found_where_they_lie_in_the_picture() {
    let folder = scratch("places");
    compile(&folder, "calibrated/boxes.onnx", "detections");
    plain(&folder.join("wide.png"), [64, 32], [0; 3]);
    let annotate = |boxes: &[[u32; 4]]| {
        let objects = boxes
            .iter()
            .map(|bbox| json!({"image_id": 1, "category_id": 1, "bbox": bbox}));
        let annotations = json!({
            "images": [{"id": 1, "file_name": "wide.png"}],
            "annotations": objects.collect::<Vec<_>>(),
            "categories": [{"id": 1, "name": "box"}],
        });
        fs::write(folder.join("a.json"), annotations.to_string()).expect("written");
    };
    for (options, boxes) in [
        ("", vec![[16, 8, 32, 16]]),
        ("--letterbox", vec![[16, 0, 32, 32]]),
        // The network sees 16 x 16 pixels in the middle, and no object outside them.
        ("--crop 0.5", vec![[28, 12, 8, 8], [0, 0, 10, 10]]),
    ] {
        annotate(&boxes);
        let report = report(&folder, format!("--annotations a.json {options}").trim());
        near(&report["exits"][1]["figures"]["mAP50-95"], 1.0);
    }
    let sized = json!({
        "images": [{"id": 1, "file_name": "wide.png", "width": 640, "height": 320}],
        "annotations": [], "categories": [],
    });
    fs::write(folder.join("a.json"), sized.to_string()).expect("written");
    let (said, code) = refused(&folder, "--annotations a.json");
    assert_eq!(code, Some(3));
    assert!(
        said.contains("image 1: the picture has 64 x 32 pixels"),
        "{said}"
    );
}

/// A picture that is red up to column 12, and its mask.
fn masks(name: &str, network: &str) -> PathBuf {
    let folder = scratch(name);
    compile(&folder, network, "none");
    for part in ["pictures", "masks"] {
        fs::create_dir(folder.join(part)).expect("a folder");
    }
    let red = |x, _| Rgb([if x < 12 { 255 } else { 0 }, 0, 0]);
    let picture = RgbImage::from_fn(32, 32, red);
    picture
        .save(folder.join("pictures/a.png"))
        .expect("written");
    let class = |x, _| Luma([u8::from(x < 12)]);
    let mask = GrayImage::from_fn(32, 32, class);
    mask.save(folder.join("masks/a.png")).expect("written");
    folder
}

#[test]
fn masks_have_a_mean_intersection_over_union_whatever_their_size() {
    let fine = masks("fine", "calibrated/mask-classes.onnx");
    let found = report(&fine, "--samples pictures --masks masks");
    near(&found["exits"][0]["figures"]["mIoU"], 1.0);
    // Columns of 8 pixels: 8 of 12 are found.
    let coarse = masks("coarse", "calibrated/mask-scores.onnx");
    let found = report(&coarse, "--samples pictures --masks masks");
    assert_eq!(found["kind"], "masks");
    let exit = &found["exits"][0];
    near(&exit["figures"]["mIoU"], (8.0 / 12.0 + 20.0 / 24.0) / 2.0);
    // The device may find the classes, too.
    compile(
        &coarse,
        "calibrated/mask-scores.onnx",
        "none --reduce mask=argmax",
    );
    let reduced = report(&coarse, "--samples pictures --masks masks");
    assert_eq!(reduced["exits"], found["exits"]);
    near(&exit["figures"]["pixels right"], 28.0 / 32.0);
    near(&exit["classes"][1]["figures"]["IoU"], 8.0 / 12.0);
    assert_eq!(exit["classes"][1]["count"], 12 * 32);
    // Of 255: they do not count.
    let class = |x, _| {
        Luma([if x < 8 {
            1
        } else if x < 12 {
            255
        } else {
            0
        }])
    };
    let mask = GrayImage::from_fn(32, 32, class);
    mask.save(coarse.join("masks/a.png")).expect("written");
    let found = report(&coarse, "--samples pictures --masks masks");
    near(&found["exits"][0]["accuracy"], 1.0);
}

#[test]
fn without_confidence_there_is_no_threshold_and_the_report_says_so() {
    let folder = masks("no-confidence", "documented/segmenter.onnx");
    let found = report(
        &folder,
        "--samples pictures --masks masks --into calibrated.punctual",
    );
    assert_eq!(found["thresholds"], json!([]));
    assert_eq!(found["exits"][0].get("concordance"), None);
    let printed = calibrate(
        &folder,
        "--samples pictures --masks masks --html page.html --svg charts.svg",
    );
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.contains("depends on time alone"), "{printed}");
    let page = fs::read_to_string(folder.join("page.html")).expect("a page");
    assert!(page.contains("depends on time alone") && !page.contains("Thresholds"));
    // Its quality is what plans expect.
    let package = Package::read(&folder.join("calibrated.punctual")).expect("a package");
    assert_eq!(package.calibration().samples[0].exits[1].confidence, 0);
    let quality = package.calibration().mean_quality(1).expect("a sample");
    near(&found["exits"][1]["accuracy"], quality);
}

#[test]
fn a_mask_that_does_not_fit_its_picture_is_named() {
    let folder = masks("bad-masks", "calibrated/mask-classes.onnx");
    let path = folder.join("masks/a.png");
    let samples = "--samples pictures --masks masks";
    GrayImage::new(16, 32).save(&path).expect("written");
    let (said, code) = refused(&folder, samples);
    assert_eq!(code, Some(3));
    assert!(
        said.contains("masks/a.png: it has 16 x 32 pixels and its picture 32 x 32"),
        "{said}"
    );
    RgbImage::new(32, 32).save(&path).expect("written");
    let (said, _) = refused(&folder, samples);
    assert!(said.contains("this one is Rgb8"), "{said}");
    fs::write(&path, "no picture").expect("written");
    assert_eq!(refused(&folder, samples).1, Some(3));
    fs::remove_file(&path).expect("it is there");
    let (said, code) = refused(&folder, samples);
    assert_eq!(code, Some(4));
    assert!(said.contains("masks/a.png"), "{said}");
}

#[test]
fn numbers_have_errors_and_are_good_within_the_tolerance() {
    let folder = scratch("values");
    compile(&folder, "calibrated/angle.onnx", "none");
    plain(&folder.join("a.png"), [32, 32], [51, 102, 0]);
    plain(&folder.join("b.png"), [32, 32], [51, 102, 255]);
    // The speed, then the angles: exit 0 does not see the speed.
    let lines = "picture,speed,first,second\na.png,0,0.2,0.4\nb.png,0.5,0.7,0.4\n";
    fs::write(folder.join("angles.csv"), lines).expect("written");
    let found = report(&folder, "--values angles.csv --tolerance 0.1");
    let exits = &found["exits"];
    near(&exits[0]["accuracy"], 0.5);
    near(&exits[0]["figures"]["mean error"], 0.125);
    near(&exits[0]["figures"]["RMS error"], 0.25);
    near(&exits[1]["figures"]["RMS error"], 0.0);
    let effect = threshold(&found, 0.5);
    near(&effect["accuracy"], 1.0);
    near(&effect["depth"], 1.5);
    let found = report(&folder, "--values angles.csv --tolerance 0.6,0.1");
    near(&found["exits"][0]["accuracy"], 1.0);

    fs::write(
        folder.join("angles.csv"),
        "a.png,0,0.2,0.4\nb.png,0.5,x,0.4\n",
    )
    .expect("written");
    let (said, code) = refused(&folder, "--values angles.csv --tolerance 0.1");
    assert_eq!(code, Some(3));
    assert!(
        said.contains("angles.csv:2: expected a picture and 3 finite numbers"),
        "{said}"
    );
    let (said, _) = refused(&folder, "--values angles.csv --tolerance 1,2,3");
    assert!(said.contains("angles.csv:2"), "{said}");
    let (_, code) = refused(&folder, "--values nowhere.csv --tolerance 0.1");
    assert_eq!(code, Some(4));
}

#[test]
fn labels_are_as_good_as_their_common_share() {
    let folder = scratch("labels");
    compile(&folder, "calibrated/colours.onnx", "labels");
    plain(&folder.join("a.png"), [32, 32], [255, 255, 0]);
    plain(&folder.join("b.png"), [32, 32], [0, 0, 0]);
    let list = "a.png,class_0\nb.png,\n";
    fs::write(folder.join("list.csv"), list).expect("written");
    let found = report(&folder, "--samples list.csv");
    let exit = &found["exits"][0];
    near(&exit["accuracy"], 0.75);
    near(&exit["figures"]["F1"], 2.0 / 3.0);
    near(&exit["figures"]["exact"], 0.5);
    let annotations = json!({
        "images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
        "annotations": [{"image_id": 1, "category_id": 5}],
        "categories": [{"id": 5, "name": "class_0"}],
    });
    fs::write(folder.join("a.json"), annotations.to_string()).expect("written");
    let annotated = report(&folder, "--annotations a.json");
    assert_eq!(annotated["exits"], found["exits"]);
    fs::write(folder.join("list.csv"), "a.png,class_0;green\n").expect("written");
    let (said, code) = refused(&folder, "--samples list.csv");
    assert_eq!(code, Some(3));
    assert!(
        said.contains("list.csv:1: the network has no class `green`"),
        "{said}"
    );
}

#[test]
fn a_truth_that_says_nothing_of_the_answers_is_refused_with_what_does() {
    let folder = masks("unsuited", "documented/segmenter.onnx");
    let (said, code) = refused(&folder, "--samples pictures");
    assert_eq!(code, Some(3));
    assert!(
        said.contains("its answers are `none`, of which --samples says nothing: give --masks"),
        "{said}"
    );
    compile(&folder, "documented/classifier.onnx", "classes");
    let (said, _) = refused(&folder, "--samples pictures --masks masks");
    assert!(said.contains("its answers are `classes`"), "{said}");
    compile(&folder, "documented/steering.onnx", "none");
    let (said, _) = refused(&folder, "--samples pictures --masks masks");
    assert!(said.contains("it takes the vector `speed`"), "{said}");
    fs::write(
        folder.join("a.json"),
        r#"{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [], "categories": []}"#,
    )
    .expect("written");
    compile(&folder, "documented/detector.onnx", "detections");
    let (said, code) = refused(&folder, "--annotations a.json");
    assert_eq!(code, Some(3));
    assert!(
        said.contains("declare a decoder of its boxes by `punctual compile --detections`"),
        "{said}"
    );
    let declared = "detections --detections boxes=boxes,scores=scores,form=xyxy,unit=pixels,values=probabilities,threshold=0.1,rows=5";
    compile(&folder, "documented/detector.onnx", declared);
    plain(&folder.join("a.png"), [32, 32], [0; 3]);
    assert_eq!(report(&folder, "--annotations a.json")["samples"], 1);
    fs::remove_file(folder.join("a.png")).expect("it is there");
    compile(&folder, "calibrated/boxes.onnx", "detections");
    let (said, code) = refused(
        &folder,
        "--annotations a.json --temperature --into other.punctual",
    );
    assert_eq!(code, Some(3));
    assert!(said.contains("it has no temperature"), "{said}");
}
