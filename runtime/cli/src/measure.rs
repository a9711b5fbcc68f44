//! Measuring a network on this machine, with a progress bar.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::num::NonZeroU8;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_core::Nanos;
use punctual_device::Provider;
use punctual_device::profile::{
    self, Effort, Frame, MeasureError, Other, Progress, Request, Subject,
};
use punctual_device::verify;
use punctual_device_cuda::{CudaProvider, StartError, look_stride};
use punctual_model::{Package, Profile, Verified};
use punctual_plan::{BATCH_SIZES, DeviceKind, FrameNeeds, FramePlan, ModelNeeds, Needs};
use punctual_platform::{affinity, clock, output};

use crate::spans::Spans;

/// What a manifest needs to be measured of one package, whatever models are made of it.
pub struct PackageNeeds {
    pub package: String,
    /// The first model of it.
    pub name: String,
    /// By device; none where there are no stages to measure.
    pub sizes: BTreeMap<DeviceKind, Sizes>,
    /// Frames that the processor prepares for any of them.
    pub frames: Vec<FrameNeeds>,
    /// Whether weights of any come and go.
    pub paged: bool,
    /// The pattern that found it, if one did.
    pub pattern: Option<String>,
}

impl PackageNeeds {
    /// The sizes to measure on a device; none if there is nothing to measure there.
    pub fn on(&self, device: DeviceKind) -> Sizes {
        self.sizes.get(&device).cloned().unwrap_or_default()
    }
}

/// At which sizes to measure stages, rising.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub batches: Vec<u8>,
    pub units: Vec<u8>,
    /// Whether to measure single launches, too.
    pub launches: bool,
    /// Frames that the device may prepare.
    pub frames: Vec<FrameNeeds>,
}

impl Sizes {
    /// All of them, if that is asked for and any were wanted.
    pub fn every_if(&mut self, every: bool, units: RangeInclusive<u8>) {
        if every && !self.units.is_empty() {
            self.batches = BATCH_SIZES.to_vec();
            self.units = units.collect();
        }
    }

    fn add(&mut self, batches: &[u8], units: &[u8]) {
        for (all, more) in [(&mut self.batches, batches), (&mut self.units, units)] {
            all.extend_from_slice(more);
            all.sort_unstable();
            all.dedup();
        }
    }
}

/// The needs of each package, in the manifest's order: a profile is of a package, not of a model.
pub fn by_package(models: &[ModelNeeds]) -> Vec<PackageNeeds> {
    let mut packages: Vec<PackageNeeds> = Vec::new();
    for model in models {
        let known = packages.iter().position(|p| p.package == model.package);
        let position = known.unwrap_or_else(|| {
            packages.push(PackageNeeds {
                package: model.package.clone(),
                name: model.name.clone(),
                sizes: BTreeMap::new(),
                frames: Vec::new(),
                paged: false,
                pattern: model.pattern.clone(),
            });
            packages.len() - 1
        });
        let needs = &mut packages[position];
        let sizes = needs.sizes.entry(model.device);
        let sizes = sizes.or_default();
        sizes.add(&model.batches, &model.units);
        sizes.launches |= model.launches;
        let new = model.frames_on_device.iter();
        let new = new.filter(|frame| !sizes.frames.contains(frame));
        let new: Vec<FrameNeeds> = new.copied().collect();
        sizes.frames.extend(new);
        let new = model.frames.iter().filter(|f| !needs.frames.contains(f));
        let new: Vec<FrameNeeds> = new.copied().collect();
        needs.frames.extend(new);
        needs.paged |= model.paged;
    }
    packages
}

/// What to measure of a package so that a plan can be made from the manifest that needs it: its stages
/// at `sizes`. `direct`: with the general solution of every operator, without choosing any.
pub fn request(needs: &Needs, sizes: &Sizes, effort: Effort, direct: bool) -> Request {
    let power_mode = needs.power_mode.as_deref().unwrap_or("default");
    Request {
        board: needs.board.clone(),
        power_mode: power_mode.to_owned(),
        batches: sizes.batches.clone(),
        units: sizes.units.clone(),
        beside: Vec::new(),
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        core: affinity::available_cores()
            .unwrap_or_default()
            .first()
            .copied(),
        effort,
        interruptions: effort.interruptions(),
        launches: sizes.launches,
        direct,
    }
}

