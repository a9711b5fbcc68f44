//! A `punctuald` process in a folder of its own, and clients of it.
#![allow(dead_code)] // Each test binary uses a part.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual_daemon::{Process, Report};
use punctual_ipc::{ClientChannel, Crop, Hello, PixelFormat, ResultRecord};
use punctual_model::{
    Package, PrepareProfile, Profile, ProfileKey, SolutionMemory, StageProfile, Verified,
};
use punctual_platform::clock;

/// Longer than anything here takes, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Whether a signal of this number is ignored: it stays so in programs that are started from here.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("of this process");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.expect("a mask") & (1 << (signal - 1)) != 0
}

/// Two tasks, real-time and best-effort, two places each.
pub const MANIFEST: &str = r#"
[daemon]
board = "host"

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "front"
model = "signs"
partition = "main"
criticality = "real-time"
rate_hz = 10
deadline_ms = 500
batch_max = 4
queue_depth = 8
clients = 2
frame = { format = "rgb8", width = 320, height = 240, crop = [192, 192] }

[[task]]
name = "watch"
model = "signs"
partition = "main"
criticality = "best-effort"
rate_hz = 1000
batch_max = 4
queue_depth = 8
clients = 2
frame = { format = "nv12", width = 320, height = 240, crop = [192, 192] }
"#;

/// Two partitions of a core each, or one if the machine has no more, under `policy`.
pub fn manifest_under(policy: &str) -> String {
    let daemon = format!("board = \"host\"\npolicy = \"{policy}\"");
    let manifest = MANIFEST.replacen("board = \"host\"", &daemon, 1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return manifest;
    }
    let (first, second) = (
        "cores = [0]",
        "[[partition]]\nname = \"other\"\ncores = [1]\n",
    );
    let two = manifest.replacen("units = 1", &format!("{first}\n\n{second}"), 1);
    let (front, watch) = two.split_once("name = \"watch\"").expect("two tasks");
    let watch = watch.replacen("partition = \"main\"", "partition = \"other\"", 1);
    format!("{front}name = \"watch\"{watch}")
}

/// A daemon under that policy answers the clients of both tasks, and its account adds up.
pub fn assert_serves(policy: &str) {
    const FRAMES: u64 = 10;
    let daemon = Daemon::start(&manifest_under(policy));
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let mut answered = 0;
    for _ in 0..FRAMES {
        submit(&mut front);
        submit(&mut watch);
        answered += u64::from(result(&mut front).answer.is_some());
        answered += u64::from(result(&mut watch).answer.is_some());
    }
    drop((front, watch));
    let report = daemon.stop();
    assert_accounts(&report);
    assert!(answered >= FRAMES, "{policy}: {answered} answers");
}

/// The daemon of the crate that is tested: `punctuald`, or `daemon` of `punctual` or `punctual-lab`.
fn program() -> Command {
    const DAEMON: Option<&str> = option_env!("CARGO_BIN_EXE_punctuald");
    const LAB: Option<&str> = option_env!("CARGO_BIN_EXE_punctual-lab");
    const COMMAND: Option<&str> = option_env!("CARGO_BIN_EXE_punctual");
    if let Some(path) = DAEMON {
        return Command::new(path);
    }
    let mut command = Command::new(LAB.or(COMMAND).expect("one of them is built"));
    command.arg("daemon");
    command
}

pub fn package() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.punctual");
    std::fs::read(path).expect("the demonstration network is part of the tree")
}

/// Figures that any machine keeps, in milliseconds by stage; tests here are not about speed.
pub fn profile(machine: &str, clocks: &str, package: &Package) -> Profile {
    let stages = (0..package.network().stages.len() as u8).flat_map(|stage| {
        let sizes = [1_u8, 2].into_iter();
        sizes
            .flat_map(move |units| [1_u8, 2, 4, 8].map(|batch| (units, batch)))
            .map(move |(units, batch)| {
                let ns = 1_000_000 + 300_000 * (u64::from(stage) + u64::from(batch));
                StageProfile {
                    stage,
                    batch,
                    units,
                    samples: 1_000,
                    p50_ns: ns,
                    p99_ns: ns,
                    max_ns: ns,
                }
            })
    });
    let prepare = |format: &str, width, height| PrepareProfile {
        format: format.to_owned(),
        width,
        height,
        crop_width: 192,
        crop_height: 192,
        letterbox: false,
        samples: 1_000,
        p50_ns: 400_000,
        p99_ns: 400_000,
        max_ns: 400_000,
    };
    let formats = [
        ("rgb8", 320, 240),
        ("nv12", 320, 240),
        ("rgb8", 640, 480),
        ("nv12", 640, 480),
    ];
    Profile {
        key: ProfileKey {
            board: "host".to_owned(),
            machine: machine.to_owned(),
            package: package.hash().to_string(),
            timing: package.timing().to_string(),
            power_mode: "default".to_owned(),
            clocks: clocks.to_owned(),
        },
        stages: stages.collect(),
        prepare: formats.map(|(f, w, h)| prepare(f, w, h)).to_vec(),
        beside: Vec::new(),
        settings: BTreeMap::new(),
        same_as: Vec::new(),
        preemption_ns_max: 500_000,
        solutions: Vec::new(),
        solution_memory: SolutionMemory::default(),
        look_stride: None,
        field: None,
        verified: Some(Verified {
            inputs: 12,
            batches: vec![1, 2, 4, 8],
            units: vec![1, 2],
            values: 1_000,
            worst_permille: 125,
            poisoned: true,
            ..Verified::default()
        }),
        launches: Vec::new(),
        prepare_on_device: Vec::new(),
        preemption: Vec::new(),
    }
}

