//! How much memory is made for clients of each user that are gone before they have submitted a frame: made, brought in and
//! freed without use. A user with too much of that waits, whether it is an attack or a camera that crashes as often as it is
//! started; others' clients are admitted meanwhile.

/// Memory of a user's clients that may be made for nothing in one second, in MiB. Making it takes the thread that does so a
/// quarter of that second, or so.
pub const UNFINISHED_MIB_MAX: u32 = 256;

/// What a client counts for at least, in MiB: files, mappings and descriptors take some milliseconds, however small they are.
const CLIENT_MIB_MIN: u64 = 4;

const WINDOW_NS: u64 = 1_000_000_000;

/// Users that are counted at a time. With more, who has been counted for longest is forgotten.
const USERS_MAX: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Count {
    uid: u32,
    began_ns: u64,
    bytes: u64,
}

/// The counts of the last second.
#[derive(Debug, Default)]
pub struct Openings {
    counts: Vec<Count>,
}

impl Openings {
    /// A client of this user, with `bytes` bytes of memory, came to nothing.
    pub fn unfinished(&mut self, uid: u32, bytes: u64, now_ns: u64) {
        self.forget(now_ns);
        let bytes = bytes.max(CLIENT_MIB_MIN << 20);
        if let Some(count) = self.counts.iter_mut().find(|count| count.uid == uid) {
            count.bytes = count.bytes.saturating_add(bytes);
            return;
        }
        if self.counts.len() == USERS_MAX {
            self.counts.remove(0);
        }
        self.counts.push(Count {
            uid,
            began_ns: now_ns,
            bytes,
        });
    }

    /// Whether no further client of this user may come for now.
    pub fn must_wait(&mut self, uid: u32, now_ns: u64) -> bool {
        self.forget(now_ns);
        let mut counts = self.counts.iter();
        counts.any(|count| count.uid == uid && count.bytes >= u64::from(UNFINISHED_MIB_MAX) << 20)
    }

    fn forget(&mut self, now_ns: u64) {
        let is_recent = |count: &Count| now_ns.saturating_sub(count.began_ns) < WINDOW_NS;
        self.counts.retain(is_recent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_whose_clients_come_to_nothing_waits_for_the_next_second_and_no_other_does() {
        let mut openings = Openings::default();
        for at in 0..u64::from(UNFINISHED_MIB_MAX / 64) {
            assert!(!openings.must_wait(1000, at));
            openings.unfinished(1000, 64 << 20, at);
        }
        assert!(openings.must_wait(1000, 20));
        assert!(!openings.must_wait(1001, 20));
        assert!(!openings.must_wait(1000, WINDOW_NS));
    }

    #[test]
    fn small_clients_that_come_to_nothing_are_bounded_as_well() {
        let mut openings = Openings::default();
        let most = u64::from(UNFINISHED_MIB_MAX) / CLIENT_MIB_MIN;
        for at in 0..most {
            assert!(!openings.must_wait(1000, at));
            openings.unfinished(1000, 1, at);
        }
        assert!(openings.must_wait(1000, most));
    }

    #[test]
    fn many_users_are_not_all_remembered() {
        let mut openings = Openings::default();
        for uid in 0..1_000 {
            openings.unfinished(uid, 1, 5);
        }
        assert_eq!(openings.counts.len(), USERS_MAX);
    }
}
