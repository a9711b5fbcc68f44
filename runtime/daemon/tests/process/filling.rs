//! Best-effort launches on the TPCs that real-time ones leave, on the emulated GPU.

use std::collections::BTreeSet;

use crate::division::{launches, logging};
use crate::emulated_gpu::{FILLED, profiled, turn};
use crate::support::{Daemon, assert_accounts, connect, result, submit};
use emulated_cuda::LoggedLaunch;
use punctual_daemon::Report;
use punctual_ipc::{PixelFormat, Verdict};

#[test]
fn best_effort_launches_fill_what_real_time_ones_leave_and_no_promise_is_broken() {
    let _turn = turn();
    // What computes in the emulated GPU's place has no priority: on a machine that is busy with other things, launches may not stop
    // when they are told to, which is a fault of the GPU.
    let served = (0..3).find_map(|_| served());
    let Served { report, launches } = served.expect("a GPU that stops in time");
    assert_accounts(&report);
    let gpu = report.gpu.expect("a GPU");
    assert!(gpu.filled > 0, "{gpu:?}");
    assert_eq!(gpu.tpcs, 4, "those that partitions have for themselves");
    assert!(gpu.launches > gpu.filled, "{gpu:?}");
    // A stream for each: that of real-time work never left its TPCs.
    let streams: BTreeSet<u64> = launches.iter().map(|launch| launch.stream).collect();
    let stays = |stream: &&u64| {
        let mut of_stream = launches.iter().filter(|launch| launch.stream == **stream);
        of_stream.all(|launch| launch.sms.iter().all(|sm| *sm < 8))
    };
    assert_eq!(streams.len(), 2);
    assert!(streams.iter().any(|stream| stays(&stream)), "{launches:?}");
}

struct Served {
    report: Report,
    launches: Vec<LoggedLaunch>,
}

/// What a daemon says that has answered frames of both tasks on time; none if its GPU had a fault.
fn served() -> Option<Served> {
    let (driver, log) = logging("filling");
    let daemon = Daemon::start_in(profiled(FILLED, &driver));
    let process = daemon.pid();
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Rgb8);
    for _ in 0..6 {
        // Two frames wait for the filler all the time.
        submit(&mut watch);
        submit(&mut watch);
        submit(&mut front);
        let first = result(&mut front);
        let rest = [result(&mut watch), result(&mut watch)];
        if let Verdict::Failed(_) = first.verdict {
            return None;
        }
        assert_eq!(first.verdict, Verdict::OnTime);
        // They see the same picture.
        for filled in rest {
            if let Verdict::Failed(_) = filled.verdict {
                return None;
            }
            assert_eq!(filled.verdict, Verdict::OnTime);
            let class = |answer: Option<punctual_ipc::Answer>| answer.expect("answered").class;
            assert_eq!(class(filled.answer), class(first.answer));
        }
    }
    drop((front, watch));
    Some(Served {
        report: daemon.stop(),
        launches: launches(&log, process),
    })
}