/// A folder with everything that a daemon is started with; gone with it.
pub struct Folder {
    path: PathBuf,
    /// What the daemon's environment has in addition to the test's.
    pub environment: Vec<(&'static str, OsString)>,
    /// Where clients connect, if that is not in the folder.
    pub socket: Option<PathBuf>,
}

impl Folder {
    /// With the package and its profile, and this manifest.
    pub fn with(manifest: &str) -> Self {
        Self::with_profile(manifest, |_, _| ())
    }

    /// As [`with`](Self::with), with a profile that was changed.
    pub fn with_profile(manifest: &str, change: impl FnOnce(&mut Profile, &Package)) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctuald-test-{}-{count}", std::process::id());
        let folder = Self {
            path: std::env::temp_dir().join(name),
            environment: Vec::new(),
            socket: None,
        };
        std::fs::create_dir(&folder.path).expect("a fresh folder");
        let package = package();
        let decoded = Package::decode(&package).expect("a valid package");
        let host = punctual_daemon::host::detect().expect("a machine");
        folder.write("signs.punctual", &package);
        let mut profile = profile(&host.machine, &host.clocks, &decoded);
        change(&mut profile, &decoded);
        folder.write("signs.profile.json", profile.to_json().as_bytes());
        folder.write("manifest.toml", manifest.as_bytes());
        folder
    }

