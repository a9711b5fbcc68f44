//! Threads with a name, a core and a priority. Only this module and [`crate::line_writer`] start threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use log::warn;

use crate::allocator::RealtimeMark;
use crate::error::{Missing, OsError};
use crate::{affinity, capabilities, clock, memory, rivals};

/// How a real-time thread is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Its name, of which the kernel keeps 15 bytes.
    pub name: String,
    /// The core to pin it to; none: wherever the kernel likes.
    pub core: Option<usize>,
    /// Its `SCHED_FIFO` priority, 1 (lowest) to 99; none: ordinary scheduling, for best-effort
    /// work that keeps the other rules of real-time threads.
    pub priority: Option<u8>,
    /// Time that the kernel is asked to set aside for it before anything else; if that is refused, core
    /// and priority hold.
    pub reservation: Option<Reservation>,
    /// How much of its stack to touch before it starts, in bytes.
    pub stack_prefault_bytes: usize,
}

impl ThreadSpec {
    /// The part of a stack that is touched in advance unless told otherwise.
    pub const STACK_PREFAULT_BYTES: usize = 128 << 10;
    /// The size of a real-time thread's stack.
    pub const STACK_BYTES: usize = 1 << 20;

    /// A thread `name` on `core` at `priority`, with the usual stack.
    #[must_use]
    pub fn new(name: impl Into<String>, core: Option<usize>, priority: Option<u8>) -> Self {
        Self {
            name: name.into(),
            core,
            priority,
            reservation: None,
            stack_prefault_bytes: Self::STACK_PREFAULT_BYTES,
        }
    }
}

/// Processor time for a thread (`SCHED_DEADLINE`, sched(7)): `runtime_ns` in each `period_ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// How much, in ns; the kernel stops the thread for the rest of a period after it.
    pub runtime_ns: u64,
    /// In each of these, and by its end, in ns.
    pub period_ns: u64,
    /// Where the thread may run. The kernel takes nothing less than a whole root domain: all cores of
    /// the machine, or of an exclusive cpuset.
    pub cores: Vec<usize>,
}

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Ordinary,
    /// `SCHED_FIFO`, at this priority.
    Fifo(u8),
    /// `SCHED_DEADLINE`.
    Deadline {
        /// Time in each period, in ns.
        runtime_ns: u64,
        period_ns: u64,
    },
}

/// A thread could not be started at all.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    #[error(
        "thread {name}: priority {priority} is outside 1..=99 (99 is the kernel's own; use 1 to 98)"
    )]
    Priority { name: String, priority: u8 },
    #[error("thread {name}: cannot pre-fault {bytes} bytes of a stack of {limit}")]
    Stack {
        name: String,
        bytes: usize,
        limit: usize,
    },
    #[error("thread {name}: {source}; raise the limit on processes (RLIMIT_NPROC) or memory")]
    Start { name: String, source: OsError },
    /// Started, and not run: others have its core.
    #[error(
        "thread {name} did not get {} for {} s, the limit is {} s: {who}. Stop what has it, move that to \
         other cores (`taskset -p`, or CPUAffinity= of its unit), or keep the core out of the manifest",
        Awaited(*core), waited_ns / 1_000_000_000, START_NS_MAX / 1_000_000_000
    )]
    Starved {
        name: String,
        /// Its own; none if it may run on several.
        core: Option<usize>,
        waited_ns: u64,
        /// The real-time threads that may have it.
        who: String,
    },
}

/// What a thread waits for that does not run.
struct Awaited(Option<usize>);

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(core) => write!(f, "core {core}"),
            None => f.write_str("any core"),
        }
    }
}

/// How long the start of a thread waits until the thread runs, in ns. A busy machine takes milliseconds, and an ordinary
/// thread gets a part of each second even where real-time threads run.
pub const START_NS_MAX: u64 = 10_000_000_000;

/// How often a start that waits says so.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// A running real-time thread. Dropping it detaches it.
#[derive(Debug)]
pub struct RealtimeThread<T> {
    /// Of a thread whose start was given up, nothing.
    handle: JoinHandle<Option<T>>,
    started: Started,
}

#[derive(Clone, Debug)]
struct Started {
    tid: i32,
    missing: Vec<Missing>,
}

