//! The profiler on TPCs: what it measures, and what is busy meanwhile. The emulated driver says nothing about time.

use std::num::NonZeroU8;
use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use punctual_conformance::networks;
use punctual_device::pool::Wait;
use punctual_device::profile::{self, Effort, Frame, Request, Subject};
use punctual_device::{DeviceSpec, PartitionSpec, Provider};
use punctual_device_cuda::driver::{Driver, Gpu};
use punctual_device_cuda::kernel_padding::KernelPaddingSpec;
use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::queue::QueueSpec;
use punctual_device_cuda::{
    CudaDevice, CudaProvider, CudaSpec, Division, StartError, Watchdog, look_stride,
};
use punctual_model::{Calibration, Footprint, LaunchProfile, Network, Package, Profile, Promises};
use punctual_platform::Doorbell;
use punctual_types::{PixelFormat, Size};

use crate::subject::{cuda, offer};

/// The provider, with leaders of ordinary priority and the patience of tests.
struct Patient {
    provider: CudaProvider,
    gpu: Gpu,
}

impl Provider for Patient {
    type Device = CudaDevice;
    type Error = StartError;

    const UNIT: &'static str = CudaProvider::UNIT;
    const PROMISES: Promises = CudaProvider::PROMISES;

    fn look_stride(&self) -> Option<NonZeroU8> {
        self.provider.look_stride()
    }

    fn machine(&self) -> String {
        self.provider.machine()
    }

    fn clocks(&self) -> String {
        self.provider.clocks()
    }

    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        let mut partitions = self.provider.partitions(sizes)?;
        for partition in &mut partitions {
            partition.priority = None;
        }
        Ok(partitions)
    }

    fn footprint(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
    ) -> Result<Footprint, StartError> {
        self.provider.footprint(network, batches, units)
    }

    fn launches(
        &self,
        subject: Subject<'_>,
        request: &Request,
    ) -> Result<Vec<LaunchProfile>, StartError> {
        self.provider.launches(subject, request)
    }

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Result<CudaDevice, StartError> {
        let partitioner = Arc::new(self.provider.offer.partitioner(self.gpu)?);
        let ranges = spec.partitions.iter().map(|p| p.tpcs.clone()).collect();
        let spec_of_tests = CudaSpec {
            division: Division::Tpcs {
                partitioner,
                ranges,
            },
            queue: QueueSpec {
                check_stride: self.provider.look_stride.map_or(1, |s| s.get().into()),
                ..cuda().queue
            },
            ..cuda()
        };
        CudaDevice::start(self.provider.driver, spec, &spec_of_tests, bell)
    }
}

fn patient(name: &str, config: &Config) -> Patient {
    let driver = Driver::open().expect("the emulated driver");
    let gpu = driver.device(0).expect("the emulated device");
    let provider = CudaProvider {
        driver,
        ordinal: 0,
        offer: offer(name, config, Mechanism::StreamMask),
        leaders: vec![1, 0],
        watchdog: Watchdog::default(),
        kernel_padding: KernelPaddingSpec::default(),
        wait: Wait::Spin,
        look_stride: None,
        shares_context: false,
    };
    Patient { provider, gpu }
}

#[test]
fn neighbours_have_the_tpcs_after_the_measured_ones_and_leaders_of_their_own() {
    let config = Config::default();
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let partitions = patient("profile-partitions", &config).partitions(&[3, 2, 1]);
    let partitions = partitions.expect("there are as many");
    let of = |partition: &PartitionSpec| (partition.tpcs.clone(), partition.cores[0]);
    let found: Vec<_> = partitions.iter().map(of).collect();
    assert_eq!(found, [(0..3, 1), (3..5, 0), (5..6, 0)]);
}

#[test]
fn stages_are_measured_while_all_other_tpcs_run_stages() {
    let config = Config {
        spread: true,
        ..Config::default()
    };
    let emulator = Emulator::start(&config).expect("the emulated driver");
    let patient = patient("profile-beside", &config);
    let package = Package::new(networks::pair(7), Calibration::default()).expect("valid");
    let request = Request {
        board: "emulated".to_owned(),
        power_mode: "default".to_owned(),
        batches: vec![1],
        units: vec![3],
        beside: vec![3, 5],
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        core: None,
        effort: Effort::Quick,
        interruptions: 3,
        launches: true,
        direct: true,
    };
    let subject = Subject {
        package: &package,
        solutions: &[],
    };
    let profile = profile::measure(&patient, subject, None, &request, &mut |_| ());
    let profile = profile.unwrap_or_else(|error| panic!("{error}"));
    assert!(!profile.launches.is_empty());
    for launches in &profile.launches {
        assert_eq!((launches.units, launches.on), (3, 8));
        assert!(launches.ns.iter().all(|ns| *ns > 0), "{launches:?}");
    }
    let stages = package.network().stages.len();
    assert_eq!(
        (profile.stages.len(), profile.beside.len()),
        (stages, stages)
    );
    assert!(profile.beside.iter().all(|entry| entry.units == 3));
    let partitioner = patient
        .provider
        .offer
        .partitioner(patient.gpu)
        .expect("as before");
    for tpcs in [0..3, 3..8] {
        let granted = partitioner.grant(tpcs.clone()).expect("whole units").sms;
        let launches = emulator.launches();
        let is_there = |sms| punctual_device_cuda::partition::SmSet::of(sms) == Ok(granted);
        assert!(
            launches.into_iter().any(|launch| is_there(launch.sms)),
            "{tpcs:?}"
        );
    }
}