/// The sizes of all partitions of a device, to measure stages with busy neighbours.
pub fn partitions_on(device: DeviceKind, needs: &Needs) -> Vec<u8> {
    let partitions = needs.partitions.iter();
    let on_device = partitions.filter(|partition| partition.device == device);
    on_device.map(|partition| partition.units).collect()
}

/// Frames that are prepared for the network of a package.
pub fn frames(wanted: &[FrameNeeds], package: &Package) -> Vec<Frame> {
    let plans = wanted.iter();
    let plans = plans.map(|frame| frame.with(&package.network().input));
    let frame = |plan: FramePlan| Frame {
        layout: plan.layout(),
        crop: plan.crop,
        fit: plan.fit,
    };
    plans.map(frame).collect()
}

/// What to measure of a package on one device.
pub struct Job {
    /// The first model of it.
    pub name: String,
    pub file: PathBuf,
    pub package: Package,
    pub request: Request,
}

/// Measures packages on the devices of `provider`, and shows on standard error how far it is; of one with frames and without
/// partition sizes only the preparation of frames. `done` takes each profile as soon as it is there, and how long its parts took.
///
/// Before each request of a network the largest other one runs: all of them are in one manifest, so each will find the
/// caches as others left them. Busy neighbours run it, too.
pub fn measure<P: Provider, E: From<MeasureError<P::Error>>>(
    provider: &P,
    jobs: &[Job],
    mut done: impl FnMut(&Job, Profile, Spans) -> Result<(), E>,
) -> Result<(), E> {
    let prepares_only = |job: &Job| job.request.units.is_empty() && !job.request.frames.is_empty();
    let mut solutions = Vec::new();
    let mut spans = Vec::new();
    for job in jobs {
        let mut own = Spans::default();
        solutions.push(if prepares_only(job) {
            Vec::new()
        } else {
            with_bar(&job.name, &mut own, |show| {
                profile::choose(provider, &job.package, &job.request, show)
            })?
        });
        spans.push(own);
    }
    let subject = |at: usize| Subject {
        package: &jobs[at].package,
        solutions: &solutions[at],
    };
    let other = |at: usize| Other {
        subject: subject(at),
        batch_max: jobs[at].request.batches.last().copied().unwrap_or(1),
    };
    for ((at, job), mut spans) in jobs.iter().enumerate().zip(spans) {
        let verified = if prepares_only(job) {
            None
        } else {
            let request = verification(&job.request);
            let verified = with_bar(&job.name, &mut spans, |show| {
                verify::verify(provider, subject(at), &request, show)
            });
            Some(verified?)
        };
        let others = (0..jobs.len()).filter(|other| *other != at && !prepares_only(&jobs[*other]));
        let largest = others.max_by_key(|other| weights(&jobs[*other].package));
        let measured = with_bar(&job.name, &mut spans, |show| {
            if prepares_only(job) {
                profile::measure_preparation(provider, &job.package, &job.request, show)
            } else {
                let other = largest.map(other);
                profile::measure(provider, subject(at), other, &job.request, show)
            }
        });
        let mut profile = measured?;
        profile.verified = verified;
        done(job, profile, spans)?;
    }
    Ok(())
}

/// Which inputs are drawn to verify a network: always the same, so that what was found is found again.
pub const SEED: u64 = 1;

/// To verify a package at the sizes at which it is measured.
fn verification(request: &Request) -> verify::Request {
    let budget = match request.effort {
        Effort::Brief => Nanos::from_millis(1_000),
        Effort::Quick => Nanos::from_millis(5_000),
        Effort::Thorough => Nanos::from_millis(60_000),
    };
    verify::Request {
        batches: request.batches.clone(),
        units: request.units.clone(),
        budget,
        seed: SEED,
    }
}

/// Verifies a package at these sizes, and shows how far it is.
pub fn verify_at<P: Provider>(
    provider: &P,
    name: &str,
    subject: Subject<'_>,
    request: &verify::Request,
) -> Result<Verified, MeasureError<P::Error>> {
    with_bar(name, &mut Spans::default(), |show| {
        verify::verify(provider, subject, request, show)
    })
}

