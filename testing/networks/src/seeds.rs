//! Each seed of a range once, on several threads.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use punctual_networks::panics;
use punctual_platform::clock::now_ns;

/// How often progress is said.
const PROGRESS: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct Seeds {
    /// The first seed.
    #[arg(long, visible_alias = "seed", default_value_t = 1)]
    pub first: u64,
    /// How many seeds, from the first on.
    #[arg(long, default_value_t = 1000)]
    pub count: u64,
    /// Ends after this number of seconds, whatever the count.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// How many networks at a time; without it, as many as there are processors.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Where to write what fails, shrunk.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Writes the counts as JSON.
    #[arg(long)]
    pub json: bool,
}

impl Seeds {
    /// Does `one` for each seed, and writes `progress` of those that are done to the standard error. Gives the time
    /// that all took.
    pub fn each(&self, one: impl Fn(u64) + Sync, progress: impl Fn() -> String) -> Duration {
        panics::remember();
        let running = Running {
            seeds: self,
            began_ns: now_ns(),
            next: AtomicU64::new(0),
        };
        let processors = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        thread::scope(|scope| {
            let threads = 0..self.threads.unwrap_or(processors).max(1);
            let threads: Vec<_> = threads
                .map(|_| scope.spawn(|| running.work(&one)))
                .collect();
            // A thread that panicked takes no more seeds.
            let is_over = || threads.iter().all(thread::ScopedJoinHandle::is_finished);
            running.say(progress, is_over);
        });
        running.elapsed()
    }
}

struct Running<'a> {
    seeds: &'a Seeds,
    began_ns: u64,
    /// How many seeds were taken.
    next: AtomicU64,
}

impl Running<'_> {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(now_ns() - self.began_ns)
    }

    fn is_over(&self) -> bool {
        let limit = self.seeds.seconds.map(Duration::from_secs);
        limit.is_some_and(|limit| self.elapsed() >= limit)
    }

    fn work(&self, one: &impl Fn(u64)) {
        while !self.is_over() {
            // Relaxed: each number is taken once, whatever the order.
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.seeds.count {
                return;
            }
            one(self.seeds.first.wrapping_add(at));
        }
        // The thread that prints the progress ends then, too.
        self.next.store(self.seeds.count, Ordering::Relaxed);
    }

    /// Says on the standard error how far it is, until all seeds are taken.
    fn say(&self, progress: impl Fn() -> String, is_over: impl Fn() -> bool) {
        let mut said = Duration::ZERO;
        loop {
            let taken = self.next.load(Ordering::Relaxed);
            if taken >= self.seeds.count || is_over() {
                return;
            }
            thread::park_timeout(Duration::from_millis(50));
            if self.elapsed() >= said + PROGRESS {
                said = self.elapsed();
                let (count, seconds) = (self.seeds.count, said.as_secs());
                let line = format!("{taken} of {count} seeds, {}, {seconds} s", progress());
                let mut stderr = io::stderr().lock();
                let end = if stderr.is_terminal() { "\r" } else { "\n" };
                // A line that cannot be written is not needed.
                let _ = write!(stderr, "{line}{end}");
            }
        }
    }
}
