//! Who prepares a task's frames, and what that does to budgets.

use punctual_diagnostics::Rule;
use punctual_model::{PrepareOnDevice, PrepareProfile};
use punctual_plan::{
    MemoryItem, Needs, Plan, PlanInputs, Policies, PrepareRule, PreparedBy, Purpose,
};
use punctual_types::PixelFormat;

const GPU: &str = include_str!("../manifests/good/gpu.toml");

/// The preparation of `far` by the GPU, if it takes so long.
fn by_gpu(p99_ns: u64) -> PrepareOnDevice {
    let figures = PrepareProfile {
        p50_ns: p99_ns,
        p99_ns,
        max_ns: p99_ns,
        ..crate::fixture::prepare("rgb8", [192, 192])
    };
    PrepareOnDevice {
        units: 4,
        frames: vec![figures],
    }
}

/// The manifest, with `key` in the task of this name, and a profile of the GPU that has these figures.
fn inputs(task: &str, key: &str, figures: Option<PrepareOnDevice>) -> PlanInputs {
    let name = format!("name = \"{task}\"\n");
    let (before, after) = GPU.rsplit_once(&name).expect("a task");
    let manifest = format!("{before}{name}{key}\n{after}");
    let mut inputs = crate::fixture::inputs(&manifest, "gpu.toml");
    let profile = inputs.profiles[1].profile.as_mut().expect("the GPU's");
    profile.prepare_on_device.extend(figures);
    inputs
}

fn plan(inputs: &PlanInputs) -> Plan {
    Plan::build(inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

#[track_caller]
fn refused(inputs: &PlanInputs) -> PrepareRule {
    let errors = Plan::build(inputs).expect_err("something is wrong");
    let mut causes = errors.problems().iter().filter_map(|p| p.cause());
    let cause: &PrepareRule = causes.next().unwrap_or_else(|| panic!("{errors}"));
    assert!(!cause.help().is_empty() && !cause.rule().is_empty());
    cause.clone()
}

#[test]
fn cores_prepare_frames_unless_the_manifest_lets_the_gpu() {
    let plan = plan(&inputs("far", "", Some(by_gpu(10_000))));
    let by = |plan: &Plan| plan.tasks[1].arrival.prepared_by;
    assert_eq!(by(&plan), PreparedBy::Cores);
    assert!(!plan.to_json().contains("prepared_by"));
    assert!(!plan.to_string().contains("prepared by"));
}

#[test]
fn the_faster_of_both_prepares_where_the_manifest_says_so() {
    let by = |key: &str, p99_ns: u64| {
        let plan = plan(&inputs("far", key, Some(by_gpu(p99_ns))));
        plan.tasks[1].arrival
    };
    let measured = "prepare = \"measured\"";
    // A core takes 240 us, and both have the same margins.
    let faster = by(measured, 40_000);
    assert_eq!(faster.prepared_by, PreparedBy::Gpu);
    assert_eq!(faster.prepare.as_nanos(), 70_000);
    assert_eq!(by(measured, 500_000).prepared_by, PreparedBy::Cores);
    assert_eq!(
        by("prepare = \"gpu\"", 500_000).prepared_by,
        PreparedBy::Gpu
    );
    assert_eq!(
        by("prepare = \"cores\"", 40_000).prepared_by,
        PreparedBy::Cores
    );
}

#[test]
fn a_frame_on_the_gpu_makes_the_budgets_of_its_partition_longer_and_no_others() {
    let stage = |inputs: &PlanInputs, partition: usize| {
        let plan = plan(inputs);
        plan.scheduler.models[1].stages[0].times[0].on[partition].budget
    };
    let figures = Some(by_gpu(40_000));
    let by_cores = inputs("far", "", figures.clone());
    let by_gpu = inputs("far", "prepare = \"gpu\"", figures);
    let longer = stage(&by_gpu, 1).saturating_sub(stage(&by_cores, 1));
    // One frame can come while a stage runs.
    assert_eq!(longer.as_nanos(), 70_000);
    assert_eq!(stage(&by_gpu, 2), stage(&by_cores, 2));
    let plan = plan(&by_gpu);
    let text = plan.to_string();
    assert!(text.contains("TPCs of front"), "{text}");
    let frames = plan.memory.items.iter();
    let frames = frames.filter(|item| item.purpose == Purpose::GpuFrames);
    let bytes: Vec<u64> = frames.map(MemoryItem::total_bytes).collect();
    // The picture in halves, as the GPU shares the processor's memory, and a crop.
    assert_eq!(bytes, [192 * 192 * 3, 32 * 32 * 16]);
}

#[test]
fn what_the_gpu_cannot_prepare_is_refused_by_name() {
    let gpu = "prepare = \"gpu\"";
    let figures = || Some(by_gpu(40_000));
    let of = |task: &str| refused(&inputs(task, gpu, figures()));
    assert!(matches!(of("near"), PrepareRule::OtherDevice { .. }));
    assert!(matches!(of("watch"), PrepareRule::NoRate { .. }));
    let missing = refused(&inputs("far", "prepare = \"measured\"", None));
    assert!(matches!(missing, PrepareRule::NotProfiled { units: 4, .. }));
    for format in [PixelFormat::Gray8, PixelFormat::Uyvy] {
        let mut other = inputs("far", gpu, figures());
        let rgb = "mandatory_exit = 2\nbatch_max = 4\nframe = { format = \"rgb8\"";
        assert!(other.manifest_text.contains(rgb));
        let named = rgb.replace("rgb8", format.name());
        other.manifest_text = other.manifest_text.replacen(rgb, &named, 1);
        let channels = 3;
        assert_eq!(refused(&other), PrepareRule::NoKernel { format, channels });
    }
    let mut letterboxed = inputs("far", gpu, figures());
    let crop =
        "batch_max = 4\nframe = { format = \"rgb8\", width = 640, height = 480, crop = [192, 192]";
    assert!(letterboxed.manifest_text.contains(crop));
    letterboxed.manifest_text =
        letterboxed
            .manifest_text
            .replacen(crop, &format!("{crop}, fit = \"letterbox\""), 1);
    assert_eq!(refused(&letterboxed), PrepareRule::Letterboxed);
}

#[test]
fn frames_that_the_gpu_may_prepare_are_measured_there_too() {
    let text = inputs("far", "prepare = \"measured\"", None).manifest_text;
    let needs = Needs::of_manifest(
        &text,
        "gpu.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    );
    let needs = needs.expect("a valid manifest");
    let counts = |model: usize| {
        let model = &needs.models[model];
        (model.frames.len(), model.frames_on_device.len())
    };
    assert_eq!((counts(0), counts(1)), ((1, 0), (2, 1)));
}
