//! A manifest asks for TPCs: the daemon serves on the emulated driver, on the GPU alone and together with the
//! processor, also after faults of the GPU that a reset helps against; and says what is missing where it cannot.
//!
//! The emulated driver computes what the kernels compute. It says nothing about time.
use crate::emulated_gpu::{folder, profiled, profiled_of, turn};
use crate::support::{Daemon, Folder, LIMIT, assert_accounts, connect, result, submit};
use emulated_cuda::{Config, HungReset, LaunchFault};
use punctual_client::{Crop, Options};
use punctual_conformance::networks;
use punctual_ipc::{Answer, ClientChannel, Failure, PixelFormat, Rejection, ResultRecord, Verdict};
use punctual_model::{AnswerKind, Calibration, Operator, Output, Package, reference};
use punctual_platform::clock;
use punctual_types::{Element, View};

/// One task on all TPCs. Generous: an emulated GPU is slow.
pub const GPU_ONLY: &str = r#"
[daemon]
board = "emulated"

[[model]]
name = "far"
package = "small.punctual"

[[partition]]
name = "gpu"
tpcs = 8

[[task]]
name = "far"
model = "far"
partition = "gpu"
criticality = "real-time"
rate_hz = 0.1
deadline_ms = 20_000
mandatory_exit = 1
threshold = 1.0
queue_depth = 8
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }
"#;

/// With a leader that sleeps: a hang is noticed after 16 seconds.
pub fn patient() -> String {
    GPU_ONLY.replacen("[daemon]", "[daemon]\nleader_wait = \"sleep\"", 1)
}

/// And one on a core, of the same package; both are led from, or run on, cores that there are.
pub fn both() -> String {
    let near = r#"
[[model]]
name = "near"
package = "small.punctual"

[[partition]]
name = "core"
cores = [0]

[[task]]
name = "near"
model = "near"
partition = "core"
criticality = "real-time"
rate_hz = 0.1
deadline_ms = 20_000
mandatory_exit = 1
threshold = 1.0
queue_depth = 8
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }
"#;
    format!(
        "{}{near}",
        GPU_ONLY.replacen("tpcs = 8", "tpcs = 8\ncores = [1]", 1)
    )
}

/// A segmenter: each exit also outputs the tensor that its head reads, all channels of all pixels.
fn segmenter() -> Package {
    let mut network = networks::segments(5);
    network.answer = AnswerKind::None;
    network.classes.clear();
    let tensors = network.tensors.clone();
    for stage in &mut network.stages {
        let is_map = |operator: &&Operator| tensors[operator.output.index()].width > 1;
        let last = stage.operators.iter().rfind(is_map).expect("a map").output;
        let sides = tensors[last.index()].sides();
        let mask = Output {
            name: "mask".to_owned(),
            tensor: last,
            shape: sides.to_vec(),
            view: View::plain(sides),
            element: Element::F32,
        };
        let exit = stage.exit.as_mut().expect("an exit");
        exit.outputs.push(mask);
        exit.scores = None;
    }
    Package::new(network, Calibration::default()).expect("a valid network")
}

/// The verdict on the next frame that is taken on. A stage takes an emulated GPU so long that the share
/// of time for real-time work is spent, and frames are refused until it has grown again.
fn verdict(client: &mut ClientChannel) -> Verdict {
    answer(client).verdict
}

/// The same, and the answer.
fn answer(client: &mut ClientChannel) -> ResultRecord {
    let until = clock::now_ns() + LIMIT.as_nanos() as u64;
    loop {
        submit(client);
        let result = result(client);
        if result.verdict != Verdict::Rejected(Rejection::NoSlack) {
            return result;
        }
        assert!(clock::now_ns() < until, "no frame is taken on");
    }
}

#[test]
fn frames_of_a_task_on_the_gpu_are_answered_by_it() {
    let _turn = turn();
    let daemon = Daemon::start_in(profiled(GPU_ONLY, &Config::default()));
    let mut far = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    for _ in 0..3 {
        assert_eq!(verdict(&mut far), Verdict::OnTime);
    }
    let live = daemon.report();
    assert!(live.device.starts_with("cuda ("), "{}", live.device);
    drop(far);
    let report = daemon.stop();
    assert_eq!(report.tasks[0].exits, [0, 3], "the last exit of two");
    let partition = &report.partitions[0];
    assert_eq!((partition.device.as_str(), partition.units), ("cuda", 8));
    let gpu = report.gpu.expect("a GPU");
    assert!(gpu.launches > 0);
    assert_eq!((gpu.tpcs, gpu.faults, gpu.restarts), (8, 0, 0));
}

