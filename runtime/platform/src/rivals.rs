//! Real-time threads of other processes. One that may run on a core of ours can have it for as long as it likes, and the
//! kernel reports it only to a process that asks.
//!
//! Reads some files for each thread of the machine: for ordinary threads.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use crate::affinity::{cores_in, shown};
use crate::read;

/// At most this number of threads are looked at, which takes some tens of milliseconds.
pub const THREADS_MAX: usize = 4096;

/// As many are named; the others are counted.
const NAMED_MAX: usize = 4;

/// A longer file is none of those that are read here.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Of the kernel's second process, which is always there. It is root's, and outside of every container: who sees it sees all.
pub const KERNEL_STAT: &str = "/proc/2/stat";

/// What the line of a thread's `status` begins with that has its cores.
pub const CORES_LINE: &str = "Cpus_allowed_list:";

/// How the kernel schedules a real-time thread (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_FIFO`, at this priority.
    Fifo(u8),
    /// `SCHED_RR`, at this priority.
    RoundRobin(u8),
    /// `SCHED_DEADLINE`, which is above all priorities.
    Deadline,
}

impl Class {
    /// Larger runs first.
    const fn urgency(self) -> u8 {
        match self {
            Self::Fifo(priority) | Self::RoundRobin(priority) => priority,
            Self::Deadline => 100,
        }
    }
}

impl Display for Class {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "fifo {priority}"),
            Self::RoundRobin(priority) => write!(f, "round-robin {priority}"),
            Self::Deadline => f.write_str("deadline"),
        }
    }
}

/// A real-time thread of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    pub pid: u32,
    pub tid: u32,
    /// As `ps -L` shows it: whatever its process says.
    pub thread: String,
    pub process: String,
    pub class: Class,
    /// Where it may run, rising.
    pub cores: Vec<u16>,
    /// Where it ran last.
    pub core: u16,
    /// Whether it runs, or would if it had a processor.
    pub runnable: bool,
}

impl Rival {
    /// Whether it may run on any of these.
    #[must_use]
    pub fn may_run_on(&self, cores: &[u16]) -> bool {
        self.cores.iter().any(|core| cores.contains(core))
    }

    /// Whether it may run nowhere else.
    #[must_use]
    pub fn is_kept_to(&self, cores: &[u16]) -> bool {
        self.cores.iter().all(|core| cores.contains(core))
    }
}

/// Names are quoted: a process can put anything into its own.
impl Display for Rival {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (pid, process, class) = (self.pid, &self.process, self.class);
        write!(f, "process {pid} {process:?}")?;
        if self.thread != self.process {
            write!(f, ", thread {:?}", self.thread)?;
        }
        let runs = if self.runnable { ", runs" } else { "" };
        write!(f, " ({class}, cores {}{runs})", shown(&self.cores))
    }
}

/// Why there may be others than those that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Processes of others are hidden from this one: `hidepid=` of `/proc`, `ProtectProc=` of a unit, a container.
    Hidden,
    /// There are more threads than [`THREADS_MAX`].
    TooMany,
}

impl Display for Unseen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hidden => f.write_str(
                "processes of other users are hidden from this one (hidepid=, ProtectProc=, a container): \
                 `sudo punctual doctor` outside of it sees them",
            ),
            Self::TooMany => write!(
                f,
                "only {THREADS_MAX} of the machine's threads were looked at"
            ),
        }
    }
}

/// What was seen of the machine's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Those that run first, then the most urgent ones.
    pub rivals: Vec<Rival>,
    /// None if all threads were seen.
    pub unseen: Option<Unseen>,
}

impl Sighting {
    /// Those that may run on any of these cores.
    pub fn on(&self, cores: &[u16]) -> impl Iterator<Item = &Rival> {
        self.rivals
            .iter()
            .filter(move |rival| rival.may_run_on(cores))
    }

    /// Those on these cores in words, the most important ones by name; none if there are none.
    #[must_use]
    pub fn named(&self, cores: &[u16]) -> Option<String> {
        let mut names: Vec<String> = self.on(cores).map(Rival::to_string).collect();
        let more = names.len().saturating_sub(NAMED_MAX);
        names.truncate(NAMED_MAX);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Who may have these cores, for which a thread waits, in words.
    #[must_use]
    pub fn who_has(&self, cores: &[u16]) -> String {
        match (self.named(cores), self.unseen) {
            (Some(named), None) => {
                format!("real-time threads of others there: {named}")
            }
            (Some(named), Some(unseen)) => {
                format!("real-time threads of others there: {named}; {unseen}")
            }
            (None, None) => "no real-time thread of another process may run there".to_owned(),
            (None, Some(unseen)) => format!("who may run there cannot be seen: {unseen}"),
        }
    }
}

/// A machine's `/proc`.
pub trait Files {
    /// The names in a folder; none of them if it cannot be read.
    fn names(&self, folder: &str) -> Vec<String>;

