//! A task that is asked too much hands frames to another, whose network answers for it.
use crate::support::{Daemon, LIMIT, assert_accounts, connect, result, submit};
use punctual_ipc::{PixelFormat, ResultRecord};
use punctual_platform::clock;

/// Frames sent at once: more than both queues hold together.
const BURST: usize = 6;

/// A task with one place in its queue, and one that takes on what that has no place for; on a core
/// each, if the machine has two.
fn manifest() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let task = |name: &str, partition: &str, queue: u32, offload: &str| {
        format!(
            "[[model]]\nname = \"{name}\"\npackage = \"signs.punctual\"\n\n[[task]]\nname = \
             \"{name}\"\nmodel = \"{name}\"\npartition = \"{partition}\"\ncriticality = \
             \"real-time\"\nrate_hz = 10\ndeadline_ms = 500\nreserved = false\nqueue_depth = {queue}\n\
             slots = 8\n{offload}frame = {{ format = \"rgb8\", width = 320, height = 240, crop = [192, \
             192] }}\n\n"
        )
    };
    let partition = |name, core| format!("[[partition]]\nname = \"{name}\"\ncores = [{core}]\n\n");
    let partitions = partition("first", 0);
    let (partitions, on) = match cores {
        1 => (partitions, "first"),
        _ => (partitions + &partition("second", 1), "second"),
    };
    format!(
        "[daemon]\nboard = \"host\"\n\n{partitions}{}{}",
        task("own", "first", 1, "offload_to = \"taker\"\n"),
        task("taker", on, 2, ""),
    )
}

#[test]
fn frames_that_their_own_task_has_no_place_for_are_answered_alike_by_another() {
    let daemon = Daemon::start(&manifest());
    let mut client = connect(&daemon.socket(), "own", PixelFormat::Rgb8);
    let limit = clock::now_ns() + LIMIT.as_nanos() as u64;
    let mut answered: Vec<ResultRecord> = Vec::new();
    // A burst that the daemon kept up with says nothing.
    while daemon.report().tasks[0].offloaded == 0 {
        assert!(
            clock::now_ns() < limit,
            "nothing offloaded: {:#?}",
            daemon.report()
        );
        for _ in 0..BURST {
            submit(&mut client);
        }
        let results = (0..BURST).map(|_| result(&mut client));
        answered.extend(results.filter(|record| record.answer.is_some()));
    }
    drop(client);
    let report = daemon.stop();
    assert_accounts(&report);
    let (own, taker) = (&report.tasks[0], &report.tasks[1]);
    assert_eq!((taker.submitted, taker.on_time, taker.offloaded), (0, 0, 0));
    assert_eq!(own.on_time + own.late, answered.len() as u64);
    assert!(answered.len() as u64 > own.offloaded);
    // The same picture, prepared for either network, which are one: an exit says the same.
    for exit in 0..own.exits.len() {
        let answers = answered.iter().filter_map(|record| record.answer);
        let mut here = answers.filter(|answer| usize::from(answer.exit) == exit);
        let first = here.next();
        assert!(here.all(|answer| Some(answer) == first), "{answered:?}");
    }
}