impl<T> RealtimeThread<T> {
    /// What the machine did not grant it.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.started.missing
    }

    /// The kernel's id of the thread (for [`crate::faults::of_thread`]).
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.started.tid
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    pub fn join(self) -> std::thread::Result<T> {
        let result = self.handle.join()?;
        Ok(result.expect("its start was waited for"))
    }
}

/// Starts `body` on a thread that is pinned, prioritised, pre-faulted and marked as real-time for
/// the [sealed allocator](crate::allocator), and returns once all that is done.
///
/// What the machine does not grant is in [`RealtimeThread::missing`]; the thread runs without it. While other
/// real-time threads have its core this waits, says so in the log, and gives up after [`START_NS_MAX`].
pub fn spawn_realtime<F, T>(spec: ThreadSpec, body: F) -> Result<RealtimeThread<T>, ThreadError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    check(&spec)?;
    // With room: a real-time thread that waited for its parent to take the message would spin on the parent's core.
    let (tell_started, started) = bounded(1);
    let settled = Arc::new(Settled::default());
    let start = Start {
        name: spec.name.clone(),
        core: spec.core.filter(|_| spec.reservation.is_none()),
        began_ns: clock::now_ns(),
        settled: Arc::clone(&settled),
    };
    let handle = Builder::new()
        .name(spec.name.clone())
        .stack_size(ThreadSpec::STACK_BYTES)
        .spawn(move || {
            prepare(spec, &tell_started, &settled)?;
            drop((tell_started, settled));
            // Only now: all that is above allocates and frees.
            let _mark = RealtimeMark::set();
            Some(body())
        })
        .map_err(|source| ThreadError::Start {
            name: start.name.clone(),
            source: OsError {
                call: "pthread_create",
                source,
            },
        })?;
    let started = start.wait_for(&started)?;
    Ok(RealtimeThread { handle, started })
}

/// Whether such a thread can be.
fn check(spec: &ThreadSpec) -> Result<(), ThreadError> {
    // Half the stack is left to `body` itself.
    let limit = ThreadSpec::STACK_BYTES / 2;
    if spec.stack_prefault_bytes > limit {
        return Err(ThreadError::Stack {
            name: spec.name.clone(),
            bytes: spec.stack_prefault_bytes,
            limit,
        });
    }
    match spec.priority {
        Some(priority) if !(1..=99).contains(&priority) => Err(ThreadError::Priority {
            name: spec.name.clone(),
            priority,
        }),
        _ => Ok(()),
    }
}

/// Whether it is decided that a thread has started, or that its start was given up: by the one of both sides that comes first.
#[derive(Debug, Default)]
struct Settled(AtomicBool);

