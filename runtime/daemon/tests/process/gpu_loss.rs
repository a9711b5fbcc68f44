//! A GPU that the process can no longer use: every frame has a verdict, the daemon ends with a code of its own, and the next
//! one serves the same clients.
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use emulated_cuda::{CallFault, Config, ENVIRONMENT, HungReset, LaunchFault};
use punctual_client::{Client, Crop, Failure, Options, PixelFormat, Rejection, Verdict};
use punctual_daemon::{Process, Report, Termination};
use punctual_platform::clock::now_ns;

use crate::emulated_gpu::{profiled, turn};
use crate::gpu::{AFTER_THE_TRIAL, GPU_ONLY, both, faulty, patient};
use crate::gpu_division::{BEST_EFFORT, partitioned};
use crate::support::{Folder, LIMIT, assert_accounts, spawn};

/// From the first frame that fails to the end of the process: a reset that does not return, the drain, and a busy machine.
const END: Duration = Duration::from_secs(10);

fn soon() -> Option<u64> {
    Some(now_ns() + LIMIT.as_nanos() as u64)
}

/// A daemon that is not started again when it ends, and what it says. It has loaded everything.
fn start(folder: &Folder) -> Process {
    let mut command = folder.command();
    command.env_remove("NOTIFY_SOCKET").stderr(Stdio::piped());
    let daemon = spawn(command);
    let until_ns = soon();
    while Report::live(&folder.socket()).map_or(true, |report| report.start.loading) {
        assert!(Some(now_ns()) < until_ns, "it does not serve");
    }
    daemon
}

/// Its code and its words, once it has ended by itself.
fn end(mut daemon: Process) -> (Option<i32>, String) {
    // Until it ends, and its end of the pipe with it.
    let words = daemon.words().expect("text");
    (daemon.wait().expect("it ends").code(), words)
}

/// A client, and what it was told: each submission once.
struct Camera {
    client: Client,
    told: BTreeSet<u64>,
    submitted: u64,
}

impl Camera {
    fn open(folder: &Folder, task: &str) -> Self {
        let options = Options::new(folder.socket(), task, PixelFormat::Rgb8);
        Self {
            client: options.open(soon()).expect("a place"),
            told: BTreeSet::new(),
            submitted: 0,
        }
    }

    fn submit(&mut self) {
        let slot = self.client.slot(soon()).expect("a daemon").expect("a slot");
        slot.submit(now_ns(), None, Crop { x: 0, y: 0 })
            .expect("in order");
        self.submitted += 1;
    }

    fn verdict(&mut self) -> Verdict {
        let response = self.client.verdict(soon()).expect("a daemon");
        let response = response.expect("in time");
        assert!(self.told.insert(response.sequence), "a second verdict");
        response.verdict
    }

    /// All that are still to come.
    fn verdicts(&mut self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        while self.client.unanswered() > 0 {
            verdicts.push(self.verdict());
        }
        verdicts
    }

    /// Submits until an answer is on time.
    fn until_on_time(&mut self) {
        let until_ns = soon();
        loop {
            self.submit();
            if self.verdicts().contains(&Verdict::OnTime) {
                return;
            }
            assert!(Some(now_ns()) < until_ns, "no answer is on time");
        }
    }

    fn assert_complete(&self) {
        assert_eq!(self.told.len() as u64, self.submitted);
    }
}

const FAILED: Verdict = Verdict::Failed(Failure::Device);

/// Submits frames to the task on the GPU, two at a time, until one fails; the verdicts of that round.
fn until_one_fails(far: &mut Camera, mut at_each_round: impl FnMut()) -> Vec<Verdict> {
    let until_ns = soon();
    loop {
        at_each_round();
        far.submit();
        far.submit();
        let verdicts = far.verdicts();
        if verdicts.contains(&FAILED) {
            return verdicts;
        }
        assert!(Some(now_ns()) < until_ns, "nothing fails: {verdicts:?}");
    }
}

/// How a daemon ends that has lost its GPU: with its code, everything answered, and words about it.
fn assert_lost(folder: &Folder, daemon: Process, why: &str) {
    let (code, words) = end(daemon);
    let lost = i32::from(Termination::DeviceLost.code());
    assert_eq!(code, Some(lost), "{words}");
    assert!(words.contains("can no longer use the GPU"), "{words}");
    let last = words.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains("start it again"), "{words}");
    let report = Report::read(&folder.path("report.json")).expect("a report");
    assert_accounts(&report);
    let gpu = report.gpu.expect("a GPU");
    let reason = gpu.lost.as_deref().unwrap_or_default();
    assert!(reason.contains(why), "{gpu:?}");
}