#[test]
fn a_partition_of_cores_and_one_of_tpcs_serve_one_plan_and_answer_alike() {
    let _turn = turn();
    let daemon = Daemon::start_in(profiled(&both(), &Config::default()));
    let mut far = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    let mut near = connect(&daemon.socket(), "near", PixelFormat::Rgb8);
    for _ in 0..3 {
        let (near, far) = (answer(&mut near), answer(&mut far));
        assert_eq!(
            (near.verdict, far.verdict),
            (Verdict::OnTime, Verdict::OnTime)
        );
        let (near, far) = (
            near.answer.expect("answered"),
            far.answer.expect("answered"),
        );
        assert_eq!((near.exit, near.class), (far.exit, far.class));
        // One computes in halves.
        let confidence = |answer: Answer| answer.confidence.expect("a classifier");
        let difference = confidence(near).abs_diff(confidence(far));
        assert!(f32::from(difference) / 65_535.0 < 0.02, "{near:?} {far:?}");
    }
    drop((near, far));
    let report = daemon.stop();
    let actions: Vec<u64> = report.partitions.iter().map(|p| p.finished).collect();
    assert_eq!(actions, [6, 6], "two stages a frame on each");
    assert!(report.device.contains(") and cuda ("), "{}", report.device);
    assert!(report.gpu.is_some());
}

#[test]
fn a_segmenter_on_the_gpu_gives_its_masks() {
    let _turn = turn();
    let package = segmenter();
    let network = package.network();
    let manifest = GPU_ONLY.replace("threshold = 1.0\n", "");
    let daemon = Daemon::start_in(profiled_of(&package, &manifest, &Config::default()));
    let soon = || Some(clock::now_ns() + LIMIT.as_nanos() as u64);
    let options = Options::new(daemon.socket(), "far", PixelFormat::Rgb8);
    let mut client = options.open(soon()).expect("a place");
    for grey in [10_u8, 200] {
        // All pixels of the frame are equal, so all of the input are.
        let (mean, std) = network.input.form.normalisation();
        let plane = (network.input.height * network.input.width) as usize;
        let value = |channel: usize| (f32::from(grey) / 255.0 - mean[channel]) / std[channel];
        let image: Vec<f32> = (0..3)
            .flat_map(|channel| std::iter::repeat_n(value(channel), plane))
            .collect();
        let expected = reference::run_all(network, &[&image]).pop().flatten();
        let expected = expected.expect("an exit").outputs.remove(1);
        let response = loop {
            let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
            slot.pixels().fill(grey);
            slot.submit(clock::now_ns(), None, Crop { x: 0, y: 0 })
                .expect("in order");
            let verdict = client.verdict(soon());
            let response = verdict.expect("a daemon").expect("in time");
            if response.verdict != Verdict::Rejected(Rejection::NoSlack) {
                break response;
            }
        };
        assert_eq!(response.verdict, Verdict::OnTime, "{response:?}");
        let outputs = response.outputs().expect("by default all");
        assert!(outputs.is_finite());
        let mask = outputs.get("mask").expect("an output");
        let mask = mask.as_f32().expect("floats");
        assert_eq!(mask.len(), expected.len());
        let largest = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let alike = |(a, b): (&f32, &f32)| (a - b).abs() < 0.01 * largest;
        assert!(mask.iter().zip(&expected).all(alike), "in halves");
    }
    drop(client);
    assert!(daemon.stop().gpu.is_some());
}

/// A launch that will break its context, or hang.
/// A launch of the daemon's own: the trial of masks, in a process that counts anew, has fewer than 160.
pub const AFTER_THE_TRIAL: u64 = 200;

pub fn faulty(nth: u64, code: Option<u32>) -> Config {
    Config {
        launch_faults: vec![LaunchFault { nth, code }],
        ..Config::default()
    }
}