    /// A file's text; none if it cannot be read, as when its process has ended.
    fn text(&self, path: &str) -> Option<String>;
}

/// This machine's.
struct Here;

impl Files for Here {
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }

    fn text(&self, path: &str) -> Option<String> {
        let bytes = read::bytes(Path::new(path), FILE_BYTES_MAX).ok()?;
        // A thread's name may be anything.
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The real-time threads of all processes but this one, now.
#[must_use]
pub fn here() -> Sighting {
    among(&Here, Some(std::process::id()))
}

/// The real-time threads of a machine, without those of the kernel and of process `own`.
#[must_use]
pub fn among(files: &impl Files, own: Option<u32>) -> Sighting {
    let mut sighting = Sighting {
        rivals: Vec::new(),
        unseen: (!sees_kernel(files)).then_some(Unseen::Hidden),
    };
    let mut left = THREADS_MAX;
    for pid in numbers(files, "/proc").filter(|pid| Some(*pid) != own) {
        let mut process = None;
        for tid in numbers(files, &format!("/proc/{pid}/task")) {
            let Some(rest) = left.checked_sub(1) else {
                sighting.unseen.get_or_insert(Unseen::TooMany);
                return sorted(sighting);
            };
            left = rest;
            if let Some(rival) = rival(files, pid, tid, &mut process) {
                sighting.rivals.push(rival);
            }
        }
    }
    sorted(sighting)
}

fn sorted(mut sighting: Sighting) -> Sighting {
    sighting.rivals.sort_by_key(|rival| {
        let lowest_last = u8::MAX - rival.class.urgency();
        (!rival.runnable, lowest_last, rival.tid)
    });
    sighting
}

fn sees_kernel(files: &impl Files) -> bool {
    let stat = files.text(KERNEL_STAT);
    stat.and_then(|text| Stat::read(&text))
        .is_some_and(|stat| stat.of_kernel)
}

fn numbers(files: &impl Files, folder: &str) -> impl Iterator<Item = u32> {
    let names = files.names(folder).into_iter();
    names.filter_map(|name| name.parse().ok())
}

/// Thread `tid`, if it is a rival. `process` keeps the name of its process for the next one.
fn rival(files: &impl Files, pid: u32, tid: u32, process: &mut Option<String>) -> Option<Rival> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = Stat::read(&files.text(&format!("{folder}/stat"))?)?;
    let class = stat.class.filter(|_| !stat.of_kernel)?;
    let cores = allowed_cores(&files.text(&format!("{folder}/status"))?)?;
    let named = || {
        let stat = files.text(&format!("/proc/{pid}/task/{pid}/stat"));
        let stat = stat.and_then(|text| Stat::read(&text));
        stat.map_or_else(String::new, |stat| stat.name)
    };
    Some(Rival {
        pid,
        tid,
        process: process.get_or_insert_with(named).clone(),
        thread: stat.name,
        class,
        cores,
        core: stat.core,
        runnable: stat.runnable,
    })
}

/// What `/proc/.../stat` gives for a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    runnable: bool,
    of_kernel: bool,
    core: u16,
    /// None of one that is not real-time.
    class: Option<Class>,
}

impl Stat {
    /// Its fields have numbers in proc_pid_stat(5).
    fn read(text: &str) -> Option<Self> {
        /// `PF_KTHREAD` of the kernel's linux/sched.h.
        const OF_KERNEL: u64 = 0x0020_0000;
        // The name is between the first opening and the last closing bracket, and may hold both.
        let (before, behind) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
        // The name is field 2.
        let field = |number: usize| fields.get(number - 3).copied();
        let flags: u64 = field(9)?.parse().ok()?;
        let priority: u8 = field(40)?.parse().ok()?;
        let policy: libc::c_int = field(41)?.parse().ok()?;
        Some(Self {
            name: name.to_owned(),
            runnable: field(3)? == "R",
            of_kernel: flags & OF_KERNEL != 0,
            core: field(39)?.parse().ok()?,
            class: match policy {
                libc::SCHED_FIFO => Some(Class::Fifo(priority)),
                libc::SCHED_RR => Some(Class::RoundRobin(priority)),
                libc::SCHED_DEADLINE => Some(Class::Deadline),
                _ => None,
            },
        })
    }
}