#[test]
fn a_fault_that_asks_for_a_new_process_ends_the_daemon_and_clients_go_on_with_the_next() {
    let _turn = turn();
    let mut folder = profiled(&both(), &faulty(AFTER_THE_TRIAL, Some(700)));
    let daemon = start(&folder);
    let (mut far, mut near) = (Camera::open(&folder, "far"), Camera::open(&folder, "near"));
    // The cores have work all the while; what they were given in the last round may still be open when the GPU fails.
    until_one_fails(&mut far, || {
        near.verdicts();
        near.submit();
        near.submit();
    });
    let failed_ns = now_ns();
    // What the cores were given is answered by them, before or during the drain.
    for verdict in near.verdicts() {
        let expected = [
            Verdict::OnTime,
            Verdict::Rejected(Rejection::NoSlack),
            Verdict::Rejected(Rejection::Quota),
        ];
        assert!(expected.contains(&verdict), "{verdict:?}");
    }
    assert_lost(&folder, daemon, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert!(now_ns() - failed_ns < END.as_nanos() as u64);

    mend(&mut folder);
    let _next = start(&folder);
    far.until_on_time();
    near.until_on_time();
    for camera in [&far, &near] {
        camera.assert_complete();
        assert_eq!(camera.client.connections(), 2);
    }
}

/// The driver of the next daemon goes wrong nowhere.
fn mend(folder: &mut Folder) {
    let mut variables = folder.environment.iter_mut();
    let driver = variables.find(|(name, _)| *name == ENVIRONMENT);
    driver.expect("the driver's").1 = OsString::from(Config::default().to_string());
}

#[test]
fn a_fault_with_four_partitions_at_work_is_a_verdict_for_each_frame_and_the_next_daemon_serves_all()
{
    let _turn = turn();
    let names = ["a", "b", "c", "d"];
    let manifest = partitioned(&[2; 4], &names.map(|name| (name, BEST_EFFORT)), "");
    let mut folder = profiled(&manifest, &faulty(AFTER_THE_TRIAL, Some(700)));
    let daemon = start(&folder);
    let mut cameras = names.map(|name| Camera::open(&folder, name));
    let until_ns = soon();
    let mut failed = false;
    while !failed {
        for camera in &mut cameras {
            camera.submit();
            camera.submit();
        }
        for camera in &mut cameras {
            let verdicts = camera.verdicts();
            let expected = [Verdict::OnTime, FAILED];
            assert!(
                verdicts.iter().all(|v| expected.contains(v)),
                "{verdicts:?}"
            );
            failed |= verdicts.contains(&FAILED);
        }
        assert!(Some(now_ns()) < until_ns, "nothing fails");
    }
    assert_lost(&folder, daemon, "CUDA_ERROR_ILLEGAL_ADDRESS");
    mend(&mut folder);
    let _next = start(&folder);
    for camera in &mut cameras {
        camera.until_on_time();
        camera.assert_complete();
        assert_eq!(camera.client.connections(), 2);
    }
}

#[test]
fn a_hang_whose_reset_blocks_ends_the_daemon_in_bounded_time() {
    let _turn = turn();
    let driver = Config {
        hung_reset: HungReset::Blocks,
        ..faulty(AFTER_THE_TRIAL, None)
    };
    let folder = profiled(&patient(), &driver);
    let daemon = start(&folder);
    let mut far = Camera::open(&folder, "far");
    let verdicts = until_one_fails(&mut far, || ());
    let failed_ns = now_ns();
    assert!(
        verdicts[1..]
            .iter()
            .all(|verdict| *verdict != Verdict::OnTime),
        "what waited behind it fails with it: {verdicts:?}"
    );
    assert_lost(&folder, daemon, "has not returned from a restart");
    assert!(now_ns() - failed_ns < END.as_nanos() as u64);
    far.assert_complete();
}

#[test]
fn a_daemon_that_is_told_to_end_does_not_wait_for_a_gpu_that_hangs() {
    let _turn = turn();
    let driver = Config {
        hung_reset: HungReset::Blocks,
        ..faulty(AFTER_THE_TRIAL, None)
    };
    let folder = profiled(&patient(), &driver);
    let daemon = start(&folder);
    let mut far = Camera::open(&folder, "far");
    let until_ns = soon();
    let is_hung = |far: &mut Camera| {
        far.submit();
        // Longer than a frame takes, shorter than it takes until a hang is noticed.
        let response = far.client.verdict(Some(now_ns() + 5_000_000_000));
        response.expect("a daemon").is_none()
    };
    while !is_hung(&mut far) {
        assert!(Some(now_ns()) < until_ns, "nothing hangs");
    }
    let told_ns = now_ns();
    daemon.terminate();
    let (code, words) = end(daemon);
    assert!(now_ns() - told_ns < END.as_nanos() as u64);
    let exceeded = i32::from(Termination::DrainExceeded.code());
    assert_eq!(code, Some(exceeded), "{words}");
}

#[test]
fn two_restarts_that_fail_end_the_daemon() {
    let _turn = turn();
    // The start retains the context once.
    let refused = |nth| CallFault {
        name: "cuDevicePrimaryCtxRetain".to_owned(),
        nth,
        code: 2,
    };
    let driver = Config {
        call_faults: vec![refused(1), refused(2)],
        launch_faults: vec![LaunchFault {
            nth: AFTER_THE_TRIAL,
            code: Some(710),
        }],
        ..Config::default()
    };
    let folder = profiled(GPU_ONLY, &driver);
    let daemon = start(&folder);
    let mut far = Camera::open(&folder, "far");
    until_one_fails(&mut far, || ());
    assert_lost(&folder, daemon, "2 restarts of the device failed");
    far.assert_complete();
}

#[test]
fn a_daemon_that_a_service_manager_started_leaves_it_to_the_manager() {
    let _turn = turn();
    let folder = profiled(GPU_ONLY, &faulty(AFTER_THE_TRIAL, Some(719)));
    let daemon = crate::support::Daemon::start_as(folder, |command| {
        command.stderr(Stdio::piped());
    });
    let mut far = Camera::open(&daemon.folder, "far");
    until_one_fails(&mut far, || ());
    let (status, words, report) = daemon.end_with_words();
    assert_eq!(status.code(), Some(9), "{words}");
    assert!(words.contains("can no longer use the GPU"), "{words}");
    assert!(!words.contains("start it again"), "{words}");
    assert_accounts(&report);
}
