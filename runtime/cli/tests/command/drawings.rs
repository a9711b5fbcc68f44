//! The commands of `examples/README.md`, typed in their order: a network is compiled, measured and served, and a program draws
//! what it answers.
use std::fs;
use std::path::Path;

use image::RgbImage;

use crate::documented::root;
use crate::typist::{Typist, python};

#[path = "../../../client/examples/depth.rs"]
#[allow(
    dead_code,
    reason = "a program, of which the test calls what follows its arguments"
)]
mod depth;

/// What the programs need.
const MODULES: &str = "numpy, PIL";

/// One who types below this heading of the page, and what was printed at last.
fn typed(heading: &str, network: &str) -> (Typist, String) {
    let mut typist = Typist::new(network, others);
    let folder = typist.folder.join("examples");
    fs::create_dir(&folder).expect("a folder");
    let examples = fs::read_dir(root().join("examples")).expect("a folder");
    for file in examples.map(|entry| entry.expect("an entry").path()) {
        let to = folder.join(file.file_name().expect("a name"));
        fs::copy(file, to).expect("a copy");
    }
    let onnx = format!("{network}.onnx");
    let exported = root().join("runtime/cli/tests/documented").join(&onnx);
    fs::copy(exported, typist.folder.join(onnx)).expect("a copy");
    let page = fs::read_to_string(root().join("examples/README.md")).expect("text");
    let (_, section) = page
        .split_once(&format!("\n## {heading}\n"))
        .expect("a heading");
    let section = section.split("\n## ").next().expect("its text");
    let printed = typist.types(section);
    (typist, printed)
}

fn others(typist: &Typist, words: &[&str]) -> String {
    match words {
        ["python3", program, rest @ ..] => {
            let mut python = python(MODULES).expect("it was there");
            typist.run(python.arg(root().join(program)).args(rest))
        }
        ["cargo", .., "depth", "--", socket, task, picture] => {
            let picture = typist.folder.join(picture);
            depth::show(Path::new(socket), task, &picture).expect("a drawing");
            String::new()
        }
        other => panic!("nobody types {other:?} here"),
    }
}

struct Drawing {
    picture: RgbImage,
    drawn: RgbImage,
}

impl Drawing {
    /// The drawing, which has the frame's size and is not the picture.
    fn of(typist: &Typist, name: &str) -> Self {
        let opened = |path: &Path| image::open(path).expect("a picture").to_rgb8();
        let folder = typist.folder.join("examples");
        let drawing = Self {
            picture: opened(&folder.join("street.jpg")),
            drawn: opened(&folder.join(name)),
        };
        assert_eq!(drawing.drawn.dimensions(), (640, 480), "{name}");
        let places = (0..480).flat_map(|y| (0..640).map(move |x| (x, y)));
        let marked = places.filter(|&(x, y)| drawing.is_marked(x, y)).count();
        assert!(marked > 500, "{name}: {marked} pixels");
        drawing
    }

    /// Whether a pixel has another colour than in the picture, by more than two decoders of JPEG differ.
    fn is_marked(&self, x: u32, y: u32) -> bool {
        let (before, after) = (self.picture.get_pixel(x, y).0, self.drawn.get_pixel(x, y).0);
        let mut channels = before.iter().zip(after);
        channels.any(|(before, after)| before.abs_diff(after) > 30)
    }
}

#[test]
fn the_segmenter_is_drawn() {
    if python(MODULES).is_none() {
        return;
    }
    let (typist, printed) = typed("A segmenter", "segmenter");
    assert_eq!(printed.lines().count(), 5, "{printed}");
    assert!(printed.contains(" by exit "), "{printed}");
    for name in ["street.answer.png", "street.mask.png"] {
        let drawing = Drawing::of(&typist, name);
        let (danger, parking, ground) = ((463, 150), (24, 273), (100, 420));
        let marked = [danger, parking, ground].map(|(x, y)| drawing.is_marked(x, y));
        assert_eq!(
            marked,
            [true, true, false],
            "{name}: the signs and nothing else"
        );
    }
}

#[test]
fn depth_is_drawn() {
    let (typist, _) = typed("A depth network", "depth");
    Drawing::of(&typist, "street.depth.png");
    Drawing::of(&typist, "street.answer.png");
    assert!(typist.folder.join("depths/street.depth.npy").exists());
}

#[test]
fn the_way_is_drawn() {
    if python(MODULES).is_none() {
        return;
    }
    let (typist, printed) = typed("A steering network with two inputs", "steering");
    assert_eq!(printed.lines().count(), 10, "{printed}");
    assert!(printed.contains("at 8.0 m/s"), "{printed}");
    Drawing::of(&typist, "street.steering.png");
}
