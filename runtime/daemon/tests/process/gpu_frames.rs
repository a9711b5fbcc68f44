//! The GPU prepares the frames of a task, on the emulated driver: answers are right, nothing is copied, and no client harms
//! another by what it does to its frames.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use emulated_cuda::Config;
use punctual_ipc::internals::Fields;
use punctual_ipc::{Answer, ClientChannel, Crop, PixelFormat, Rejection, ResultRecord, Verdict};
use punctual_platform::clock;

use crate::emulated_gpu::{profiled, turn};
use crate::gpu::{AFTER_THE_TRIAL, GPU_ONLY, both, fails_and_recovers, faulty};
use crate::support::{Daemon, LIMIT, assert_accounts, connect, result};

const FRAMES: u64 = 3;

/// Bytes of a crop of 24x24.
const CROP_BYTES: u64 = 24 * 24 * 3;

fn prepared_by_gpu(manifest: &str) -> String {
    manifest.replacen(
        "name = \"far\"\nmodel",
        "name = \"far\"\nprepare = \"gpu\"\nmodel",
        1,
    )
}

/// The end of a frame of many colours that is taken on.
fn answer(client: &mut ClientChannel, crop: Crop) -> ResultRecord {
    let until = clock::now_ns() + LIMIT.as_nanos() as u64;
    loop {
        let mut slot = client.slot().expect("a free slot");
        for (at, byte) in slot.pixels().iter_mut().enumerate() {
            *byte = (at * 89 % 251) as u8;
        }
        slot.submit(clock::now_ns(), None, crop).expect("submitted");
        let result = result(client);
        if result.verdict != Verdict::Rejected(Rejection::NoSlack) {
            return result;
        }
        assert!(clock::now_ns() < until, "no frame is taken on");
    }
}

/// Sets the flag at its end, also if a test fails.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes to all of a client's frames until the flag is set.
fn write_until(done: &AtomicBool, fields: &Fields) {
    let first = fields.vectors.next_multiple_of(4096);
    let last = fields.requests.bytes() - 8;
    let mut rounds = 0_u64;
    while !done.load(Ordering::Relaxed) {
        rounds += 1;
        for at in (first..last).step_by(8) {
            let value = (at as u64 ^ rounds).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            fields.requests.write_word(at, value);
        }
    }
}

#[test]
fn a_client_whose_frames_the_gpu_prepares_gets_the_answers_of_one_whose_frames_cores_prepare() {
    let _turn = turn();
    let manifest = prepared_by_gpu(&both());
    let daemon = Daemon::start_in(profiled(&manifest, &Config::default()));
    let mut far = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    let mut near = connect(&daemon.socket(), "near", PixelFormat::Rgb8);
    for frame in 0..FRAMES as u32 {
        let crop = Crop { x: frame, y: 1 };
        let [near, far] = [&mut near, &mut far].map(|client| answer(client, crop));
        assert_eq!(
            (near.verdict, far.verdict),
            (Verdict::OnTime, Verdict::OnTime)
        );
        let [near, far] = [near, far].map(|result| result.answer.expect("answered"));
        assert_eq!((near.exit, near.class), (far.exit, far.class));
        let confidence = |answer: Answer| answer.confidence.expect("a classifier");
        let difference = confidence(near).abs_diff(confidence(far));
        assert!(f32::from(difference) / 65_535.0 < 0.02, "{near:?} {far:?}");
    }
    drop((near, far));
    let report = daemon.stop();
    assert_accounts(&report);
    let of = |task: &str| {
        let mut tasks = report.tasks.iter();
        let task = tasks.find(|of| of.name == task).expect("of the manifest");
        (task.prepared, task.prepared_by_gpu, task.copied_bytes)
    };
    assert_eq!(of("far"), (FRAMES, FRAMES, 0));
    assert_eq!(of("near"), (FRAMES, 0, 0));
}

#[test]
fn frames_that_the_gpu_cannot_read_where_they_lie_are_copied_and_counted() {
    let _turn = turn();
    let manifest = prepared_by_gpu(GPU_ONLY);
    let folder = profiled(&manifest, &Config::default());
    let directory = folder.path("recordings");
    let recorder =
        format!("[recorder]\nmode = \"all\"\npayloads = \"crops\"\ndirectory = {directory:?}\n");
    folder.write("manifest.toml", format!("{recorder}{manifest}").as_bytes());
    let daemon = Daemon::start_in(folder);
    let mut far = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    let result = answer(&mut far, Crop { x: 5, y: 3 });
    assert_eq!(result.verdict, Verdict::OnTime);
    drop(far);
    let report = daemon.stop();
    let task = &report.tasks[0];
    assert_eq!((task.prepared, task.prepared_by_gpu), (1, 1));
    // Out of the slot, and into memory of the driver's.
    assert_eq!(task.copied_bytes, 2 * CROP_BYTES);
}

#[test]
fn what_the_driver_cannot_read_in_place_is_copied_which_is_said_once_a_task() {
    let _turn = turn();
    let driver = Config {
        host_register_read_only: false,
        ..Config::default()
    };
    let folder = profiled(&prepared_by_gpu(GPU_ONLY), &driver);
    let daemon = Daemon::start_as(folder, |command| {
        command.stderr(Stdio::piped());
    });
    for _client in 0..2 {
        let mut far = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
        let result = answer(&mut far, Crop { x: 5, y: 3 });
        assert_eq!(result.verdict, Verdict::OnTime);
        drop(far);
        daemon.report_when(|report| report.clients.in_use == 0);
    }
    daemon.signal("TERM");
    let (status, words, report) = daemon.end_with_words();
    assert_eq!(status.code(), Some(0), "{words}");
    let said =
        "task far: frames are copied before the GPU prepares them: the driver registers no memory";
    assert_eq!(words.matches(said).count(), 1, "{words}");
    let task = &report.tasks[0];
    assert_eq!(task.prepared_by_gpu, 2);
    assert_eq!(task.copied_bytes, 2 * CROP_BYTES);
}

#[test]
fn a_client_that_writes_to_its_frames_while_the_gpu_reads_them_disturbs_nobody() {
    let _turn = turn();
    let manifest = prepared_by_gpu(&both());
    let daemon = Daemon::start_in(profiled(&manifest, &Config::default()));
    let mut restless = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    let mut near = connect(&daemon.socket(), "near", PixelFormat::Rgb8);
    let crop = Crop { x: 2, y: 1 };
    let quiet = answer(&mut near, crop).answer.expect("answered");
    let (fields, done) = (Fields::of(&restless), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        scope.spawn(|| write_until(&done, &fields));
        for _ in 0..FRAMES {
            assert!(answer(&mut restless, crop).answer.is_some());
            let undisturbed = answer(&mut near, crop).answer.expect("answered");
            assert_eq!(undisturbed.class, quiet.class);
            assert_eq!(undisturbed.confidence, quiet.confidence);
        }
    });
    drop((restless, near));
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(report.channel_faults, 0, "{report:?}");
    let far = report.tasks.iter().find(|task| task.name == "far");
    let far = far.expect("of the manifest");
    assert_eq!((far.prepared_by_gpu, far.failed.total()), (FRAMES, 0));
    let gpu = report.gpu.expect("a GPU");
    assert_eq!((gpu.faults, gpu.restarts), (0, 0), "{gpu:?}");
}

#[test]
fn after_a_fault_of_the_gpu_frames_are_prepared_and_answered_again() {
    let _turn = turn();
    let driver = faulty(AFTER_THE_TRIAL, Some(710));
    fails_and_recovers(&prepared_by_gpu(GPU_ONLY), &driver);
}
