//! Page faults: flat in steady state when memory was locked and pre-faulted as it should be.

/// How many a thread of this process had since it began, by its kernel thread id: those answered from memory (a microsecond
/// or so each) and from a disk (milliseconds). Reads `/proc`: for ordinary threads only. None if the thread has ended.
#[must_use]
pub fn of_thread(tid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // The second field is the name in parentheses and may hold anything; fields 10 and 12 are
    // minflt and majflt (proc_pid_stat(5)).
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let minor: u64 = fields.nth(10 - 3)?.parse().ok()?;
    let major: u64 = fields.nth(1)?.parse().ok()?;
    Some(minor + major)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::current_tid;

    #[test]
    fn touching_fresh_pages_is_counted_on_the_thread() {
        let before = of_thread(current_tid()).unwrap();
        let mut fresh = vec![0_u8; 16 << 20];
        for at in (0..fresh.len()).step_by(4096) {
            fresh[at] = 1;
        }
        std::hint::black_box(&fresh);
        assert!(of_thread(current_tid()).unwrap() > before);
    }

    #[test]
    fn a_thread_that_is_not_there_has_no_count() {
        assert_eq!(of_thread(i32::MAX), None);
    }
}