impl Settled {
    /// Decides; false if the other one has.
    fn decide(&self) -> bool {
        // Relaxed: it says who was first, and nothing else; what follows goes over the channel.
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// What a thread does before its work, on its own; none if its start was given up meanwhile.
fn prepare(spec: ThreadSpec, started: &Sender<Started>, settled: &Settled) -> Option<()> {
    memory::prefault_stack(spec.stack_prefault_bytes);
    let begun_as = become_realtime(&spec);
    capabilities::give_up_if_wanted();
    if !settled.decide() {
        return None;
    }
    started.send(begun_as).ok()
}

/// The start of a thread, as the thread sees it that waits for it.
struct Start {
    name: String,
    /// None: it may run on several.
    core: Option<usize>,
    began_ns: u64,
    settled: Arc<Settled>,
}

impl Start {
    fn wait_for(&self, started: &Receiver<Started>) -> Result<Started, ThreadError> {
        loop {
            match started.recv_timeout(TOLD_EVERY) {
                Ok(started) => return Ok(started),
                Err(RecvTimeoutError::Timeout) => match self.tell(clock::now_ns()) {
                    Err(error) if self.settled.decide() => {
                        // The process that needed the thread ends, and so must the threads that it has started.
                        let_go_all();
                        return Err(error);
                    }
                    // It waits for a core, or has just got it.
                    _ => {}
                },
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("the thread reports before it does anything that could panic")
                }
            }
        }
    }

    /// Says who has the core, or that it was waited for long enough.
    fn tell(&self, now_ns: u64) -> Result<(), ThreadError> {
        let waited_ns = now_ns.saturating_sub(self.began_ns);
        let (name, who) = (&self.name, who_has(self.core));
        if waited_ns < START_NS_MAX {
            let seconds = waited_ns / 1_000_000_000;
            let awaited = Awaited(self.core);
            warn!(
                "the start waits for thread {name}, which has not got {awaited} for {seconds} s: {who}"
            );
            return Ok(());
        }
        Err(ThreadError::Starved {
            name: name.clone(),
            core: self.core,
            waited_ns,
            who,
        })
    }
}

/// Who may have the core of a thread of this process; if it may run on several, who may have any of them.
fn who_has(core: Option<usize>) -> String {
    let cores = core.map_or_else(
        || affinity::available_cores().unwrap_or_default(),
        |c| vec![c],
    );
    let cores: Vec<u16> = cores.into_iter().map(|core| core as u16).collect();
    rivals::here().who_has(&cores)
}

/// Lets all threads of this process run wherever the calling one may, as ordinary threads: for a process that is to end.
/// A thread that gets no processor cannot end, and its process not before it. Reads `/proc`: for ordinary threads.
pub fn let_go_all() {
    let Ok(cores) = affinity::available_cores() else {
        return;
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let names = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
    for tid in names.filter_map(|name| name.parse().ok()) {
        // What is refused leaves the thread as it was.
        let _ = set_ordinary(tid);
        let _ = affinity::keep_thread_to(tid, &cores);
    }
}

/// Starts an ordinary thread, for work that may allocate, lock and block.
pub fn spawn_ordinary<F, T>(name: &str, body: F) -> Result<JoinHandle<T>, ThreadError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(Builder::new(), name, body)
}

/// As [`spawn_ordinary`], with a stack of this size, all of which counts where memory is locked.
pub fn spawn_ordinary_with_stack<F, T>(
    name: &str,
    bytes: usize,
    body: F,
) -> Result<JoinHandle<T>, ThreadError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(Builder::new().stack_size(bytes), name, body)
}

fn start<F, T>(builder: Builder, name: &str, body: F) -> Result<JoinHandle<T>, ThreadError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    builder
        .name(name.to_owned())
        .spawn(|| {
            capabilities::give_up_if_wanted();
            body()
        })
        .map_err(|source| ThreadError::Start {
            name: name.to_owned(),
            source: OsError {
                call: "pthread_create",
                source,
            },
        })
}

/// The kernel's id of the calling thread.
#[must_use]
pub fn current_tid() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Gives thread `tid` of this process (0: the calling one) `SCHED_FIFO` at `priority`, 1 to 99.
/// One system call; for real-time threads too.
pub fn set_realtime(tid: i32, priority: u8) -> Result<(), Missing> {
    set_scheduler(tid, libc::SCHED_FIFO, priority)
}

/// Gives thread `tid` of this process (0: the calling one) ordinary scheduling. One system call; needs no privilege.
pub fn set_ordinary(tid: i32) -> Result<(), Missing> {
    set_scheduler(tid, libc::SCHED_OTHER, 0)
}

/// Children that the thread forks start ordinary (`SCHED_RESET_ON_FORK`, which a process without
/// privileges could not take back either, so it stays).
fn set_scheduler(tid: i32, policy: libc::c_int, priority: u8) -> Result<(), Missing> {
    // SAFETY: a sched_param is plain integers.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = libc::c_int::from(priority);
    // SAFETY: `parameter` is valid for reads. The raw call, because musl's wrapper of that name is
    // a stub.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            tid,
            policy | libc::SCHED_RESET_ON_FORK,
            &raw const parameter,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Missing::Realtime)
    }
}

/// The kernel's `struct sched_attr`, in its first form (sched_setattr(2)).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// `SCHED_FLAG_RESET_ON_FORK`: a thread with a reservation may start others only so.
const RESET_ON_FORK: u64 = 1;

