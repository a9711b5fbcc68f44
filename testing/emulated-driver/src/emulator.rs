//! The handle of tests on the driver.
use std::ffi::{OsString, c_int};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::config::Config;
use crate::library::{self, LibraryError};
use crate::records::{
    LaunchRecord, MemoryInUse, StreamState, launch_record, memory_in_use, stream_state,
};
use crate::virtual_time::{self, BegunLaunch, LaunchCost, Loads, Pace, Passed};

/// How `emulated_cuda_ask` looks from here.
type Ask = unsafe extern "C" fn(*const u8, usize, *mut u8, usize) -> usize;

/// The environment variable that has tests run on whatever driver the loader finds: `1`. Nothing emulated is loaded then.
/// A test that configures the driver or asks it what only an emulated one tells (launches, streams, calls), or has
/// it go wrong, is refused: it fails with [`REFUSED`], which `testing/gpu/tests.py` tells from other failures.
pub const REAL_DRIVER: &str = "PUNCTUAL_REAL_DRIVER";

/// How the message of a test begins that needs the emulated driver, where there is a real one.
pub const REFUSED: &str = "refused on a real driver: this test";

/// Whether tests run on a real driver.
#[must_use]
pub fn is_real() -> bool {
    std::env::var_os(REAL_DRIVER).is_some_and(|value| value == "1")
}

/// # Panics
/// On a real driver, if the test needs another one than that.
fn refuse_unless_plain(config: &Config) {
    if is_real() && *config != Config::default() {
        panic!("{REFUSED} needs a driver of its own making");
    }
}

/// What is loaded is never unloaded: `cudarc` keeps addresses of its functions.
struct Loaded {
    questions: Questions,
    lacks: Vec<&'static str>,
    /// For the names that others ask the loader for.
    _library: Library,
}

static LOADED: OnceLock<Loaded> = OnceLock::new();
/// One driver a process: tests of a process take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The emulated driver, loaded in this process in the place of CUDA's and reset to a configuration.
/// Dropping it ends everything in the driver, also what hangs.
///
/// Tests that run in parallel in one process wait for each other in [`start`](Self::start).
#[derive(Debug)]
pub struct Emulator {
    /// None: a real driver.
    library: Option<Questions>,
    _turn: MutexGuard<'static, ()>,
}

/// What an emulated driver answers, in addition to what every driver does.
#[derive(Clone, Copy, Debug)]
struct Questions {
    ask: Ask,
    pass: virtual_time::Pass,
}

/// How far a stream goes before it stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It finishes the block or the copy that it is at; within a kernel, it stops at the next checkpoint.
    Now,
    /// This number of launches, copies and other commands more.
    Commands(u64),
    /// This number of blocks of launches more.
    Blocks(u64),
    /// This number of looks of threads at their guard more.
    Checkpoints(u64),
}

fn load(config: &Config) -> Result<&'static Loaded, LibraryError> {
    let wanted = library::lacking(config);
    if LOADED.get().is_none() {
        let path = if wanted.is_empty() {
            library::built()?
        } else {
            library::write(config)?
        };
        // SAFETY: our own library; its initialisers enlist kernels.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL as c_int) }
            .map_err(|source| LibraryError::Load {
                path: path.clone(),
                source,
            })?;
        // SAFETY: the library exports it with this signature.
        let ask = unsafe { library.get::<Ask>(b"emulated_cuda_ask\0") }
            .map(|symbol| *symbol)
            .map_err(|source| LibraryError::Load {
                path: path.clone(),
                source,
            })?;
        // SAFETY: likewise.
        let pass = unsafe { library.get::<virtual_time::Pass>(b"emulated_cuda_pass\0") }
            .map(|symbol| *symbol)
            .map_err(|source| LibraryError::Load { path, source })?;
        let lacks = wanted.clone();
        LOADED.get_or_init(|| Loaded {
            questions: Questions { ask, pass },
            lacks,
            _library: library,
        });
    }
    match LOADED.get() {
        Some(loaded) if loaded.lacks == wanted => Ok(loaded),
        loaded => Err(LibraryError::Loaded {
            loaded: loaded.map(|l| l.lacks.clone()).unwrap_or_default(),
            wanted,
        }),
    }
}

