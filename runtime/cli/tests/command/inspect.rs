//! `punctual inspect`: what a package holds, for people and for programs; and the message for files that are not packages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_model::{Package, Profile, ProfileKey, SolutionMemory, StageProfile};
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("inspect")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn signs(folder: &Path) -> PathBuf {
    let file = folder.join("signs.punctual");
    fs::copy(root().join("models/signs/signs.punctual"), &file).expect("a copy");
    file
}

fn punctual(arguments: &[&str], path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).arg(path).output().expect("it runs")
}

#[track_caller]
fn text(path: &Path) -> String {
    let output = punctual(&["inspect"], path);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn json(path: &Path) -> Value {
    let output = punctual(&["inspect", "--json"], path);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Whether each of the words stands in some line, in any number of blanks.
#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in lines {
        assert!(squeezed.contains(line), "{text}\nlacks {line:?}");
    }
}

/// An engine keeps the name of the file that it was built from, by which it is found.
#[test]
fn the_stages_are_written_as_files_whose_names_follow_from_their_content() {
    let folder = scratch("stages");
    let file = signs(&folder);
    let stages = Package::read(&file).expect("a package");
    let stages = stages.network().stages.len();
    let written = || {
        let into = folder.join("stages");
        let into = into.to_str().expect("text");
        let output = punctual(&["inspect", "--stages", into], &file);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8(output.stdout).expect("text");
        let files: Vec<PathBuf> = said.lines().map(PathBuf::from).collect();
        assert!(files.iter().all(|file| file.exists()), "{said}");
        files
    };
    let first = written();
    assert_eq!(first.len(), 4 * stages);
    assert_eq!(written(), first);
    let name = first[0].file_name().expect("a name").to_string_lossy();
    assert!(name.starts_with("signs.stage0.batch1."), "{name}");
    let mut hashes: Vec<_> = first
        .iter()
        .map(|file| fs::read(file).expect("a file"))
        .collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 4 * stages);
}

#[test]
fn a_classifier_is_shown_with_its_input_classes_exits_stages_and_hash() {
    let file = signs(&scratch("signs"));
    let package = Package::read(&file).expect("a valid package");
    let hash = package.hash().to_string();
    let text = text(&file);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.replace([' ', '\n'], "").contains(&hash), "{text}");
    assert_lines(
        &text,
        &[
            "format 4, ",
            "picture of 3x96x96, (value / full scale - mean) / std with mean 0.45, 0.45, 0.45 and std 0.25, 0.25, 0.25",
            "classes: one of 43: limit 20, limit 30, ",
            "37 more",
            "0 0 output float32 43 172 B largest softmax",
            "2 2 output float32 43 172 B largest softmax",
            "no profiles: ",
        ],
    );
    let json = json(&file);
    assert_eq!(json["package"], hash);
    assert_eq!(
        (&json["answer"], &json["classes"]),
        (&json!("classes"), &json!(43))
    );
    assert_eq!(json["class_names"][1], "limit 30");
    assert_eq!(json["input"]["kind"], "picture");
    assert_eq!(json["exits"][1]["stage"], 1);
    assert_eq!(json["exits"][1]["confidence"], "softmax");
    let output = json!({"name": "output", "element": "float32", "shape": [43], "bytes": 172});
    assert_eq!(json["exits"][1]["outputs"], json!([output]));
    let stages = json["stages"].as_array().expect("a list");
    let prefixes = package.stage_prefixes();
    assert_eq!(stages.len(), prefixes.len());
    for (stage, prefix) in stages.iter().zip(prefixes) {
        assert_eq!(stage["hash"], prefix.hash.to_string());
        assert_eq!(stage["weight_bytes"], prefix.weight_bytes);
        assert!(stage["multiplications"].as_u64() > Some(0), "{stage}");
    }
    assert_eq!(
        json["calibration_samples"],
        package.calibration().samples.len()
    );
}

