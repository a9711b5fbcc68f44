//! The commands of `examples/README.md`, typed in their order: a network is compiled, measured and served, and a program draws
//! what it answers.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use image::RgbImage;
use punctual_platform::clock::{now_ns, sleep_until_ns};

use crate::documented::{blocks, root};

#[path = "../../../client/examples/depth.rs"]
#[allow(
    dead_code,
    reason = "a program, of which the test calls what follows its arguments"
)]
mod depth;

/// Where the page's daemons listen.
const SOCKET: &str = "/tmp/punctual.sock";
/// Longer than a daemon takes to start, even on a busy machine.
const LIMIT_NS: u64 = 60_000_000_000;

/// A folder with the files that the page's commands name, and the daemon that they start.
struct Typist {
    folder: PathBuf,
    socket: String,
    daemon: Option<Child>,
}

impl Typist {
    fn new(network: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drawings-{network}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("examples")).expect("a folder");
        let examples = fs::read_dir(root().join("examples")).expect("a folder");
        for file in examples.map(|entry| entry.expect("an entry").path()) {
            let to = folder
                .join("examples")
                .join(file.file_name().expect("a name"));
            fs::copy(file, to).expect("a copy");
        }
        let onnx = format!("{network}.onnx");
        let exported = root().join("runtime/cli/tests/documented").join(&onnx);
        fs::copy(exported, folder.join(onnx)).expect("a copy");
        let socket = format!("punctual-{network}-{}", std::process::id());
        let socket = std::env::temp_dir().join(socket);
        Self {
            folder,
            socket: socket.to_str().expect("text").to_owned(),
            daemon: None,
        }
    }

    /// Types the commands below this heading; what the last one prints.
    fn types(&mut self, heading: &str) -> String {
        let page = fs::read_to_string(root().join("examples/README.md")).expect("text");
        let (_, section) = page
            .split_once(&format!("\n## {heading}\n"))
            .expect("a heading");
        let section = section.split("\n## ").next().expect("its text");
        let mut printed = String::new();
        for line in blocks(section).lines() {
            let line = line.split(" # ").next().expect("a command");
            let words = line.replace(SOCKET, &self.socket);
            let words: Vec<&str> = words.split_whitespace().collect();
            printed = self.types_words(&words);
        }
        printed
    }

    fn types_words(&mut self, words: &[&str]) -> String {
        match words {
            ["punctual", "daemon", rest @ ..] => {
                self.serve(rest);
                String::new()
            }
            ["punctual", "profile", rest @ ..] => {
                let mut measured = punctual();
                self.run(measured.args(["profile", "--quick"]).args(rest))
            }
            ["punctual", rest @ ..] => self.run(punctual().args(rest)),
            ["python3", program, rest @ ..] => {
                let mut python = python().expect("it was there");
                self.run(python.arg(root().join(program)).args(rest))
            }
            ["cargo", .., "depth", "--", socket, task, picture] => {
                let picture = self.folder.join(picture);
                depth::show(Path::new(socket), task, &picture).expect("a drawing");
                String::new()
            }
            other => panic!("nobody types {other:?} here"),
        }
    }

    fn run(&self, command: &mut Command) -> String {
        let output = command.current_dir(&self.folder).output();
        let Output {
            status,
            stdout,
            stderr,
        } = output.expect("it starts");
        let [printed, wrong] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
        assert!(status.success(), "{command:?}: {printed}\n{wrong}");
        printed
    }

    fn serve(&mut self, arguments: &[&str]) {
        let mut daemon = punctual();
        daemon
            .arg("daemon")
            .args(arguments)
            .args(["--socket", &self.socket])
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        self.daemon = Some(daemon.spawn().expect("it starts"));
        let limit_ns = now_ns() + LIMIT_NS;
        while !Path::new(&self.socket).exists() {
            assert!(now_ns() < limit_ns, "no daemon");
            sleep_until_ns(now_ns() + 20_000_000);
        }
    }

    /// The drawing, which has the frame's size and is not the picture.
    fn drawing(&self, name: &str) -> Drawing {
        let opened = |path: &Path| image::open(path).expect("a picture").to_rgb8();
        let folder = self.folder.join("examples");
        let drawing = Drawing {
            picture: opened(&folder.join("street.jpg")),
            drawn: opened(&folder.join(name)),
        };
        assert_eq!(drawing.drawn.dimensions(), (640, 480), "{name}");
        let places = (0..480).flat_map(|y| (0..640).map(move |x| (x, y)));
        let marked = places.filter(|&(x, y)| drawing.is_marked(x, y)).count();
        assert!(marked > 500, "{name}: {marked} pixels");
        drawing
    }
}

struct Drawing {
    picture: RgbImage,
    drawn: RgbImage,
}

impl Drawing {
    /// Whether a pixel has another colour than in the picture, by more than two decoders of JPEG differ.
    fn is_marked(&self, x: u32, y: u32) -> bool {
        let (before, after) = (self.picture.get_pixel(x, y).0, self.drawn.get_pixel(x, y).0);
        let mut channels = before.iter().zip(after);
        channels.any(|(before, after)| before.abs_diff(after) > 30)
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(format!("{}.metrics", self.socket));
    }
}

fn punctual() -> Command {
    Command::new(env!("CARGO_BIN_EXE_punctual"))
}

/// A Python with what the examples need; none, saying so, if there is none. `PUNCTUAL_PYTHON` names another.
fn python() -> Option<Command> {
    let name = std::env::var("PUNCTUAL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = "import sys, numpy, PIL; assert sys.version_info >= (3, 10)";
    let has = Command::new(&name).args(["-c", imports]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {name} (3.10 or later) with numpy and Pillow is not here");
        return None;
    }
    let test = std::env::current_exe().expect("a path");
    let library = test.with_file_name("libpunctual.so");
    assert!(library.exists(), "cargo builds {library:?} for these tests");
    let mut command = Command::new(name);
    command
        .env("PYTHONPATH", root().join("runtime/client-python/src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PUNCTUAL_LIBRARY", library);
    Some(command)
}

#[test]
fn the_segmenter_is_drawn() {
    if python().is_none() {
        return;
    }
    let mut typist = Typist::new("segmenter");
    let printed = typist.types("A segmenter");
    assert_eq!(printed.lines().count(), 5, "{printed}");
    assert!(printed.contains(" by exit "), "{printed}");
    for name in ["street.answer.png", "street.mask.png"] {
        let drawing = typist.drawing(name);
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
    let mut typist = Typist::new("depth");
    typist.types("A depth network");
    typist.drawing("street.depth.png");
    typist.drawing("street.answer.png");
    assert!(typist.folder.join("depths/street.depth.npy").exists());
}

#[test]
fn the_way_is_drawn() {
    if python().is_none() {
        return;
    }
    let mut typist = Typist::new("steering");
    let printed = typist.types("A steering network with two inputs");
    assert_eq!(printed.lines().count(), 10, "{printed}");
    assert!(printed.contains("at 8.0 m/s"), "{printed}");
    typist.drawing("street.steering.png");
}