impl Emulator {
    /// Loads the driver, if the process has none yet, and makes it the configured machine. Code that
    /// asks the loader for `libcuda.so` afterwards gets this one. On a [real driver](REAL_DRIVER) nothing is loaded.
    ///
    /// # Panics
    /// On a real driver, if the configuration is not the default one: the test is refused.
    pub fn start(config: &Config) -> Result<Self, LibraryError> {
        // A test that failed leaves nothing behind that the configuration below does not end.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_unless_plain(config);
        let library = if is_real() {
            None
        } else {
            Some(load(config)?.questions)
        };
        let emulator = Self {
            library,
            _turn: turn,
        };
        if emulator.library.is_some() {
            emulator.tell(&format!("configure {config}"));
        }
        Ok(emulator)
    }

    /// What a program needs in its environment to find the driver of `config`; on a real driver nothing.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn environment(config: &Config) -> Result<Vec<(&'static str, OsString)>, LibraryError> {
        refuse_unless_plain(config);
        if is_real() {
            return Ok(Vec::new());
        }
        Ok(vec![
            ("LD_LIBRARY_PATH", Self::library_folder(config)?.into()),
            (crate::ENVIRONMENT, config.to_string().into()),
        ])
    }

    /// A folder with `libcuda.so` and `libcuda.so.1`, for the `LD_LIBRARY_PATH` of a program; the program also
    /// wants [`ENVIRONMENT`](crate::ENVIRONMENT) with the text form of `config`. It lies next to the library that
    /// cargo built, one for each set of missing calls.
    ///
    /// # Panics
    /// On a real driver: the test is refused.
    pub fn library_folder(config: &Config) -> Result<PathBuf, LibraryError> {
        assert!(
            !is_real(),
            "{REFUSED} starts a program on the emulated driver"
        );
        let mut path = library::write(config)?;
        path.pop();
        Ok(path)
    }

    fn question(&self, question: &str) -> Option<String> {
        let Questions { ask, .. } = self.library?;
        let mut answer = vec![0u8; 1 << 12];
        loop {
            // SAFETY: both are as large as said.
            let bytes = unsafe {
                ask(
                    question.as_ptr(),
                    question.len(),
                    answer.as_mut_ptr(),
                    answer.len(),
                )
            };
            if bytes <= answer.len() {
                answer.truncate(bytes);
                break;
            }
            // Only questions that change nothing have long answers.
            answer.resize(bytes + bytes / 2, 0);
        }
        let answer = String::from_utf8(answer).ok()?;
        answer.strip_prefix("ok\n").map(str::to_owned)
    }

    /// The answer to a question that the driver must understand.
    ///
    /// # Panics
    /// If it does not: the library is older or newer than this handle, or the stream is gone. On a real driver: the test
    /// is refused.
    fn tell(&self, question: &str) -> String {
        assert!(
            self.library.is_some(),
            "{REFUSED} asks the driver `{question}`"
        );
        self.question(question)
            .unwrap_or_else(|| panic!("the emulated driver does not understand: {question}"))
    }

    /// How often a call was made, by its exported name (`cuMemAlloc_v2`), since [`start`](Self::start).
    #[must_use]
    pub fn calls(&self, name: &str) -> u64 {
        self.tell(&format!("calls {name}")).parse().unwrap_or(0)
    }

    /// The `nth` call of `name` from now on, counted from 0, will return `code` and do nothing.
    pub fn fail_call(&self, name: &str, nth: u64, code: u32) {
        self.tell(&format!("fail-call {name} {nth} {code}"));
    }

    /// The `nth` launch from now on, counted from 0, will break its context with `code`. The driver must be
    /// initialised, as for all that follows.
    pub fn fail_launch(&self, nth: u64, code: u32) {
        self.tell(&format!("fail-launch {nth} {code}"));
    }

    /// The `nth` launch from now on, counted from 0, will hang until it is released, or its context is reset.
    pub fn hang_launch(&self, nth: u64) {
        self.tell(&format!("hang-launch {nth}"));
    }

    /// From now on launches compute nothing, and take the time that [`pass`](Self::pass) is told, on a virtual clock that begins at
    /// 0. Everything that was asked of the driver is over. Calls that wait for a launch must not be made then: no other thread
    /// carries it out. Those that wait for copies may.
    pub fn begin_virtual_time(&self, pace: Pace) {
        let Pace {
            launch_ns,
            look_ns,
            empty_ns,
        } = pace;
        self.tell(&format!("timed {launch_ns} {look_ns} {empty_ns}"));
    }

    /// Lets virtual time pass until `until_ns`, or until something changed that the host may see. `cost` says what a launch
    /// costs that begins.
    pub fn pass(&self, until_ns: u64, cost: &mut dyn FnMut(&BegunLaunch) -> LaunchCost) -> Passed {
        let Some(Questions { pass, .. }) = self.library else {
            panic!("{REFUSED} has virtual time pass");
        };
        virtual_time::pass(pass, until_ns, cost)
    }

    /// What was loaded so far.
    #[must_use]
    pub fn loads(&self) -> Loads {
        Loads::read(&self.tell("loads")).unwrap_or_default()
    }

    /// Launches that were submitted hang no more.
    pub fn release_hangs(&self) {
        self.tell("release-hangs");
    }

    /// Lets a stream go so far, and then stand still until [`go_on`](Self::go_on).
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn hold(&self, stream: u64, after: After) {
        self.tell(&format!("hold {stream} {}", words(after)));
    }

    /// The same for each stream that there is, and those that will be made.
    pub fn hold_all(&self, after: After) {
        self.tell(&format!("hold all {}", words(after)));
    }

    /// Waits until a stream stands still because of its hold.
    ///
    /// # Panics
    /// If there is no such stream, or nothing holds it.
    pub fn wait_until_held(&self, stream: u64) {
        self.tell(&format!("await-held {stream}"));
    }

    /// Takes a hold away.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn go_on(&self, stream: u64) {
        self.tell(&format!("hold {stream} open"));
    }

    pub fn go_on_all(&self) {
        self.tell("hold all open");
    }

    /// All launches so far, in the order of submission (the last 65536).
    #[must_use]
    pub fn launches(&self) -> Vec<LaunchRecord> {
        self.launches_from(0)
    }

    /// Those from launch `first` on.
    #[must_use]
    pub fn launches_from(&self, first: u64) -> Vec<LaunchRecord> {
        self.tell(&format!("launches {first}"))
            .lines()
            .filter_map(launch_record)
            .collect()
    }

    /// The streams that there are, oldest first.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamState> {
        self.tell("streams")
            .lines()
            .filter_map(stream_state)
            .collect()
    }

    #[must_use]
    pub fn memory(&self) -> MemoryInUse {
        memory_in_use(&self.tell("memory"))
    }

    /// What the last kernel that went wrong said.
    #[must_use]
    pub fn complaint(&self) -> String {
        match self.library {
            Some(_) => self.tell("complaint"),
            None => "a real driver, whose kernels say nothing".to_owned(),
        }
    }

    /// Whether a reset of the context waits for a kernel that hangs.
    #[must_use]
    pub fn reset_waits(&self) -> bool {
        self.tell("reset-waits") == "true"
    }

    /// The error of the context, if it is broken.
    #[must_use]
    pub fn broken(&self) -> Option<u32> {
        self.tell("broken").parse().ok().filter(|&code| code != 0)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Nothing to be done about a driver that does not understand.
        let _ = self.question("shut-down");
    }
}

fn words(after: After) -> String {
    match after {
        After::Now => "now".to_owned(),
        After::Commands(count) => format!("commands {count}"),
        After::Blocks(count) => format!("blocks {count}"),
        After::Checkpoints(count) => format!("checkpoints {count}"),
    }
}
