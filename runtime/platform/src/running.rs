//! Whether the kernel runs a thread of this process, as another of its threads sees it: what tells a thread
//! that is stuck from one that is ready and gets no processor.

use std::fs::File;
use std::io::Read as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Processor time that it has had, in ns.
    pub ran_ns: u64,
    /// Whether it runs or waits for a processor, rather than for anything else.
    pub runnable: bool,
}

/// Thread `tid` of this process, now; none if it has ended. Reads `/proc`: for ordinary threads.
#[must_use]
pub fn of_thread(tid: i32) -> Option<Running> {
    // The first fields are enough, in one reading: a name has 15 bytes.
    let mut stat = [0; 64];
    let mut file = File::open(format!("/proc/self/task/{tid}/stat")).ok()?;
    let length = file.read(&mut stat).ok()?;
    Some(Running {
        ran_ns: processor_ns(tid)?,
        runnable: is_runnable(&stat[..length])?,
    })
}

/// The state is behind the name, which may hold anything (proc_pid_stat(5)).
fn is_runnable(stat: &[u8]) -> Option<bool> {
    let name_ends = stat.iter().rposition(|&byte| byte == b')')?;
    Some(stat[name_ends..].starts_with(b") R"))
}

/// Exact at this moment, unlike what `/proc` has of a thread that runs.
fn processor_ns(tid: i32) -> Option<u64> {
    /// A thread's own clock, by its id (the kernel's CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED).
    const OF_THREAD: libc::clockid_t = 4 | 2;
    let clock = (!tid << 3) | OF_THREAD;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes; a clock that is not there is an error.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crossbeam_channel::bounded;

    use super::*;
    use crate::thread::current_tid;

    #[test]
    fn a_thread_that_computes_runs_and_one_that_waits_does_not() {
        let (tell, told) = bounded(2);
        let (end, ended) = bounded::<()>(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let computes = tell.clone();
            scope.spawn(|| {
                let computes = computes;
                computes.send(current_tid()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let computing = told.recv().unwrap();
            scope.spawn(move || {
                tell.send(current_tid()).unwrap();
                let _ = ended.recv();
            });
            let waiting = told.recv().unwrap();
            let before = of_thread(computing).unwrap();
            assert!(before.runnable);
            while of_thread(computing).unwrap().ran_ns < before.ran_ns + 1_000_000 {}
            // On its way to where it waits it may run, or wait for something else for a moment.
            let rests = || {
                let seen = of_thread(waiting).unwrap();
                !seen.runnable && of_thread(waiting) == Some(seen)
            };
            while !rests() {}
            stop.store(true, Ordering::Relaxed);
            drop(end);
        });
        assert_eq!(of_thread(i32::MAX), None);
    }

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_state() {
        assert_eq!(is_runnable(b"12 (a) S (b) R 1 2"), Some(true));
        assert_eq!(is_runnable(b"12 (main/0) S 1 2"), Some(false));
        assert_eq!(is_runnable(b"12 (main/0) t 1 2"), Some(false));
        assert_eq!(is_runnable(b"nonsense"), None);
    }
}
