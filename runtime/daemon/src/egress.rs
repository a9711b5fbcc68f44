//! How long answers take to a client, from the decision until it has them.
//!
//! A held answer leaves that long before its deadline, so that it is on time where the client is. What counts is the
//! slowest of the last hundred and more: both parts of the way, the daemon's as this thread measures it, and the client's
//! as it reports it for records that it waited for. Wrong reports shorten the time of the client's own deeper stages.

use punctual_core::Nanos;

/// Answers are counted in groups of this many: the slowest of this group and of the one before counts.
const GROUP: u32 = 128;

/// The longest way that counts, of a task with this deadline: a quarter of it. What takes longer is a stall, which cannot
/// be foreseen.
pub fn longest_ns(deadline: Option<Nanos>) -> u64 {
    deadline.map_or(0, |deadline| deadline.as_nanos() / 4)
}

/// The slowest of the last 128 to 256 values.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    before_ns: u64,
    now_ns: u64,
    count: u32,
}

impl Slowest {
    fn add(&mut self, took_ns: u64) {
        if self.count == GROUP {
            (self.before_ns, self.now_ns, self.count) = (self.now_ns, 0, 0);
        }
        self.now_ns = self.now_ns.max(took_ns);
        self.count += 1;
    }

    fn ns(&self) -> u64 {
        self.before_ns.max(self.now_ns)
    }
}

/// Of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Egress {
    daemons: Slowest,
    clients: Slowest,
}

impl Egress {
    /// An answer was decided then and is sent now.
    pub fn sent(&mut self, decided_ns: u64, now_ns: u64) {
        self.daemons.add(now_ns.saturating_sub(decided_ns));
    }

    /// A submission reports the slowest of the records that its client has read since the last one.
    pub fn read(&mut self, took_ns: u64) {
        if took_ns > 0 {
            self.clients.add(took_ns);
        }
    }

    /// The whole way, but no more than a limit.
    pub fn ns(&self, limit_ns: u64) -> u64 {
        let whole = self.daemons.ns().saturating_add(self.clients.ns());
        whole.min(limit_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_answer_counts_until_some_hundred_others_have_come() {
        let mut egress = Egress::default();
        assert_eq!(egress.ns(u64::MAX), 0);
        egress.sent(1_000, 1_070);
        egress.read(30);
        assert_eq!(egress.ns(u64::MAX), 100);
        assert_eq!(egress.ns(80), 80);
        for _ in 0..GROUP {
            egress.sent(1_000, 1_005);
            egress.read(0);
        }
        assert_eq!(egress.ns(u64::MAX), 100, "the group before counts");
        for _ in 0..GROUP {
            egress.sent(1_000, 1_005);
        }
        assert_eq!(egress.ns(u64::MAX), 35, "the client has read no other");
    }

    #[test]
    fn impossible_times_do_no_harm() {
        let mut egress = Egress::default();
        egress.sent(9, 1);
        egress.read(u64::MAX);
        egress.sent(0, u64::MAX);
        assert_eq!(egress.ns(5), 5);
    }
}