/// Gives the calling thread its reservation; it may then run on each of its cores.
fn reserve(reservation: &Reservation) -> Result<(), Missing> {
    // First: the kernel refuses a reservation to a thread that may not use its whole root domain (EPERM).
    affinity::keep_current_thread_to(&reservation.cores)?;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_DEADLINE as u32,
        flags: RESET_ON_FORK,
        runtime_ns: reservation.runtime_ns,
        deadline_ns: reservation.period_ns,
        period_ns: reservation.period_ns,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads as many bytes as `size` says, all of them the struct's.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    match result {
        0 => Ok(()),
        _ => Err(Missing::Reservation),
    }
}

/// The name of thread `tid` of this process, as the kernel keeps it; none if it has ended. Reads
/// `/proc`: for ordinary threads.
#[must_use]
pub fn name_of(tid: i32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// How thread `tid` of this process (0: the calling one) is scheduled; none if it has ended. For ordinary threads.
#[must_use]
pub fn policy_of(tid: i32) -> Option<Policy> {
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: the kernel writes at most `size` bytes.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, size, 0) };
    (result == 0).then_some(match attributes.policy as libc::c_int {
        libc::SCHED_FIFO => Policy::Fifo(attributes.priority as u8),
        libc::SCHED_DEADLINE => Policy::Deadline {
            runtime_ns: attributes.runtime_ns,
            period_ns: attributes.period_ns,
        },
        _ => Policy::Ordinary,
    })
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ordinary => f.write_str("ordinary"),
            Self::Fifo(priority) => write!(f, "fifo {priority}"),
            Self::Deadline {
                runtime_ns,
                period_ns,
            } => {
                write!(
                    f,
                    "deadline {} us in {} us",
                    runtime_ns / 1_000,
                    period_ns / 1_000
                )
            }
        }
    }
}