/// Frames one by one until one fails; then until one is answered on time again.
pub fn fails_and_recovers(manifest: &str, driver: &Config) {
    let daemon = Daemon::start_in(profiled(manifest, driver));
    let mut far = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    let failed = Verdict::Failed(Failure::Device);
    // While the device is restarted, frames fail as fast as they come.
    let mut next_but = |usual: Verdict| {
        let until = clock::now_ns() + LIMIT.as_nanos() as u64;
        loop {
            let verdict = verdict(&mut far);
            if verdict != usual {
                return verdict;
            }
            assert!(clock::now_ns() < until, "still {usual:?}");
        }
    };
    assert_eq!(next_but(Verdict::OnTime), failed);
    assert_eq!(next_but(failed), Verdict::OnTime);
    assert_eq!(verdict(&mut far), Verdict::OnTime);
    drop(far);
    let report = daemon.stop();
    assert_accounts(&report);
    let gpu = report.gpu.expect("a GPU");
    assert_eq!((gpu.faults, gpu.restarts), (1, 1), "{gpu:?}");
}

#[test]
fn a_failed_assertion_fails_frames_and_later_ones_are_on_time_again() {
    let _turn = turn();
    fails_and_recovers(GPU_ONLY, &faulty(AFTER_THE_TRIAL, Some(710)));
}

#[test]
fn a_kernel_that_hangs_fails_frames_and_later_ones_are_on_time_again_where_a_reset_ends_it() {
    let _turn = turn();
    let driver = Config {
        hung_reset: HungReset::Ends,
        ..faulty(AFTER_THE_TRIAL, None)
    };
    fails_and_recovers(&patient(), &driver);
}

/// The daemon's refusal, which must be one for lack of resources.
fn refused(folder: &Folder) -> String {
    let (code, words) = folder.refusal(&[]);
    assert_eq!(code, Some(5), "{words}");
    words
}

#[test]
fn without_a_gpu_the_daemon_says_so_and_does_not_start() {
    let _turn = turn();
    let none = Config {
        devices: 0,
        ..Config::default()
    };
    let words = refused(&folder(GPU_ONLY, &none));
    assert!(words.contains("CUDA_ERROR_NO_DEVICE"), "{words}");
}

#[test]
fn a_driver_without_a_call_that_is_needed_is_named_too_old() {
    let _turn = turn();
    let old = Config {
        hide: vec!["cuLaunchKernel".to_owned()],
        ..Config::default()
    };
    let words = refused(&folder(GPU_ONLY, &old));
    assert!(
        words.contains("no `cuLaunchKernel`") && words.contains("update it"),
        "{words}"
    );
}

#[test]
fn a_plan_that_does_not_fit_the_gpus_memory_is_refused() {
    let _turn = turn();
    let small = Config {
        integrated: false,
        memory_bytes: 1 << 20,
        ..Config::default()
    };
    let (code, words) = profiled(GPU_ONLY, &small).refusal(&[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(
        words.contains("of the GPU's memory, more than 1.0 MiB"),
        "{words}"
    );
}

#[test]
fn nothing_is_asked_of_a_driver_when_no_partition_is_on_the_gpu() {
    let _turn = turn();
    let broken = Config {
        devices: 0,
        hide: vec!["cuInit".to_owned()],
        ..Config::default()
    };
    let on_a_core = GPU_ONLY.replacen("tpcs = 8", "units = 1", 1);
    let daemon = Daemon::start_in(folder(&on_a_core, &broken));
    let mut near = connect(&daemon.socket(), "far", PixelFormat::Rgb8);
    assert_eq!(verdict(&mut near), Verdict::OnTime);
    drop(near);
    let report = daemon.stop();
    assert!(report.device.starts_with("cpu ("), "{}", report.device);
    assert_eq!(report.gpu, None);
}

/// The library of tests is one for cores, if there is any.
#[test]
fn an_engine_that_is_not_there_is_refused_with_what_is_missing() {
    let _turn = turn();
    let manifest = GPU_ONLY.replacen("tpcs = 8", "tpcs = 8\ndevice = \"ort-cuda\"", 1);
    let (code, words) = folder(&manifest, &Config::default()).refusal(&[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(
        words.contains("\"ort-cuda\" cannot be used here"),
        "{words}"
    );
    let missing = match punctual_device_ort::named() {
        Some(_) => "has no CUDAExecutionProvider",
        None => "set ORT_DYLIB_PATH",
    };
    assert!(words.contains(missing), "{words}");
}
