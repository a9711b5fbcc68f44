//! The tutorial, typed from its first command to its last.

use std::fs;
use std::path::Path;

use crate::documented::root;
use crate::typist::{Typist, python};

#[path = "../../../../models/signs/renderer/examples/pictures.rs"]
#[allow(
    dead_code,
    reason = "a program, of which the test calls what follows its arguments"
)]
mod pictures;

/// Fewer than the page has, and fewer steps: this does not say how good the network becomes.
const PICTURES_MAX: u64 = 300;
const STEPS: &str = "20";

fn page() -> String {
    fs::read_to_string(root().join("docs/tutorial.md")).expect("text")
}

fn others(typist: &Typist, words: &[&str]) -> String {
    match words {
        // How this test was built, and what it was started with.
        ["cargo", "build", ..] | ["alias", ..] | ["python3", "-m", "pip", ..] => {}
        ["cargo", .., "pictures", "--", seed, count, folder] => {
            let [seed, count] = [seed, count].map(|text| text.parse::<u64>().expect("a number"));
            let folder = typist.folder.join(folder);
            pictures::write(seed, count.min(PICTURES_MAX), &folder).expect("written");
        }
        ["python3", "train.py", data, _] => train(typist, data),
        other => panic!("nobody types {other:?} here"),
    }
    String::new()
}

/// By the page's program where there is PyTorch; else with the file that it wrote once.
fn train(typist: &Typist, data: &str) {
    let page = page();
    let (_, program) = page.split_once("```python\n").expect("a program");
    let (program, _) = program.split_once("```").expect("its end");
    fs::write(typist.folder.join("train.py"), program).expect("written");
    if let Some(mut python) = python("numpy, torch, onnx, PIL") {
        typist.run(python.args(["train.py", data, STEPS]));
        return;
    }
    let trained = root().join("runtime/cli/tests/documented/tutorial.onnx");
    fs::copy(trained, typist.folder.join("signs.onnx")).expect("a copy");
    let mut names = punctual_signs::CLASSES.map(|name| format!("{name}\n"));
    names.sort();
    fs::write(typist.folder.join("classes.txt"), names.concat()).expect("written");
}

#[test]
fn the_tutorial_leads_from_pictures_to_drawn_answers() {
    let mut typist = Typist::new("tutorial", others);
    let printed = typist.types(&page());
    assert!(printed.contains("times the rates"), "the load: {printed}");
    let drawn = fs::read_dir(typist.folder.join("answers")).expect("a folder");
    assert!(drawn.count() > 0);
    for page in ["calibration.html", "load.html"] {
        assert!(Path::new(&typist.folder).join(page).exists(), "{page}");
    }
}