#[test]
fn frames_are_measured_on_the_tpcs_of_the_partition_while_it_runs_stages() {
    let config = Config::default();
    let emulator = Emulator::start(&config).expect("the emulated driver");
    let patient = patient("profile-frames", &config);
    let package = Package::new(networks::pair(7), Calibration::default()).expect("valid");
    let [size, crop] = [[40, 30], [25, 17]].map(|[width, height]| Size { width, height });
    let request = Request {
        board: "emulated".to_owned(),
        power_mode: "default".to_owned(),
        batches: vec![1],
        units: vec![3],
        beside: Vec::new(),
        frames: Vec::new(),
        frames_on_device: vec![Frame::new(PixelFormat::Nv12, size, 40, crop)],
        core: None,
        effort: Effort::Brief,
        interruptions: 0,
        launches: false,
        direct: true,
    };
    let subject = Subject {
        package: &package,
        solutions: &[],
    };
    let profile = profile::measure(&patient, subject, None, &request, &mut |_| ());
    let profile = profile.unwrap_or_else(|error| panic!("{error}"));
    let found = profile.prepare_on_device(3, "nv12", [40, 30], [25, 17], false);
    let found = found.expect("it was asked for");
    assert!(found.samples > 0 && found.p99_ns >= found.p50_ns);
    assert!(profile.prepare.is_empty(), "cores prepare nothing here");
    let read = Profile::from_json(&profile.to_json()).expect("its own text");
    assert_eq!(read, profile);
    let partitioner = patient.provider.offer.partitioner(patient.gpu);
    let granted = partitioner.expect("as before").grant(0..3);
    let granted = granted.expect("whole units").sms;
    let launches = emulator.launches();
    let frames = || launches.iter().filter(|of| of.kernel == "preprocess_nv12");
    assert!(frames().count() > 0);
    for frame in frames() {
        let on = punctual_device_cuda::partition::SmSet::of(frame.sms.clone());
        let on = on.expect("the device has them");
        assert_eq!(on.intersection(granted), on, "{frame:?}");
    }
}

#[test]
fn without_a_measurement_an_integrated_gpu_looks_at_each_eighth_tile_and_others_at_each() {
    for (integrated, stride) in [(true, 8), (false, 1)] {
        let config = Config {
            integrated,
            ..Config::default()
        };
        let _emulator = Emulator::start(&config).expect("the emulated driver");
        let driver = Driver::open().expect("the emulated driver");
        let gpu = driver.device(0).expect("the emulated device");
        let spec = QueueSpec::fitting(gpu).expect("it says what it is");
        assert_eq!(spec.check_stride, stride);
    }
}

/// Which one it is means nothing on the emulated driver.
#[test]
fn a_look_stride_is_chosen_by_measuring_and_kept_in_the_profile() {
    let config = Config::default();
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let Patient { provider, gpu } = patient("profile-look-stride", &config);
    let with = |stride| Patient {
        provider: CudaProvider {
            look_stride: Some(stride),
            ..provider.clone()
        },
        gpu,
    };
    let package = Package::new(networks::pair(7), Calibration::default()).expect("valid");
    let request = Request {
        board: "emulated".to_owned(),
        power_mode: "default".to_owned(),
        batches: vec![1, 2],
        units: vec![2, 8],
        beside: Vec::new(),
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        core: None,
        effort: Effort::Quick,
        interruptions: 3,
        launches: false,
        direct: true,
    };
    let chosen = look_stride::choose(with, &package, &request, &mut |_| ());
    let chosen = chosen.unwrap_or_else(|error| panic!("{error}"));
    assert!(look_stride::STRIDES.contains(&chosen));
    let subject = Subject {
        package: &package,
        solutions: &[],
    };
    let profile = profile::measure(&with(chosen), subject, None, &request, &mut |_| ());
    let profile = profile.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(profile.look_stride, Some(chosen));
    let read = Profile::from_json(&profile.to_json()).expect("its own text");
    assert_eq!(read.look_stride, Some(chosen));
}
