//! `punctual top` on real terminals, by tmux, and `punctual status`.

use std::process::{Command, Output};

use punctual_ipc::PixelFormat;
use punctual_platform::clock;

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};

const LIMIT_NS: u64 = 20_000_000_000;

/// A terminal in which a command runs.
struct Screen {
    server: String,
}

impl Screen {
    /// None where there is no tmux, which is said.
    fn start(name: &str, size: [&str; 2], command: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: there is no tmux here");
            return None;
        }
        let screen = Self {
            server: format!("punctual-{name}-{}", std::process::id()),
        };
        let [width, height] = size;
        let started = screen.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            width,
            "-y",
            height,
            command,
        ]);
        assert!(started.status.success(), "{started:?}");
        Some(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX").arg("-L").arg(&self.server);
        tmux.args(arguments).output().expect("tmux runs")
    }

    fn text(&self, escapes: bool) -> String {
        let mut arguments = vec!["capture-pane", "-p"];
        arguments.extend(escapes.then_some("-e"));
        String::from_utf8_lossy(&self.tmux(&arguments).stdout).into_owned()
    }

    fn wait_for(&self, words: &str) -> String {
        let limit = clock::now_ns() + LIMIT_NS;
        loop {
            let text = self.text(false);
            if text.contains(words) {
                return text;
            }
            assert!(clock::now_ns() < limit, "no {words:?} in\n{text}");
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn top(daemon: &Daemon, environment: &str) -> String {
    let program = env!("CARGO_BIN_EXE_punctual");
    let socket = daemon.socket().display().to_string();
    format!("env {environment} {program} top --socket {socket} --interval 0.2; read line")
}

fn punctual(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).output().expect("it runs")
}

fn said(output: &Output) -> String {
    let both =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    both.concat()
}

#[test]
fn top_shows_a_daemon_until_it_is_killed_and_the_next_one_at_its_socket() {
    let mut daemon = Daemon::start(MANIFEST);
    let Some(screen) = Screen::start("killed", ["80", "24"], &top(&daemon, "")) else {
        return;
    };
    let text = screen.wait_for("all is well");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    screen.wait_for("task front, client 0");
    daemon.kill();
    let text = screen.wait_for("the daemon is gone");
    assert!(text.contains("front") && text.contains("watch"), "{text}");
    drop(client);
    let folder = std::mem::replace(&mut daemon.folder, Folder::with(MANIFEST));
    folder.remove("notify");
    let next = Daemon::start_in(folder);
    let text = screen.wait_for(&format!("process {}", next.pid()));
    assert!(!text.contains("is gone"), "{text}");
    screen.tmux(&["send-keys", "q"]);
    next.stop();
}

#[test]
fn top_follows_a_window_that_is_resized_and_has_no_colours_where_none_are_wanted() {
    let daemon = Daemon::start(MANIFEST);
    let Some(screen) = Screen::start("size", ["80", "24"], &top(&daemon, "NO_COLOR=1")) else {
        return;
    };
    screen.wait_for("all is well");
    // `3` and `4` begin colours; these two are the terminal's own.
    let text = screen
        .text(true)
        .replace("\u{1b}[39m", "")
        .replace("\u{1b}[49m", "");
    assert!(
        !text.contains("\u{1b}[3") && !text.contains("\u{1b}[4"),
        "{text:?}"
    );
    screen.tmux(&["resize-window", "-x", "200", "-y", "50"]);
    screen.wait_for("budget us");
    screen.tmux(&["resize-window", "-x", "40", "-y", "10"]);
    screen.wait_for("60 columns and 12 lines");
    daemon.stop();
}

#[test]
fn top_in_colour_and_once_as_text() {
    let daemon = Daemon::start(MANIFEST);
    let socket = daemon.socket().display().to_string();
    let once = punctual(&["top", "--socket", &socket, "--once", "--interval", "0.1"]);
    let text = said(&once);
    assert!(
        once.status.success() && text.contains("all is well"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert!(
        text.contains("budget us") && !text.contains("q: leave"),
        "all of it, and nothing to press: {text}"
    );
    let piped = punctual(&["top", "--socket", &socket]);
    assert_eq!(piped.status.code(), Some(2), "{piped:?}");
    assert!(said(&piped).contains("--once"), "{piped:?}");
    if let Some(screen) = Screen::start("colour", ["200", "50"], &top(&daemon, "TERM=screen")) {
        screen.wait_for("all is well");
        let text = screen.text(true);
        let green = ["32m", "38;5;2m"];
        assert!(green.iter().any(|green| text.contains(green)), "{text:?}");
    }
    daemon.stop();
}

#[test]
fn status_says_whether_all_is_well_and_any_field_by_its_path() {
    let daemon = Daemon::start(MANIFEST);
    let socket = daemon.socket().display().to_string();
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    let status =
        |arguments: &[&str]| punctual(&[&["status", "--socket", &socket], arguments].concat());
    let people = status(&[]);
    assert!(said(&people).contains("all is well"), "{people:?}");
    assert_eq!(people.status.code(), Some(0));
    assert_eq!(said(&status(&["--quiet"])), "");
    assert_eq!(said(&status(&["tasks/front/submitted"])), "1\n");
    let own = std::process::id().to_string();
    assert_eq!(said(&status(&["clients/connected/front/pid"])).trim(), own);
    let json: serde_json::Value = serde_json::from_str(&said(&status(&["--json"]))).expect("JSON");
    let troubles = json["troubles"].as_array().expect("a list");
    assert!(
        troubles.iter().all(|trouble| trouble["gravity"] == "minor"),
        "{troubles:?}"
    );
    // The frame was before it.
    let window = status(&["--for", "0.1", "tasks/front/submitted"]);
    assert_eq!(said(&window), "0\n");
    let wrong = status(&["tasks/rear"]);
    assert_eq!(wrong.status.code(), Some(3));
    assert!(said(&wrong).contains("there are front, watch"), "{wrong:?}");
    drop(client);
    daemon.stop();
    let gone = punctual(&["status", "--socket", &socket]);
    assert_eq!(gone.status.code(), Some(4));
    assert!(said(&gone).contains("no daemon listens at"), "{gone:?}");
}

#[test]
fn of_two_daemons_one_must_be_named() {
    let daemons = [Daemon::start(MANIFEST), Daemon::start(MANIFEST)];
    for command in ["status", "metrics"] {
        let output = punctual(&[command]);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(3), "{words}");
        for daemon in &daemons {
            assert!(
                words.contains(&daemon.socket().display().to_string()),
                "{words}"
            );
        }
    }
    let [first, second] = daemons;
    first.stop();
    second.stop();
}

#[test]
fn a_user_who_may_not_ask_is_told_who_may() {
    if punctual_platform::peer::own_user() != 0 {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let daemon = Daemon::start(MANIFEST);
    let socket = daemon.socket().display().to_string();
    let program = std::env::temp_dir().join(format!("punctual-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_punctual"), &program).expect("a copy that others may run");
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let output = other
        .arg(&program)
        .args(["status", "--socket", &socket])
        .output();
    std::fs::remove_file(program).expect("it is there");
    let output = output.expect("setpriv runs");
    let words = said(&output);
    assert_eq!(output.status.code(), Some(5), "{words}");
    assert!(words.contains("mode 660"), "{words}");
    daemon.stop();
}