/// Of the text of `/proc/.../status`.
fn allowed_cores(status: &str) -> Option<Vec<u16>> {
    let mut lines = status.lines();
    cores_in(lines.find_map(|line| line.strip_prefix(CORES_LINE))?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crossbeam_channel::bounded;

    use super::*;
    use crate::thread::{ThreadSpec, current_tid, spawn_realtime};

    /// A thread's `stat`: name, state, flags, last core, priority, policy.
    fn stat(name: &str, state: char, flags: u64, core: u16, priority: u8, policy: i32) -> String {
        let zeros = |count| "0 ".repeat(count);
        // Fields 4 to 8, 10 to 38, and 42 to 52 are of no interest.
        format!(
            "7 ({name}) {state} {}{flags} {}{core} {priority} {policy} {}\n",
            zeros(5),
            zeros(29),
            zeros(11)
        )
    }

    #[derive(Default)]
    struct Recorded(BTreeMap<String, String>);

    impl Recorded {
        /// Of which all is visible.
        fn whole() -> Self {
            let kernel = stat("kthreadd", 'S', 0x0020_8040, 0, 0, 0);
            Self::default()
                .file(KERNEL_STAT, &kernel)
                .thread(2, 2, &kernel, "0-3")
        }

        fn file(mut self, path: &str, text: &str) -> Self {
            self.0.insert(path.to_owned(), text.to_owned());
            self
        }

        fn thread(self, pid: u32, tid: u32, stat: &str, cores: &str) -> Self {
            let folder = format!("/proc/{pid}/task/{tid}");
            let status = format!("Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t{cores}\n");
            self.file(&format!("{folder}/stat"), stat)
                .file(&format!("{folder}/status"), &status)
        }
    }

    impl Files for Recorded {
        fn names(&self, folder: &str) -> Vec<String> {
            let inside = |path: &String| {
                let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
                Some(rest.split('/').next()?.to_owned())
            };
            let mut names: Vec<String> = self.0.keys().filter_map(inside).collect();
            names.dedup();
            names
        }

        fn text(&self, path: &str) -> Option<String> {
            self.0.get(path).cloned()
        }
    }

    const FIFO: i32 = 1;
    const ROUND_ROBIN: i32 = 2;
    const DEADLINE: i32 = 6;

    #[test]
    fn the_classes_that_are_real_time_are_told_from_those_that_are_not() {
        let class = |policy| Stat::read(&stat("t", 'S', 0, 0, 42, policy)).unwrap().class;
        assert_eq!(class(FIFO), Some(Class::Fifo(42)));
        assert_eq!(class(ROUND_ROBIN), Some(Class::RoundRobin(42)));
        assert_eq!(class(DEADLINE), Some(Class::Deadline));
        for ordinary in [0, 3, 5, 7] {
            assert_eq!(class(ordinary), None, "policy {ordinary}");
        }
    }

    #[test]
    fn a_stat_of_the_kernel_is_read_by_the_numbers_of_its_fields() {
        let text = "4711 (a) R (b) R 1 4711 4711 0 -1 4194560 127 0 0 0 5 6 0 0 -45 0 1 0 99 1024 256 \
                    18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 44 1 0 0 0 0 0 0 0 0 0 0 0\n";
        let read = Stat {
            name: "a) R (b".into(),
            runnable: true,
            of_kernel: false,
            core: 3,
            class: Some(Class::Fifo(44)),
        };
        assert_eq!(Stat::read(text), Some(read));
        assert_eq!(Stat::read("4711 (short) R 1 2 3"), None);
        assert_eq!(Stat::read(""), None);
    }

    #[test]
    fn the_cores_that_a_thread_may_run_on_are_a_line_of_its_status() {
        let status =
            "Name:\tx\nCpus_allowed:\t0f\nCpus_allowed_list:\t0-3,7\nMems_allowed_list:\t0\n";
        assert_eq!(allowed_cores(status), Some(vec![0, 1, 2, 3, 7]));
        assert_eq!(allowed_cores("Name:\tx\n"), None);
    }

    #[test]
    fn rivals_are_named_with_those_first_that_run_and_are_most_urgent() {
        let machine = Recorded::whole()
            .thread(20, 20, &stat("audio", 'S', 0, 1, 0, 0), "0-3")
            .thread(20, 21, &stat("mixer", 'S', 0, 1, 20, ROUND_ROBIN), "0-3")
            .thread(30, 30, &stat("hog", 'R', 0, 1, 10, FIFO), "1")
            .thread(40, 40, &stat("modem", 'S', 0, 2, 0, DEADLINE), "2-3");
        let seen = among(&machine, None);
        assert_eq!(seen.unseen, None);
        let names: Vec<&str> = seen.rivals.iter().map(|r| r.thread.as_str()).collect();
        assert_eq!(names, ["hog", "modem", "mixer"]);
        let words = "process 30 \"hog\" (fifo 10, cores 1, runs), \
                     process 20 \"audio\", thread \"mixer\" (round-robin 20, cores 0-3)";
        assert_eq!(seen.named(&[1]).as_deref(), Some(words));
        assert!(seen.rivals[0].is_kept_to(&[1, 2]) && !seen.rivals[2].is_kept_to(&[1, 2]));
        assert_eq!(seen.named(&[4]), None);
        let nobody = "no real-time thread of another process may run there";
        assert_eq!(seen.who_has(&[4]), nobody);
    }

    #[test]
    fn threads_of_the_kernel_and_of_ones_own_process_are_no_rivals() {
        let kernel = stat("migration/1", 'S', 0x0420_8040, 1, 99, FIFO);
        let machine = Recorded::whole().thread(19, 19, &kernel, "1").thread(
            50,
            51,
            &stat("main/0", 'R', 0, 1, 44, FIFO),
            "1",
        );
        assert_eq!(among(&machine, Some(50)).rivals, []);
        assert_eq!(among(&machine, None).rivals.len(), 1);
    }

    #[test]
    fn where_others_are_hidden_nobody_claims_that_there_are_none() {
        let ours = stat("main/0", 'R', 0, 1, 44, FIFO);
        let hidden = Recorded::default().thread(50, 50, &ours, "1");
        let seen = among(&hidden, Some(50));
        assert_eq!(seen.unseen, Some(Unseen::Hidden));
        assert!(
            seen.who_has(&[1]).contains("cannot be seen"),
            "{}",
            seen.who_has(&[1])
        );
        // In a container another process has the number of the kernel's.
        let shell = stat("sh", 'S', 0x0040_0000, 0, 0, 0);
        let seen = among(&hidden.file(KERNEL_STAT, &shell), None);
        assert_eq!(seen.unseen, Some(Unseen::Hidden));
        let said = seen.who_has(&[1]);
        assert!(said.contains("main/0") && said.contains("hidden"), "{said}");
    }

    #[test]
    fn processes_that_end_meanwhile_are_passed_over() {
        let hog = stat("hog", 'R', 0, 1, 98, FIFO);
        let machine = Recorded::whole()
            .file("/proc/60/comm", "gone before its threads were listed")
            .file("/proc/61/task/61/comm", "gone before its stat was read")
            .file("/proc/62/task/62/stat", &hog)
            .thread(63, 63, &hog, "1");
        let seen = among(&machine, None);
        let pids: Vec<u32> = seen.rivals.iter().map(|rival| rival.pid).collect();
        assert_eq!(pids, [63]);
    }

    #[test]
    fn a_look_ends_after_a_bounded_number_of_threads_and_says_so() {
        let ordinary = stat("t", 'S', 0, 0, 0, 0);
        let tids = 100..100 + THREADS_MAX as u32;
        let machine = tids.fold(Recorded::whole(), |machine, tid| {
            machine.file(&format!("/proc/99/task/{tid}/stat"), &ordinary)
        });
        assert_eq!(among(&machine, None).unseen, Some(Unseen::TooMany));
        assert_eq!(among(&machine, Some(99)).unseen, None);
    }

    #[test]
    fn many_rivals_are_counted_and_names_are_quoted() {
        let named = |tid: u32| format!("bad\x1b[1m{tid}");
        let machine = (70..76).fold(Recorded::whole(), |machine, tid| {
            machine.thread(tid, tid, &stat(&named(tid), 'S', 0, 0, 5, FIFO), "0")
        });
        let said = among(&machine, None).named(&[0]).unwrap();
        assert!(said.ends_with(", 2 more"), "{said}");
        assert!(!said.contains('\x1b'), "{said}");
    }

    #[test]
    fn a_thread_of_this_machine_is_found_as_another_process_would_find_it() {
        let (tell, told) = bounded(1);
        let (end, ended) = bounded::<()>(0);
        let thread = spawn_realtime(ThreadSpec::new("a rival", None, Some(3)), move || {
            tell.send(current_tid()).unwrap();
            let _ = ended.recv();
        });
        let thread = thread.unwrap();
        let tid = told.recv().unwrap() as u32;
        let seen = among(&Here, None);
        match thread.missing() {
            [] => {
                let found = seen.rivals.iter().find(|rival| rival.tid == tid).unwrap();
                assert_eq!(found.class, Class::Fifo(3));
                assert_eq!(
                    (found.thread.as_str(), found.pid),
                    ("a rival", std::process::id())
                );
            }
            _ => eprintln!("skipped: no real-time priorities here"),
        }
        assert!(
            here()
                .rivals
                .iter()
                .all(|rival| rival.pid != std::process::id())
        );
        drop(end);
        thread.join().unwrap();
    }
}