fn become_realtime(spec: &ThreadSpec) -> Started {
    let mut missing = Vec::new();
    if let Some(reservation) = &spec.reservation {
        match reserve(reservation) {
            // The kernel refuses to pin a thread that has a reservation (EBUSY), which stands above any priority.
            Ok(()) => {
                return Started {
                    tid: current_tid(),
                    missing,
                };
            }
            Err(lacking) => missing.push(lacking),
        }
    }
    // The priority first: on a core that a real-time thread of a lower one has, an ordinary thread would wait
    // for a second until it could ask for it.
    if let Some(priority) = spec.priority {
        missing.extend(set_realtime(0, priority).err());
    }
    if let Some(core) = spec.core {
        missing.extend(affinity::pin_current_thread(core).err());
    }
    Started {
        tid: current_tid(),
        missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_runs_pinned_and_its_result_comes_back() {
        let core = affinity::available_cores().unwrap()[0];
        let spec = ThreadSpec::new("pinned", Some(core), Some(1));
        let thread = spawn_realtime(spec, || affinity::available_cores().unwrap()).unwrap();
        assert!(!thread.missing().contains(&Missing::Affinity));
        assert!(thread.tid() > 0);
        assert_eq!(thread.join().unwrap(), [core]);
    }

    #[test]
    fn a_core_that_does_not_exist_is_reported_and_the_thread_runs() {
        let spec = ThreadSpec::new("elsewhere", Some(1_023), None);
        let thread = spawn_realtime(spec, || 7).unwrap();
        assert_eq!(thread.missing(), [Missing::Affinity]);
        assert_eq!(thread.join().unwrap(), 7);
    }

    #[test]
    fn a_thread_lends_its_priority_to_another_and_takes_it_back() {
        let policy = |tid| {
            // SAFETY: a plain query.
            unsafe { libc::sched_getscheduler(tid) & !libc::SCHED_RESET_ON_FORK }
        };
        let (report, tid) = bounded(1);
        let (end, ended) = bounded::<()>(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                report.send(current_tid()).unwrap();
                let _ = ended.recv();
            });
            let tid = tid.recv().unwrap();
            match set_realtime(tid, 2) {
                Ok(()) => assert_eq!(policy(tid), libc::SCHED_FIFO),
                Err(missing) => assert_eq!(missing, Missing::Realtime),
            }
            set_ordinary(tid).unwrap();
            assert_eq!(policy(tid), libc::SCHED_OTHER);
            drop(end);
        });
    }

    #[test]
    fn a_thread_can_be_boosted_and_made_ordinary_from_outside() {
        /// The policy of a thread, without the reset-on-fork flag.
        fn policy(tid: i32) -> i32 {
            // SAFETY: no preconditions.
            unsafe { libc::sched_getscheduler(tid) & !libc::SCHED_RESET_ON_FORK }
        }
        let (stop, stopped) = bounded::<()>(0);
        let spec = ThreadSpec::new("boosted", None, None);
        let thread = spawn_realtime(spec, move || stopped.recv().is_err()).unwrap();
        match set_realtime(thread.tid(), 1) {
            Ok(()) => assert_eq!(policy(thread.tid()), libc::SCHED_FIFO),
            Err(missing) => assert_eq!(missing, Missing::Realtime, "no privilege here"),
        }
        set_ordinary(thread.tid()).unwrap();
        assert_eq!(policy(thread.tid()), libc::SCHED_OTHER);
        drop(stop);
        assert!(thread.join().unwrap());
        assert_eq!(set_ordinary(i32::MAX), Err(Missing::Realtime));
    }

    #[test]
    fn a_reservation_needs_a_whole_root_domain_and_a_thread_without_it_runs() {
        let cores = affinity::available_cores().unwrap();
        let spec = |cores: &[usize]| ThreadSpec {
            reservation: Some(Reservation {
                runtime_ns: 100_000,
                period_ns: 10_000_000,
                cores: cores.to_vec(),
            }),
            ..ThreadSpec::new("reserved", Some(cores[0]), Some(1))
        };
        let thread = spawn_realtime(spec(&cores), || policy_of(0)).unwrap();
        let refused = thread.missing().contains(&Missing::Reservation);
        let reserved = Policy::Deadline {
            runtime_ns: 100_000,
            period_ns: 10_000_000,
        };
        // An ordinary user, or one in a part of the machine's cores, is refused.
        assert_eq!(thread.join().unwrap() == Some(reserved), !refused);
        if cores.len() > 1 {
            let thread = spawn_realtime(spec(&cores[..1]), affinity::available_cores).unwrap();
            assert!(thread.missing().contains(&Missing::Reservation));
            assert_eq!(thread.join().unwrap().unwrap(), cores[..1]);
        }
    }

    #[test]
    fn a_start_that_waits_says_so_and_is_given_up_after_its_bound() {
        let start = Start {
            name: "main/0".into(),
            core: Some(1),
            began_ns: 5,
            settled: Arc::default(),
        };
        assert!(start.tell(5 + START_NS_MAX - 1).is_ok());
        let error = start.tell(5 + START_NS_MAX).unwrap_err();
        let said = error.to_string();
        for words in ["main/0", "core 1", "10 s", "there", "taskset"] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_real_time_thread_does_not_spin_on_the_core_of_whoever_starts_it() {
        let core = affinity::available_cores().unwrap()[0];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                affinity::pin_current_thread(core).unwrap();
                let spec = ThreadSpec::new("beside", Some(core), Some(1));
                let thread = spawn_realtime(spec, clock::thread_cpu_ns).unwrap();
                let taken_ns = thread.join().unwrap();
                assert!(taken_ns < 100_000_000, "{taken_ns} ns until its body ran");
            });
        });
    }

    #[test]
    fn a_thread_whose_start_was_given_up_ends_without_its_body() {
        let (tell_started, started) = bounded(1);
        let settled = Settled::default();
        assert!(settled.decide(), "given up before it has begun");
        let spec = ThreadSpec::new("late", None, None);
        let late = move || prepare(spec, &tell_started, &settled);
        let thread = spawn_ordinary("late", late).unwrap();
        assert_eq!(thread.join().unwrap(), None);
        assert!(started.recv().is_err(), "nothing was reported");
    }

    #[test]
    fn impossible_specifications_are_refused_with_their_value() {
        let spec = ThreadSpec::new("t", None, Some(100));
        let error = spawn_realtime(spec, || ()).unwrap_err();
        assert!(error.to_string().contains("100"), "{error}");
        let mut spec = ThreadSpec::new("t", None, None);
        spec.stack_prefault_bytes = 1 << 30;
        assert!(matches!(
            spawn_realtime(spec, || ()),
            Err(ThreadError::Stack { .. })
        ));
    }
}
