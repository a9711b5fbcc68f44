//! Fake binaries in a folder of their own, and the rig run against them.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_client::now_ns;
use punctual_hil::target::child::pause;
use serde_json::Value;

/// Longer than anything here takes, even on a busy machine.
const LIMIT_NS: u64 = 60_000_000_000;

/// A `punctual` that does the least that the rig asks of it.
pub const COMMAND: &str = r#"#!/bin/sh
case $1 in
--version) echo "punctual 0.1.0" ;;
check) if grep -q deadlin_ms "$2"; then echo "deadlin_ms: no such key" >&2; exit 3; fi ;;
camera) echo '{"on_time":60,"late":0,"correct":60}' ;;
esac
"#;

/// Takes the options away, and gives the rest to a shell as one text, which is what sshd does.
pub const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do
    [ "$1" = -O ] && exit 0
    shift
done
shift
exec sh -c "$*"
"#;

/// The binaries, and what the rig said last.
pub struct Fakes {
    folder: PathBuf,
    words: RefCell<String>,
    rig: Cell<u32>,
}

impl Fakes {
    /// A `punctuald` with this fault.
    pub fn with(fault: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-canary-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a fresh folder");
        let fakes = Self {
            folder,
            words: RefCell::default(),
            rig: Cell::default(),
        };
        fakes.write("punctual", COMMAND);
        let daemon = daemon();
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo punctuald 0.1.0; exit; }}
            [ -e \"$1\" ] || exit 4
            if grep -q deadlin_ms \"$1\"; then echo 'deadlin_ms: no such key' >&2; exit 3; fi
            exec '{}' {fault} \"$@\"\n",
            daemon.display()
        );
        fakes.write("punctuald", &script);
        fakes
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.join(name);
        std::fs::write(&path, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("allowed to run");
    }

    /// Runs the rig; its code, and its report if it has one.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        self.end(self.start(arguments))
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        let path = std::env::var("PATH").unwrap_or_default();
        // As typed: relative.
        let name = self.folder.file_name().expect("it has a name");
        let rig = Command::new(env!("CARGO_BIN_EXE_punctual-hil"))
            .current_dir(std::env::temp_dir())
            .args(["run", "--json", "--bin"])
            .arg(name)
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.folder.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the rig runs");
        self.rig.set(rig.id());
        rig
    }

    /// Waits until a file of the case that runs is there.
    pub fn wait_for(&self, name: &str) {
        let until_ns = now_ns() + LIMIT_NS;
        let case = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.ok()?.path();
            let ours = path
                .to_string_lossy()
                .contains(&format!("punctual-hil-{}-", self.rig.get()));
            (ours && path.join("case").join(name).exists()).then_some(())
        };
        while !std::fs::read_dir("/tmp")
            .expect("a folder")
            .any(|entry| case(entry).is_some())
        {
            assert!(now_ns() < until_ns, "{name} never came");
            pause(5);
        }
    }

    pub fn end(&self, rig: Child) -> (Option<i32>, Value) {
        let output = rig.wait_with_output().expect("the rig ends");
        *self.words.borrow_mut() = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.code(), report)
    }

    /// What the rig said on standard error.
    pub fn words(&self) -> String {
        self.words.borrow().clone()
    }

    /// Nothing of the last run is left: neither a process nor a folder.
    pub fn assert_nothing_is_left(&self) {
        let pid = self.rig.get();
        for entry in std::fs::read_dir("/tmp").expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(
                !name.starts_with(&format!("punctual-hil-{pid}-")),
                "{name} is left"
            );
        }
        let folder = self.folder.display().to_string();
        for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let text = String::from_utf8_lossy(&environment);
            // Each inherits the rig's PATH, which begins with this folder.
            assert!(!text.contains(&folder), "{} runs", entry.path().display());
        }
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The fake daemon, which cargo builds next to the tests.
fn daemon() -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    let profile = test
        .parent()
        .and_then(std::path::Path::parent)
        .expect("target/PROFILE");
    let daemon = profile.join("examples/fake-daemon");
    assert!(
        daemon.exists(),
        "{} is not built: run `cargo test -p punctual-hil`, which builds examples too",
        daemon.display()
    );
    daemon
}

pub fn finding(report: &Value) -> String {
    let cases = report["cases"].as_array().expect("cases");
    let findings = cases
        .iter()
        .flat_map(|case| case["findings"].as_array().expect("findings"));
    findings
        .map(|finding| finding.as_str().expect("words"))
        .collect::<Vec<_>>()
        .join("\n")
}