/// How often launches of a package may look whether they are preempted.
pub fn look_stride(
    provider: &CudaProvider,
    job: &Job,
) -> Result<NonZeroU8, MeasureError<StartError>> {
    let with = |stride| CudaProvider {
        look_stride: Some(stride),
        ..provider.clone()
    };
    with_bar(&job.name, &mut Spans::default(), |show| {
        look_stride::choose(with, &job.package, &job.request, show)
    })
}

/// How many a network has.
fn weights(package: &Package) -> usize {
    package.network().weights.len()
}

/// How often a reader of standard error that is no terminal hears how far a measurement is.
const TOLD_EVERY_NS: u64 = 5_000_000_000;

fn with_bar<T>(
    name: &str,
    spans: &mut Spans,
    measure: impl FnOnce(&mut dyn FnMut(Progress)) -> T,
) -> T {
    let bar = ProgressBar::with_draw_target(None, target());
    bar.set_style(
        ProgressStyle::with_template("measuring {prefix} [{bar:30}] {pos}/{len} {msg}")
            .expect("the template is a constant"),
    );
    bar.set_prefix(name.to_owned());
    let is_seen = std::io::stderr().is_terminal();
    let mut told_ns = None;
    let measured = measure(&mut |progress: Progress| {
        let now_ns = clock::now_ns();
        spans.enter(progress.what, now_ns);
        let is_due = told_ns.is_none_or(|told_ns| now_ns.saturating_sub(told_ns) > TOLD_EVERY_NS);
        if !is_seen && is_due {
            told_ns = Some(now_ns);
            let (done, total) = (progress.done, progress.total);
            output::note(format_args!(
                "measuring {name}: {done} of {total}, {}",
                progress.what
            ));
        }
        bar.set_length(u64::from(progress.total));
        bar.set_position(u64::from(progress.done));
        bar.set_message(progress.what.to_string());
    });
    spans.leave(clock::now_ns());
    bar.finish_and_clear();
    measured
}

fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_plan::{HostCores, Policies};

    #[test]
    fn a_package_is_measured_once_for_all_its_models() {
        let manifest = r#"
            [daemon]
            board = "host"
            [[model]]
            name = "near"
            package = "signs.punctual"
            [[model]]
            name = "far"
            package = "signs.punctual"
            [[partition]]
            name = "cores"
            units = 2
            [[partition]]
            name = "tpcs"
            tpcs = 4
            [[task]]
            name = "a"
            model = "near"
            partition = "cores"
            criticality = "best-effort"
            batch_max = 2
            frame = { format = "rgb8", width = 640, height = 480, crop = [64, 64] }
            [[task]]
            name = "b"
            model = "far"
            partition = "tpcs"
            criticality = "best-effort"
            batch_max = 4
            frame = { format = "nv12", width = 640, height = 480, crop = [64, 64] }
            [[task]]
            name = "c"
            model = "far"
            partition = "tpcs"
            criticality = "best-effort"
            frame = { format = "rgb8", width = 640, height = 480, crop = [64, 64] }
        "#;
        let needs = Needs::of_manifest(
            manifest,
            "gpu.toml".as_ref(),
            &Policies::shipped(),
            &HostCores::default(),
        );
        let needs = needs.expect("valid");
        let packages = by_package(&needs.models);
        assert_eq!(packages.len(), 1);
        let sizes = |batches: &[u8], units: &[u8]| Sizes {
            batches: batches.to_vec(),
            units: units.to_vec(),
            launches: false,
            frames: Vec::new(),
        };
        assert_eq!(packages[0].on(DeviceKind::Cpu), sizes(&[1, 2], &[2]));
        assert_eq!(packages[0].on(DeviceKind::Cuda), sizes(&[1, 2, 4], &[4]));
        assert_eq!(packages[0].frames.len(), 2);
        assert_eq!(partitions_on(DeviceKind::Cpu, &needs), [2]);
        assert_eq!(partitions_on(DeviceKind::Cuda, &needs), [4]);
    }
}