    /// The demonstration networks: a detector of signs, and one that tells what a sign says.
    pub fn with_detector(manifest: &str) -> Self {
        let prepare = |letterbox| PrepareProfile {
            format: "rgb8".to_owned(),
            width: 640,
            height: 480,
            crop_width: 640,
            crop_height: 480,
            letterbox,
            samples: 1_000,
            p50_ns: 400_000,
            p99_ns: 400_000,
            max_ns: 400_000,
        };
        let folder =
            Self::with_profile(manifest, |profile, _| profile.prepare = vec![prepare(true)]);
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/streets/streets.punctual");
        let package = std::fs::read(path).expect("a demonstration network");
        let decoded = Package::decode(&package).expect("a valid package");
        let host = punctual_daemon::host::detect().expect("a machine");
        let mut profile = profile(&host.machine, &host.clocks, &decoded);
        profile.prepare = vec![prepare(false)];
        folder.write("streets.punctual", &package);
        folder.write("streets.profile.json", profile.to_json().as_bytes());
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).expect("a writable folder");
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).expect("it was there");
    }

    /// `punctuald` with this folder's manifest, socket and report.
    pub fn command(&self) -> Command {
        self.command_at(&self.socket())
    }

    pub fn socket(&self) -> PathBuf {
        let own = || self.path("socket");
        self.socket.clone().unwrap_or_else(own)
    }

    /// As [`command`](Self::command), with another socket.
    pub fn command_at(&self, socket: &Path) -> Command {
        let mut command = program();
        command
            .arg(self.path("manifest.toml"))
            .arg("--socket")
            .arg(socket)
            .arg("--report")
            .arg(self.path("report.json"))
            // Not the one of the user who runs the tests.
            .env_remove("PUNCTUAL_LOG")
            // Each daemon records, and its recorder's scheduler takes each step again.
            .env("STATE_DIRECTORY", self.path("state"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// The code with which a daemon ends that cannot start, and its words.
    pub fn refusal(&self, extra: &[&str]) -> (Option<i32>, String) {
        let output = self.command().args(extra).output().expect("punctuald runs");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), words)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Starts a daemon without waiting until it is ready.
pub fn spawn(mut command: Command) -> Process {
    command.spawn().expect("punctuald starts").into()
}

/// A daemon that has told its service manager that it is ready, and has loaded everything.
pub struct Daemon {
    pub folder: Folder,
    /// Where it tells the service manager how it is.
    pub manager: UnixDatagram,
    process: Process,
}

impl Daemon {
    pub fn start(manifest: &str) -> Self {
        Self::start_in(Folder::with(manifest))
    }

    /// With what is in a folder.
    pub fn start_in(folder: Folder) -> Self {
        Self::start_as(folder, |_| ())
    }

    /// As [`start_in`](Self::start_in), with a command that was changed.
    pub fn start_as(folder: Folder, change: impl FnOnce(&mut Command)) -> Self {
        let manager = UnixDatagram::bind(folder.path("notify")).expect("a socket");
        manager.set_read_timeout(Some(LIMIT)).expect("a time limit");
        let mut command = folder.command();
        command.env("NOTIFY_SOCKET", folder.path("notify"));
        change(&mut command);
        let process = spawn(command);
        wait_for(&manager, "READY=1");
        let daemon = Self {
            folder,
            manager,
            process,
        };
        daemon.report_when(|report| !report.start.loading);
        daemon
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// What it says about itself now.
    pub fn report(&self) -> Report {
        Report::live(&self.socket()).expect("a live report")
    }

    /// Asks for reports until one is as wanted.
    pub fn report_when(&self, wanted: impl Fn(&Report) -> bool) -> Report {
        let limit = clock::now_ns() + LIMIT.as_nanos() as u64;
        loop {
            let report = self.report();
            if wanted(&report) {
                return report;
            }
            assert!(clock::now_ns() < limit, "still not so: {report:#?}");
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Its death, without a chance to clean up.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
    }

    /// SIGTERM and, without a pause, SIGINT.
    pub fn signal_twice(&self) {
        let pid = self.pid();
        let both = format!("kill -s TERM {pid}; kill -s INT {pid}");
        let status = Command::new("sh").args(["-c", &both]).status();
        assert!(status.expect("a shell").success());
    }

    /// Its end, without being asked again.
    pub fn end(mut self) -> (ExitStatus, Report) {
        let status = self.wait();
        let report = Report::read(&self.folder.path("report.json")).expect("a report");
        (status, report)
    }

    /// As [`end`](Self::end), with what it wrote to its standard error, which was piped.
    pub fn end_with_words(mut self) -> (ExitStatus, String, Report) {
        let words = self.process.words().expect("text");
        let (status, report) = self.end();
        (status, words, report)
    }

    /// As [`end`](Self::end), where it leaves no report.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().expect("it ends")
    }

    /// Asks it to end; it must end well, and have kept account of everything.
    pub fn stop(self) -> Report {
        self.signal("TERM");
        let (status, report) = self.end();
        assert_eq!(status.code(), Some(0), "{report:#?}");
        assert_accounts(&report);
        assert_eq!(report.allocations_after_ready, 0);
        report
    }

    /// As [`stop`](Self::stop); its folder, for the next.
    pub fn stop_and_leave(mut self) -> (Report, Folder) {
        let none = Folder {
            path: PathBuf::new(),
            environment: Vec::new(),
            socket: None,
        };
        self.signal("TERM");
        assert_eq!(self.wait().code(), Some(0));
        let folder = std::mem::replace(&mut self.folder, none);
        folder.remove("notify");
        let report = Report::read(&folder.path("report.json")).expect("a report");
        (report, folder)
    }
}

/// Takes messages to the service manager until one begins with `line`, and returns it.
pub fn wait_for(manager: &UnixDatagram, line: &str) -> String {
    loop {
        let mut message = [0; 512];
        let bytes = manager.recv(&mut message).expect("a message in time");
        let message = String::from_utf8_lossy(&message[..bytes]).into_owned();
        if message.starts_with(line) {
            return message;
        }
    }
}

/// Every submission has exactly one verdict.
pub fn assert_accounts(report: &Report) {
    for task in &report.tasks {
        let verdicts = task.on_time + task.late + task.rejected.total() + task.failed.total();
        assert_eq!(task.submitted, verdicts + task.open + task.lost, "{task:?}");
        assert_eq!(task.open + task.lost, 0, "{task:?}");
    }
    if let Some(recorder) = &report.recorder {
        assert_eq!(recorder.differing, 0, "{recorder:?}");
    }
}

/// Connects as a client of `task`.
pub fn connect(socket: &Path, task: &str, format: PixelFormat) -> ClientChannel {
    let task = task.to_owned();
    ClientChannel::connect(socket, &Hello::new(task, format)).expect("a place")
}

/// Submits a grey frame, captured now.
pub fn submit(client: &mut ClientChannel) -> u64 {
    let mut slot = client.slot().expect("a free slot");
    slot.pixels().fill(128);
    let crop = Crop { x: 7, y: 9 };
    slot.submit(clock::now_ns(), None, crop).expect("submitted")
}

/// The next verdict.
pub fn result(client: &mut ClientChannel) -> ResultRecord {
    let until = clock::now_ns() + LIMIT.as_nanos() as u64;
    loop {
        let seen = client.bell();
        if let Some(record) = client.take().expect("the daemon lives") {
            if record.is_final {
                return record;
            }
            continue;
        }
        assert!(clock::now_ns() < until, "no result");
        // A daemon that closed the connection may have pushed results before: take them first.
        let _ = client.wait(seen, Some(until));
    }
}
