//! `punctual ask`: files into the tasks of a daemon that serves.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use image::{Rgb, RgbImage};
use punctual_model::{Package, PrepareProfile};
use punctual_signs::{CLASSES, Scene};
use serde_json::Value;

use crate::documented::{Documented, TYPED_IN_ORDER, in_files, in_text, root};
use crate::support::{Daemon, Folder, MANIFEST, profile};

fn punctual(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).current_dir(folder);
    command.output().expect("it runs")
}

/// Asks the daemon, with its folder as the working folder.
fn ask(daemon: &Daemon, arguments: &[&str]) -> Output {
    let socket = daemon.socket();
    let socket = socket.to_str().expect("text");
    let arguments = [&["ask", "--socket", socket], arguments].concat();
    punctual(&daemon.folder.path(""), &arguments)
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// A sign as a camera near it sees it; its class.
fn write_sign(path: &Path, number: u64) -> &'static str {
    let scene = Scene::new(1, number);
    let crop = scene.crop();
    let mut rgb = vec![0; crop.rgb8_len()];
    scene.render(crop, &mut rgb);
    let picture = RgbImage::from_raw(crop.width, crop.height, rgb).expect("its bytes");
    picture.save(path).expect("written");
    CLASSES[scene.label()]
}

#[test]
fn signs_are_read_from_files_in_each_format_of_frames() {
    let daemon = Daemon::start(MANIFEST);
    let folder = daemon.folder.path("signs");
    fs::create_dir(&folder).expect("a folder");
    let names = ["0.png", "1.png", "2.bmp", "3.png", "4.png", "5.png"];
    let shown: Vec<&str> = (0..)
        .zip(names)
        .map(|(number, name)| write_sign(&folder.join(name), number))
        .collect();
    // One is rgb8, the other nv12.
    for task in ["front", "watch"] {
        let asked = ask(&daemon, &[task, "signs", "--json"]);
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
        let printed = text(&asked.stdout);
        let answers: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let named = answers.iter().map(|answer| &answer["file"]);
        assert!(
            named.eq(names.map(|name| format!("signs/{name}")).iter()),
            "sorted: {printed}"
        );
        let classes = answers.iter().zip(&shown);
        let right = classes
            .filter(|(answer, shown)| answer["class"] == **shown)
            .count();
        assert!(right >= 4, "{task}: {shown:?}: {printed}");
    }
    daemon.stop();
}

#[test]
fn what_is_no_picture_or_no_task_is_said_and_the_others_are_answered() {
    let daemon = Daemon::start(MANIFEST);
    let folder = daemon.folder.path("mixed");
    fs::create_dir(&folder).expect("a folder");
    write_sign(&folder.join("good.png"), 0);
    fs::write(folder.join("bad.png"), "no picture").expect("written");
    let floats = b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }            \n\0\0\0\0";
    fs::write(folder.join("floats.npy"), floats).expect("written");
    let asked = ask(&daemon, &["front", "mixed", "/dev/zero", "missing.png"]);
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    let (printed, wrong) = (text(&asked.stdout), text(&asked.stderr));
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(printed.contains("mixed/good.png") && printed.contains("on time"));
    for said in [
        "bad.png: it is no picture",
        "uint8",
        "it is a device",
        "missing.png: it cannot be read",
        "4 of 5 files",
    ] {
        assert!(wrong.contains(said), "{said}: {wrong}");
    }
    for (arguments, code, said) in [
        (&["mixed"][..], 3, "front, watch"),
        (&["fornt", "mixed"], 3, "front, watch"),
        (
            &["front", "mixed/good.png", "--crop", "200,0"],
            3,
            "at most 128, 48",
        ),
        (
            &["front", "mixed/good.png", "--vector", "speed=1"],
            3,
            "none at all",
        ),
        (&["front", "mixed", "--draw", "one.png"], 4, "name a folder"),
        (&["front"], 3, "no files"),
    ] {
        let asked = ask(&daemon, arguments);
        assert_eq!(asked.status.code(), Some(code), "{arguments:?}: {asked:?}");
        assert!(
            text(&asked.stderr).contains(said),
            "{arguments:?}: {asked:?}"
        );
    }
    let socket = daemon.socket();
    daemon.stop();
    let arguments = [
        "ask",
        "--socket",
        socket.to_str().expect("text"),
        "front",
        "good.png",
    ];
    let asked = punctual(Path::new("/"), &arguments);
    assert_eq!(asked.status.code(), Some(5), "{asked:?}");
    assert!(
        text(&asked.stderr).contains("no daemon listens"),
        "{asked:?}"
    );
}

#[test]
fn a_daemon_that_is_killed_between_two_files_ends_the_command() {
    let mut daemon = Daemon::start(MANIFEST);
    write_sign(&daemon.folder.path("sign.png"), 0);
    let mut asking = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["ask", "watch", "--socket"])
        .arg(daemon.socket())
        .args(vec!["sign.png"; 2_000])
        .current_dir(daemon.folder.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut answers = BufReader::new(asking.stdout.take().expect("piped"));
    let mut first = String::new();
    answers.read_line(&mut first).expect("an answer");
    assert!(first.contains("on time"), "{first}");
    daemon.kill();
    let mut rest = String::new();
    answers.read_to_string(&mut rest).expect("text");
    let ended = asking.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(
        text(&ended.stderr).contains("the daemon ended"),
        "{ended:?}"
    );
}