#[test]
fn a_network_of_named_tensors_is_shown_with_its_outputs_and_its_own_confidence() {
    let folder = scratch("segmenter");
    let onnx = folder.join("segmenter.onnx");
    let recorded = root().join("models/zoo/recorded/unet_rgbd_exits.onnx");
    fs::copy(recorded, &onnx).expect("a copy");
    let options = "compile --normalise none --answer none --lanes 4,8 --json";
    let compiled = punctual(&options.split(' ').collect::<Vec<_>>(), &onnx);
    assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
    let compiled: Value = serde_json::from_slice(&compiled.stdout).expect("JSON");
    let file = folder.join("segmenter.punctual");
    let json = json(&file);
    // The compiler reports what the package holds.
    for key in ["package", "input", "answer", "exits", "stages"] {
        assert_eq!(compiled["report"][key], json[key], "{key}");
    }
    assert_eq!(json["answer"], "none");
    assert_eq!(json["classes"], 0);
    for (exit, side) in [4, 8, 16].into_iter().enumerate() {
        let mask = json!({
            "name": "mask", "element": "float32", "shape": [2, side, side], "bytes": 8 * side * side,
        });
        assert_eq!(json["exits"][exit]["outputs"], json!([mask]));
        assert_eq!(json["exits"][exit]["confidence"], "author");
    }
    let packed = json["packed"].as_array().expect("a list");
    let lanes: Vec<_> = packed.iter().map(|packed| &packed["lanes"]).collect();
    assert_eq!(lanes, [4, 8]);
    assert_lines(
        &text(&file),
        &[
            "picture of 4x16x16",
            "answer none: the outputs",
            "1 1 mask float32 2x8x8 512 B the network's own output",
        ],
    );
}

#[test]
fn a_vector_that_comes_with_each_input_is_shown() {
    let folder = scratch("steering");
    let onnx = folder.join("steering.onnx");
    let documented = root().join("runtime/cli/tests/documented/steering.onnx");
    fs::copy(documented, &onnx).expect("a copy");
    let options = "compile --normalise none --answer none --no-images";
    let compiled = punctual(&options.split(' ').collect::<Vec<_>>(), &onnx);
    assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
    let file = folder.join("steering.punctual");
    assert_lines(&text(&file), &["vector speed, 1 with each input"]);
    let json = json(&file);
    assert_eq!(json["vectors"], json!([{"name": "speed", "length": 1}]));
    assert_eq!(json["packed"], json!([]));
}

#[test]
fn bytes_with_their_channels_last_are_shown_as_the_picture_that_they_are_prepared_to() {
    let folder = scratch("bytes");
    let onnx = root().join("runtime/cli/tests/documented/ssd.onnx");
    let package = folder.join("ssd.punctual");
    let file = package.to_str().expect("text");
    let compiled = punctual(
        &[
            "compile",
            "--answer",
            "detections",
            "--no-images",
            "--output",
            file,
        ],
        &onnx,
    );
    assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
    let said = String::from_utf8(compiled.stdout).expect("text");
    assert_lines(
        &said,
        &[
            "took the input images as a picture of 3x64x96 in bytes (uint8) whose channels are last in the file (NHWC)",
            "took the network's own normalisation (2 operators) into the preparation of frames",
        ],
    );
    assert_lines(
        &text(&package),
        &["in the ONNX file in bytes (uint8), with its channels last (NHWC)"],
    );
    let input = json(&package)["input"].clone();
    let in_file = json!({"bytes": true, "channels_last": true, "unbatched": false});
    assert_eq!(input["in_file"], in_file);
    let halves = json!([0.5, 0.5, 0.5]);
    assert_eq!(
        (&input["mean"], &input["std"]),
        (&halves, &halves),
        "{input}"
    );
    assert_eq!(input["channels"], 3);
}

/// One measurement of a package with this hash.
fn profile(package: &str) -> Profile {
    let word = str::to_owned;
    Profile {
        key: ProfileKey {
            board: word("host"),
            machine: word("some processor avx2"),
            package: word(package),
            timing: String::new(),
            power_mode: word("30W"),
            clocks: word("unknown"),
        },
        same_as: vec![],
        stages: vec![StageProfile {
            stage: 1,
            batch: 4,
            units: 2,
            samples: 200,
            p50_ns: 1_250_000,
            p99_ns: 1_500_000,
            max_ns: 1_750_000,
        }],
        prepare: vec![],
        beside: vec![StageProfile {
            stage: 1,
            batch: 4,
            units: 2,
            samples: 200,
            p50_ns: 1_500_000,
            p99_ns: 1_800_000,
            max_ns: 1_900_000,
        }],
        settings: BTreeMap::new(),
        preemption_ns_max: 1,
        solutions: vec![],
        solution_memory: SolutionMemory::default(),
        look_stride: None,
        verified: None,
        field: None,
        launches: Vec::new(),
        prepare_on_device: Vec::new(),
        preemption: Vec::new(),
    }
}

