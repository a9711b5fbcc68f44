//! `punctual compile --explain`: all that is in the way of a network, for people and for programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The demonstration network with an unknown operator in the place of each `Relu`.
fn network() -> PathBuf {
    let signs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.onnx");
    let mut bytes = fs::read(signs).expect("the network");
    let places: Vec<usize> = (0..bytes.len() - 4)
        .filter(|&at| &bytes[at..at + 4] == b"Relu")
        .collect();
    for at in places {
        bytes[at] = b'X';
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explained.onnx");
    fs::write(&path, bytes).expect("written");
    path
}

fn compile(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["compile", "--normalise", "none", "--answer", "classes"]);
    command.args(arguments).output().expect("it runs")
}

#[test]
fn every_node_in_the_way_is_listed_by_operator() {
    let path = network();
    let path = path.to_str().expect("a path in UTF-8");
    let plain = compile(&[path]);
    let message = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert_eq!(plain.status.code(), Some(3), "{message}");
    assert!(plain.stdout.is_empty());
    assert!(message.contains("(Xelu)"), "{message}");
    assert!(message.contains("--explain"), "{message}");

    let explained = compile(&[path, "--explain"]);
    assert_eq!(explained.status.code(), Some(3));
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("nodes cannot be compiled"), "{text}");
    assert!(text.contains("this operator is not supported"), "{text}");

    let json = compile(&[path, "--explain", "--json"]);
    assert_eq!(json.status.code(), Some(3));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["operators"][0]["operator"], "Xelu");
    let nodes = json["unsupported"]["nodes"].as_array().expect("a list");
    assert_eq!(json["operators"][0]["nodes"], nodes.len());
    assert!(nodes.len() > 1, "{nodes:?}");
}
