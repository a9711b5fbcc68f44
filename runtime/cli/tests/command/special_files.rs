//! Whatever a path leads to that a user gives: a device without an end, a pipe without a writer, a socket, a file of any size.
//! Each is refused at once, by what it is, and in little memory.
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Command lines that read the file `strange`, or one that names it.
const READING: &[&str] = &[
    "check strange",
    "check manifest.toml --profile strange",
    "check board.toml",
    "check package.toml",
    "doctor --root strange",
    "daemon strange --socket s",
    "profile strange",
    "profile --from strange",
    "trace strange --profile",
    "plan strange",
    "compile strange",
    "compile strange.onnx",
    "compile signs.onnx --calibration strange",
    "inspect strange",
    "calibrate strange --samples pictures",
    "calibrate signs.punctual --samples strange",
    "calibrate signs.punctual --samples list.csv",
    "calibrate boxes.punctual --annotations strange",
    "calibrate boxes.punctual --annotations annotations.json",
    "calibrate colours.punctual --samples strange",
    "calibrate angle.punctual --values strange --tolerance 1",
    "calibrate mask-classes.punctual --samples grey --masks masks",
    "share strange signs.punctual --output shared",
    "simulate strange.toml",
    "simulate strange.json",
    "simulate workload.toml",
];

/// What `strange` may be, and what the message says about it.
const KINDS: &[(&str, &str)] = &[
    ("device", "it is a device"),
    ("pipe", "it is a pipe"),
    ("socket", "it is a socket"),
    ("large", ""),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A folder of files that are as they should be, but name `strange`.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("boards")).expect("a folder");
    fs::create_dir(folder.join("pictures")).expect("a folder");
    for file in ["signs.punctual", "signs.onnx"] {
        fs::copy(root().join("models/signs").join(file), folder.join(file)).expect("a copy");
    }
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
    let manifest = fs::read_to_string(root().join("examples/one-camera.toml")).expect("text");
    let manifest = manifest.replace("../models/signs/", "");
    write("manifest.toml", &manifest);
    write("board.toml", &manifest.replace("\"host\"", "\"strange\""));
    write(
        "package.toml",
        &manifest.replace("signs.punctual", "strange"),
    );
    write("list.csv", "strange,0\n");
    calibrated(&folder);
    let workload = fs::read_to_string(root().join("examples/workload.toml")).expect("text");
    let workload = format!("trace = \"strange\"\n{workload}");
    write("workload.toml", &workload);
    folder
}

/// Networks of all kinds of answers, a picture, and files about a picture that is `strange`.
fn calibrated(folder: &Path) {
    for (name, answer) in [
        ("boxes", "detections"),
        ("colours", "labels"),
        ("angle", "none"),
        ("mask-classes", "none"),
    ] {
        let file = root().join(format!("runtime/cli/tests/calibrated/{name}.onnx"));
        let line = format!(
            "compile {} --normalise none --no-images --answer {answer}",
            file.display()
        );
        let line = format!("{line} --output {name}.punctual");
        let compiled = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(line.split(' '))
            .current_dir(folder)
            .output();
        assert!(compiled.expect("it runs").status.success(), "{line}");
    }
    let annotations =
        r#"{"images": [{"id": 1, "file_name": "strange"}], "annotations": [], "categories": []}"#;
    fs::write(folder.join("annotations.json"), annotations).expect("written");
    for part in ["grey", "masks"] {
        fs::create_dir(folder.join(part)).expect("a folder");
    }
    let picture = image::GrayImage::new(32, 32);
    picture
        .save(folder.join("grey/strange.png"))
        .expect("written");
}

/// Makes `strange`, under all the names that it is asked for by.
fn make(folder: &Path, kind: &str) -> Option<UnixListener> {
    let strange = folder.join("strange");
    let mut socket = None;
    match kind {
        "device" => symlink("/dev/zero", &strange).expect("a link"),
        "pipe" => mkfifo(&strange, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe"),
        "socket" => socket = Some(UnixListener::bind(&strange).expect("a socket")),
        _ => File::create(&strange)
            .and_then(|file| file.set_len(64 << 30))
            .expect("a sparse file"),
    }
    for name in [
        "strange.onnx",
        "strange.toml",
        "strange.json",
        "boards/strange.toml",
        "masks/strange.png",
    ] {
        symlink(&strange, folder.join(name)).expect("a link");
    }
    socket
}

/// Runs the command in half a gigabyte of addresses, and for half a minute at most.
fn run(folder: &Path, line: &str, stdin: Stdio) -> Output {
    Command::new("timeout")
        .args(["30", "sh", "-c", "ulimit -v 524288; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_punctual"))
        .args(line.split(' '))
        .current_dir(folder)
        .stdin(stdin)
        .output()
        .expect("timeout, of coreutils, starts")
}

#[test]
fn what_is_no_regular_file_or_too_large_is_refused_at_once_in_little_memory() {
    for (kind, words) in KINDS {
        let folder = scratch(&format!("special-{kind}"));
        let _listening = make(&folder, kind);
        for line in READING {
            let output = run(&folder, line, Stdio::null());
            let said = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(
                matches!(code, Some(3 | 4)),
                "{kind}, {line}: {code:?} {said}"
            );
            assert!(
                said.contains("strange") && said.contains(words),
                "{kind}, {line}: {said}"
            );
        }
        // Nothing is left in the tree but small files.
        fs::remove_dir_all(&folder).expect("removed");
    }
}

#[test]
fn standard_input_is_read_as_the_file_that_it_is() {
    let folder = scratch("special-stdin");
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let output = run(&folder, "plan /dev/stdin", reader.into());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("it is a pipe") && said.contains("to a file"),
        "{said}"
    );
    let file = File::open(root().join("examples/fleet.toml")).expect("the example");
    let output = run(&root().join("examples"), "plan /dev/stdin", file.into());
    let said = String::from_utf8_lossy(&output.stderr);
    // Its packages are looked for next to /dev/stdin; the test only asks that it was read.
    assert!(!said.contains("is not read"), "{said}");
}