/// A daemon with one task, `finder`: a network that finds a box from a quarter to three quarters of each side.
fn finder() -> Daemon {
    let manifest = MANIFEST
        .split("[[task]]")
        .next()
        .expect("what comes before tasks");
    let manifest = manifest.replace("signs", "finder");
    let task = r#"[[task]]
name = "finder"
model = "finder"
partition = "main"
criticality = "best-effort"
outputs = ["detections", "count"]
frame = { format = "rgb8", width = 64, height = 64 }
"#;
    let folder = Folder::with(&format!("{manifest}{task}"));
    let onnx = root().join("runtime/cli/tests/calibrated/boxes.onnx");
    let onnx = onnx.to_str().expect("text");
    let line = [
        "compile",
        onnx,
        "--normalise",
        "none",
        "--answer",
        "detections",
        "--output",
    ];
    let compiled = punctual(
        &folder.path(""),
        &[&line[..], &["finder.punctual"]].concat(),
    );
    assert!(compiled.status.success(), "{compiled:?}");
    let bytes = fs::read(folder.path("finder.punctual")).expect("a package");
    let package = Package::decode(&bytes).expect("a valid one");
    let host = punctual_daemon::host::detect().expect("a machine");
    let mut measured = profile(&host.machine, &host.clocks, &package);
    measured.prepare = vec![PrepareProfile {
        width: 64,
        height: 64,
        crop_width: 64,
        crop_height: 64,
        ..measured.prepare[0].clone()
    }];
    folder.write("finder.profile.json", measured.to_json().as_bytes());
    Daemon::start_in(folder)
}

#[test]
fn boxes_are_told_and_drawn_in_pixels_of_the_picture_and_tensors_written() {
    let daemon = finder();
    let wide = RgbImage::from_pixel(640, 320, Rgb([255, 0, 0]));
    wide.save(daemon.folder.path("wide.png")).expect("written");
    let found = |fit: &str| -> [f64; 4] {
        // The daemon's only task, so that it need not be named.
        let asked = ask(&daemon, &["wide.png", "--json", "--fit", fit]);
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
        let answer: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
        let sides = answer["detections"][0]["box"].clone();
        serde_json::from_value(sides).expect("four sides")
    };
    // With borders above and below, the box is twice as high as in the picture.
    assert_eq!(found("letterbox"), [160.0, 0.0, 480.0, 320.0]);
    assert_eq!(found("stretch"), [160.0, 80.0, 480.0, 240.0]);
    assert_eq!(found("cut"), [240.0, 80.0, 400.0, 240.0]);
    let written = [
        "wide.png",
        "--fit",
        "cut",
        "--draw",
        "drawn.png",
        "--npy",
        "tensors",
    ];
    let asked = ask(&daemon, &written);
    assert_eq!(asked.status.code(), Some(0), "{asked:?}");
    assert!(
        text(&asked.stdout).contains("(240, 80) to (400, 240)"),
        "{asked:?}"
    );
    let drawn = image::open(daemon.folder.path("drawn.png")).expect("a picture");
    let drawn = drawn.to_rgb8();
    let red = Rgb([255, 0, 0]);
    assert_eq!(drawn.dimensions(), (640, 320));
    assert_ne!(*drawn.get_pixel(238, 160), red, "its left side");
    assert_eq!(*drawn.get_pixel(320, 160), red, "its middle");
    let rows = fs::read(daemon.folder.path("tensors/wide.detections.npy")).expect("written");
    assert!(rows.starts_with(b"\x93NUMPY\x01\x00"));
    let header = text(&rows[10..128]);
    assert!(header.contains("'shape': (2, 6, )"), "{header}");
    assert_eq!(rows.len(), 128 + 2 * 6 * 4);
    daemon.stop();
}

#[test]
fn each_documented_question_is_answered() {
    let manifest = MANIFEST.replace("\"front\"", "\"camera\"");
    let (one_task, _) = manifest.rsplit_once("[[task]]").expect("two tasks");
    let daemon = Daemon::start(one_task);
    for folder in ["pictures", "examples"] {
        fs::create_dir(daemon.folder.path(folder)).expect("a folder");
    }
    for file in ["street.jpg", "pictures/1.jpg", "examples/street.jpg"] {
        let to: PathBuf = daemon.folder.path(file);
        fs::copy(root().join("examples/street.jpg"), to).expect("a copy");
    }
    let help = text(&punctual(Path::new("/"), &["ask", "--help"]).stdout);
    let mut shown = in_text("help", &help);
    let in_order = |shown: &Documented| TYPED_IN_ORDER.contains(&shown.place.as_str());
    shown.extend(in_files().into_iter().filter(|shown| !in_order(shown)));
    shown.retain(|shown| {
        shown
            .words
            .starts_with(&["punctual".to_owned(), "ask".to_owned()])
    });
    assert!(shown.len() > 5, "{shown:#?}");
    let socket = daemon.socket();
    for shown in shown {
        let own =
            |word: &String| word.replace("/tmp/punctual.sock", socket.to_str().expect("text"));
        let mut words: Vec<String> = shown.words[1..].iter().map(own).collect();
        // Other tests have daemons, too: the only one of a machine is named here.
        if !words.iter().any(|word| word == "--socket") {
            let socket = socket.to_str().expect("text");
            words.extend(["--socket", socket].map(str::to_owned));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let asked = punctual(&daemon.folder.path(""), &words);
        assert_eq!(asked.status.code(), Some(0), "{shown:?}: {asked:?}");
    }
    daemon.stop();
}