#[test]
fn profiles_in_the_package_and_beside_it_are_shown_and_those_of_others_are_told_apart() {
    let folder = scratch("profiles");
    let file = signs(&folder);
    let package = Package::read(&file).expect("a valid package");
    let hash = package.hash().to_string();
    let package = package.with_profile(profile(&hash)).expect("it fits");
    package.write(&file).expect("written");
    let other = folder.join("signs.profile.json");
    profile("another").write(&other).expect("written");
    let malformed = folder.join("signs.gpu.profile.json");
    fs::write(&malformed, "{}").expect("written");
    assert_lines(
        &text(&file),
        &[
            "signs.punctual: board host, power mode 30W, clocks unknown, some processor avx2",
            "stage 1, batch 4, 2 units 200 1.250 1.500 1.750",
            "with all other compute units busy, stages on 2 units take 1.20 times as long",
            "signs.profile.json: of another network, package another; measure this one",
            "signs.gpu.profile.json: the profile cannot be parsed",
        ],
    );
    let profiles = &json(&file)["profiles"];
    assert_eq!(profiles[0]["current"], true);
    assert_eq!(profiles[0]["profile"]["key"]["power_mode"], "30W");
    assert_eq!(profiles[0]["profile"]["stages"][0]["p99_ns"], 1_500_000);
    assert_eq!(profiles[1]["current"], false);
    assert_eq!(profiles[2]["file"], malformed.to_str().expect("plain"));
    assert!(profiles[2]["problem"].is_string(), "{profiles}");
}

#[track_caller]
fn assert_refused(path: &Path, code: i32, words: &[&str]) {
    let output = punctual(&["inspect", "--json"], path);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(output.stdout.is_empty());
    let path = path.to_str().expect("plain");
    for word in words.iter().chain([&path]) {
        assert!(said.contains(word), "{said:?} lacks {word:?}");
    }
}

#[test]
fn what_is_no_package_of_today_is_refused_with_its_remedy() {
    let folder = scratch("refused");
    let file = signs(&folder);
    let whole = fs::read(&file).expect("there");
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        fs::write(&file, bytes).expect("written");
    };
    with(8, 2);
    assert_refused(
        &file,
        3,
        &[
            "format version 2, this program reads 4",
            "compile the ONNX file again",
        ],
    );
    // The last byte is one of a weight.
    with(whole.len() - 1, !whole[whole.len() - 1]);
    assert_refused(&file, 3, &["damaged", "`weights`", "compile it again"]);
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    assert_refused(&file, 3, &["promises"]);
    fs::write(
        &file,
        "a text that is longer than eight bytes and than the header of a package of sixty-four",
    )
    .expect("written");
    assert_refused(
        &file,
        3,
        &["this is no package", "make one with `punctual compile`"],
    );
    assert_refused(&folder, 4, &["it is a folder"]);
    assert_refused(&folder.join("none.punctual"), 4, &["No such file"]);
}

#[test]
fn compile_says_of_each_lane_width_what_the_package_takes_for_it_as_inspect_does() {
    let network = root().join("models/signs/signs.toml");
    let package = scratch("packed").join("signs.punctual");
    let compile = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command
            .arg("compile")
            .arg(&network)
            .arg("--output")
            .arg(&package);
        let output = command.args(more).output().expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let compiled: Value =
        serde_json::from_str(&compile(&["--lanes", "4", "--json"])).expect("JSON");
    let of_four = &compiled["package"]["packed"][0];
    assert!(
        of_four["weight_bytes"].as_u64() > Some(3 << 20),
        "{of_four}"
    );
    assert_eq!(json(&package)["packed"][0], *of_four);
    let said = compile(&["--lanes", "4"]);
    assert!(
        said.contains("weights packed for 4 lanes: 3.3 MiB"),
        "{said}"
    );
    let said = compile(&["--no-images"]);
    assert!(!said.contains("weights packed"), "{said}");
}

#[test]
fn compile_packs_for_the_boards_that_are_named_and_no_others() {
    let network = root().join("models/signs/signs.toml");
    let onnx = fs::metadata(root().join("models/signs/signs.onnx")).expect("in the tree");
    let package = scratch("for").join("signs.punctual");
    let compile = |boards: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.arg("compile").arg(&network);
        command.args(["--for", boards, "--json", "--output"]);
        command.arg(&package).output().expect("the command runs")
    };
    let lanes = |boards: &str| {
        let output = compile(boards);
        assert!(output.status.success(), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        said["package"]["lanes"].clone()
    };
    assert_eq!(lanes("jetson-orin-nx-16gb,jetson-thor-t5000"), json!([4]));
    let size = fs::metadata(&package).expect("written").len();
    // The weights as they are and packed once; the calibration's records are not in the ONNX file.
    assert!(
        10 * size < 23 * onnx.len(),
        "{size} bytes of {}",
        onnx.len()
    );
    assert_eq!(lanes("host"), json!([punctual_device_cpu::lanes()]));
    let refused = compile("mars-rover");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("jetson-orin-nx-16gb"), "{said}");
}
