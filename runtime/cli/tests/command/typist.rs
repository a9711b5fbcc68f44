//! Types the commands of a page, in their order, in a folder that has the files which they name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use punctual_platform::clock::{now_ns, sleep_until_ns};

use crate::documented::{blocks, root};

/// Where the page's daemons listen.
const SOCKET: &str = "/tmp/punctual.sock";
/// Longer than a daemon takes to start, even on a busy machine.
const LIMIT_NS: u64 = 60_000_000_000;

/// A folder with the files that the page's commands name, and the daemon that they start.
pub struct Typist {
    pub folder: PathBuf,
    socket: String,
    daemon: Option<Child>,
    others: Others,
}

/// Does what is typed of programs other than ours; what it prints.
type Others = fn(&Typist, &[&str]) -> String;

impl Typist {
    /// In an empty folder of this name.
    pub fn new(name: &str, others: Others) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("typed-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let socket = format!("punctual-{name}-{}", std::process::id());
        let socket = std::env::temp_dir().join(socket);
        Self {
            folder,
            socket: socket.to_str().expect("text").to_owned(),
            daemon: None,
            others,
        }
    }

    /// Types the commands of a page, or of a part of it; what the last one prints.
    pub fn types(&mut self, page: &str) -> String {
        let mut printed = String::new();
        for line in blocks(page).lines() {
            let line = line.split(" # ").next().expect("a command");
            let words = line.replace(SOCKET, &self.socket);
            let words: Vec<&str> = words.split_whitespace().collect();
            printed = self.types_words(&words);
        }
        printed
    }

    fn types_words(&mut self, words: &[&str]) -> String {
        match words {
            [] => String::new(),
            ["punctual", "daemon", rest @ ..] => {
                self.serve(rest);
                String::new()
            }
            ["punctual", "profile", rest @ ..] => {
                let mut measured = punctual();
                self.run(measured.args(["profile", "--quick"]).args(rest))
            }
            [
                "punctual",
                command @ ("ask" | "load" | "status" | "top"),
                rest @ ..,
            ] => {
                // Other tests have daemons, too.
                let own = ["--socket", &self.socket];
                let own = own.iter().filter(|_| !rest.contains(&"--socket"));
                // How this machine does that does other things too is not judged.
                let codes: &[i32] = if *command == "ask" { &[0] } else { &[0, 1] };
                self.run_to_code(punctual().arg(command).args(rest).args(own), codes)
            }
            ["punctual", rest @ ..] => self.run(punctual().args(rest)),
            other => (self.others)(self, other),
        }
    }

    /// Runs a command in the folder; what it prints.
    pub fn run(&self, command: &mut Command) -> String {
        self.run_to_code(command, &[0])
    }

    fn run_to_code(&self, command: &mut Command, codes: &[i32]) -> String {
        let output = command.current_dir(&self.folder).output();
        let Output {
            status,
            stdout,
            stderr,
        } = output.expect("it starts");
        let [printed, wrong] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
        let is_fine = status.code().is_some_and(|code| codes.contains(&code));
        assert!(is_fine, "{command:?}: {printed}\n{wrong}");
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

/// A Python of 3.10 or later with these modules; none, saying so, if there is none. `PUNCTUAL_PYTHON` names another.
pub fn python(modules: &str) -> Option<Command> {
    let name = std::env::var("PUNCTUAL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = format!("import sys, {modules}; assert sys.version_info >= (3, 10)");
    let has = Command::new(&name).args(["-c", &imports]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {name} (3.10 or later) with {modules} is not here");
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
