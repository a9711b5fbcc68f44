//! Profiles that are measured on the CPU device.

use std::sync::Arc;

use punctual_conformance::networks;
use punctual_core::ModelId;
use punctual_device::profile::{
    self, Effort, Frame, MeasureError, Other, Phase, Progress, Request, Subject,
    measure_preparation,
};
use punctual_device::{DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Provider, Start};
use punctual_device_cpu::{
    CpuDevice, CpuProvider, SolutionRequest, StartError, machine, measure_solutions,
};
use punctual_kernels::Isa;
use punctual_model::{
    AnswerKind, Binary, Calibration, Exit, Footprint, InputForm, InputSpec, Network, Operator,
    Output, Package, Profile, Promises, SolutionChoice, SolutionMemory, Stage, StageProfile,
    Tensor, TensorId, VectorSpec,
};
use punctual_platform::{Doorbell, affinity};
use punctual_types::{BinaryFunction, Element, Fit, FrameLayout, PixelFormat, Size, View};

fn cpu() -> CpuProvider {
    CpuProvider {
        cores: affinity::available_cores().expect("the kernel tells"),
    }
}

fn package() -> Package {
    Package::new(networks::residual(5), Calibration::default()).expect("a valid network")
}

fn request() -> Request {
    let size = Size {
        width: 64,
        height: 48,
    };
    let crop = Size {
        width: 32,
        height: 24,
    };
    Request {
        board: "host".to_owned(),
        power_mode: "default".to_owned(),
        batches: vec![1, 2],
        units: vec![1],
        beside: Vec::new(),
        frames_on_device: Vec::new(),
        frames: vec![
            Frame::new(PixelFormat::Rgb8, size, 192, crop),
            Frame::new(PixelFormat::Nv12, size, 64, crop),
            Frame::new(PixelFormat::Nv12, size, 80, crop),
            Frame::new(PixelFormat::Nv12, size, 64, size),
        ],
        core: None,
        effort: Effort::Quick,
        interruptions: 3,
        launches: false,
        direct: true,
    }
}

/// Chosen and measured, with no other network.
fn measure<P: Provider>(
    provider: &P,
    package: &Package,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Profile, MeasureError<P::Error>> {
    let solutions = &profile::choose(provider, package, request, progress)?;
    let subject = Subject { package, solutions };
    profile::measure(provider, subject, None, request, progress)
}

#[test]
fn a_network_is_measured_beside_another_one() {
    let (small, other) = (
        package(),
        Package::new(of_depth_and_vectors(), Calibration::default()),
    );
    let of = |package| Subject {
        package,
        solutions: &[],
    };
    let other = Other {
        subject: of(other.as_ref().expect("a valid network")),
        batch_max: 1,
    };
    let profile = profile::measure(&cpu(), of(&small), Some(other), &request(), &mut |_| ());
    let profile = profile.expect("measured");
    // Nothing of the other one is in it.
    assert_eq!(profile.key.package, small.hash().to_string());
    assert_eq!(profile.stages.len(), 4);
}

#[test]
fn with_all_partitions_named_each_stage_is_measured_beside_busy_ones_too() {
    let cores = cpu().cores.len().min(2) as u8;
    let package = package();
    let request = Request {
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        batches: vec![1],
        units: (1..=cores).collect(),
        beside: vec![1; cores.into()],
        ..request()
    };
    let mut seen = Vec::new();
    let profile = measure(&cpu(), &package, &request, &mut |progress| {
        seen.push(progress)
    });
    let profile = profile.expect("measured");
    let keys = |entries: &[StageProfile]| -> Vec<_> {
        entries
            .iter()
            .map(|e| (e.stage, e.batch, e.units))
            .collect()
    };
    assert_eq!(keys(&profile.beside), keys(&profile.stages));
    let of_all = |entries: &[StageProfile]| -> Vec<_> {
        entries
            .iter()
            .filter(|e| e.units == cores)
            .copied()
            .collect()
    };
    // A partition of all cores has no neighbours: what was measured alone holds.
    assert_eq!(of_all(&profile.beside), of_all(&profile.stages));
    assert_eq!(profile.beside_factor(cores), Some(1.0));
    assert!(profile.beside.iter().all(|entry| entry.samples >= 69));
    let beside = |progress: &&Progress| matches!(progress.what, Phase::Beside { units: 1, .. });
    assert_eq!(seen.iter().any(|progress| beside(&progress)), cores > 1);
    let last = seen.last().expect("progress");
    assert_eq!(last.done, last.total);
    assert_eq!(
        Profile::from_json(&profile.to_json()).expect("valid"),
        profile
    );
}

#[test]
fn a_network_with_another_one_is_measured_beside_that_one_in_its_largest_batch() {
    if cpu().cores.len() < 2 {
        return;
    }
    let (small, other) = (
        package(),
        Package::new(of_depth_and_vectors(), Calibration::default()).expect("a valid network"),
    );
    let of = |package| Subject {
        package,
        solutions: &[],
    };
    let other = Other {
        subject: of(&other),
        batch_max: 4,
    };
    let request = Request {
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        batches: vec![1],
        beside: vec![2],
        ..request()
    };
    let profile = profile::measure(&cpu(), of(&small), Some(other), &request, &mut |_| ());
    let profile = profile.expect("measured");
    assert_eq!((profile.stages.len(), profile.beside.len()), (2, 2));
}

#[test]
fn neighbours_on_cores_that_are_not_there_are_refused() {
    let request = Request {
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        beside: vec![1, 200],
        ..request()
    };
    let refused = measure(&cpu(), &package(), &request, &mut |_| ());
    assert!(matches!(
        refused,
        Err(MeasureError::Start(StartError::Units { units: 201, .. }))
    ));
}

#[test]
fn a_profile_has_every_stage_batch_and_frame_and_can_be_read_back() {
    let package = package();
    let mut seen = Vec::new();
    let profile = measure(&cpu(), &package, &request(), &mut |progress| {
        seen.push(progress)
    })
    .expect("can be measured");
    let keys: Vec<_> = profile
        .stages
        .iter()
        .map(|entry| (entry.stage, entry.batch, entry.units))
        .collect();
    assert_eq!(keys, [(0, 1, 1), (1, 1, 1), (0, 2, 1), (1, 2, 1)]);
    let samples_for_p99 = 299;
    assert!(
        profile
            .stages
            .iter()
            .all(|entry| entry.samples >= samples_for_p99)
    );
    assert_eq!(profile.beside, [], "nobody asked");
    assert_eq!(profile.prepare.len(), 3, "one entry whatever the stride");
    assert!(profile.prepare("nv12", [64, 48], [32, 24], false).is_some());
    let longest = profile.stages.iter().map(|entry| entry.max_ns).max();
    assert!(profile.preemption_ns_max > 0);
    assert!(Some(profile.preemption_ns_max) <= longest);
    assert_eq!(profile.key.package, package.hash().to_string());
    assert_eq!(
        Profile::from_json(&profile.to_json()).expect("valid"),
        profile
    );

    assert!(seen.windows(2).all(|pair| pair[0].done <= pair[1].done));
    let last = seen.last().expect("progress");
    assert_eq!(last.done, last.total);
}

/// Adds a number of its own to a depth picture, for each of two vectors.
pub fn of_depth_and_vectors() -> Network {
    let add = |input, other, output| {
        let name = format!("plus vector {other}");
        let reads = [input, other].map(TensorId);
        Operator::new(
            name,
            &reads,
            TensorId(output),
            Binary::new(BinaryFunction::Add),
        )
    };
    let vector = |name: &str, length| VectorSpec {
        name: name.to_owned(),
        length,
    };
    let picture = |channels| Tensor {
        channels,
        height: 12,
        width: 20,
    };
    let sum = Output {
        name: "sum".to_owned(),
        tensor: TensorId(4),
        shape: vec![5, 12, 20],
        view: View::plain([5, 12, 20]),
        element: Element::F32,
    };
    Network {
        input: InputSpec {
            channels: 1,
            height: 12,
            width: 20,
            form: InputForm::image(&[0.5], &[0.25]),
        },
        vectors: vec![vector("near", 1), vector("far", 5)],
        answer: AnswerKind::None,
        classes: vec![],
        tensors: vec![
            picture(1),
            Tensor::features(1),
            Tensor::features(5),
            picture(1),
            picture(5),
        ],
        stages: vec![Stage {
            inputs: [0, 1, 2].map(TensorId).to_vec(),
            outputs: vec![],
            operators: vec![add(0, 1, 3), add(3, 2, 4)],
            exit: Some(Exit {
                outputs: vec![sum],
                scores: None,
                confidence: None,
            }),
        }],
        ..networks::residual(1)
    }
}

#[test]
fn a_network_of_one_channel_and_two_vectors_is_measured() {
    let package = Package::new(of_depth_and_vectors(), Calibration::default());
    let package = package.expect("a valid network");
    let profile = measure(&cpu(), &package, &request(), &mut |_| ()).expect("measured");
    let batches: Vec<_> = profile.stages.iter().map(|entry| entry.batch).collect();
    assert_eq!(batches, [1, 2]);
}

#[test]
fn frames_can_be_prepared_for_stages_that_run_elsewhere() {
    let package = package();
    let mut request = request();
    request.units.clear();
    let mut seen = 0;
    let profile =
        measure_preparation(&cpu(), &package, &request, &mut |_| seen += 1).expect("measured");
    assert_eq!((profile.stages.len(), profile.prepare.len()), (0, 3));
    assert_eq!(profile.key.machine, machine());
    assert!(seen > 0);
    Profile::from_json(&profile.to_json()).expect("a profile");
}

#[test]
fn letterboxes_and_prepared_tensors_are_measured_by_themselves() {
    let mut request = request();
    request.units.clear();
    let stretched = request.frames[0];
    let fit = Fit::Letterbox { fill: Fit::FILL };
    request.frames = vec![stretched, Frame { fit, ..stretched }];
    let package = package();
    let profile = measure_preparation(&cpu(), &package, &request, &mut |_| ()).expect("measured");
    for letterbox in [false, true] {
        let entry = profile.prepare("rgb8", [64, 48], [32, 24], letterbox);
        assert_eq!(entry.map(|entry| entry.letterbox), Some(letterbox));
    }
    assert_eq!(
        Profile::from_json(&profile.to_json()).expect("valid"),
        profile
    );

    let mut network = package.network().clone();
    network.input.form = InputForm::Prepared;
    let input = network.input;
    let prepared = Package::new(network, package.calibration().clone()).expect("valid");
    let plane = Size {
        width: input.width,
        height: input.height,
    };
    let layout = FrameLayout::tensor(input.channels, plane);
    request.frames = vec![Frame {
        layout,
        crop: plane,
        fit: Fit::Stretch,
    }];
    let profile = measure_preparation(&cpu(), &prepared, &request, &mut |_| ()).expect("measured");
    let (size, crop) = ([layout.width, layout.height], [plane.width, plane.height]);
    let entry = profile.prepare("tensor", size, crop, false);
    assert!(entry.is_some_and(|entry| entry.samples > 0), "{profile:?}");
}

/// CPU devices under another name, of which nothing is chosen.
struct Elsewhere(CpuProvider);

impl Provider for Elsewhere {
    type Device = CpuDevice;
    type Error = StartError;

    const UNIT: &'static str = "TPC";
    const PROMISES: Promises = CpuProvider::PROMISES;

    fn machine(&self) -> String {
        "elsewhere".to_owned()
    }

    fn clocks(&self) -> String {
        "fixed".to_owned()
    }

    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        self.0.partitions(sizes)
    }

    fn footprint(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
    ) -> Result<Footprint, StartError> {
        self.0.footprint(network, batches, units)
    }

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Result<CpuDevice, StartError> {
        self.0.start(spec, bell)
    }
}

#[test]
fn stages_are_measured_on_whatever_is_started() {
    let package = package();
    let request = Request {
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        direct: false,
        ..request()
    };
    let mut said = Vec::new();
    let profile = measure(&Elsewhere(cpu()), &package, &request, &mut |progress| {
        if progress.what != Phase::Prepare {
            said.push(progress.what.to_string());
        }
    })
    .expect("measured");
    assert_eq!(profile.key.machine, "elsewhere");
    assert_eq!(profile.key.clocks, "fixed");
    assert_eq!((profile.stages.len(), profile.prepare.len()), (4, 0));
    assert!(said.iter().all(|said| said == "stages on 1 TPC"));
    assert!(profile.preemption_ns_max > 0);
}

#[test]
fn what_cannot_be_measured_is_refused_with_its_reason() {
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        measure(&cpu(), &package(), &request, &mut |_| ()).expect_err("cannot be measured")
    };
    assert!(matches!(
        refused(&|request| request.units.clear()),
        MeasureError::NoUnits
    ));
    assert!(matches!(
        refused(&|request| request.units = vec![200]),
        MeasureError::Start(StartError::Units { units: 200, .. })
    ));
    assert!(matches!(
        refused(&|request| request.batches = vec![2]),
        MeasureError::Start(_)
    ));
    assert!(matches!(
        refused(&|request| (request.batches, request.direct) = (vec![1, 200], false)),
        MeasureError::Start(_)
    ));
    assert!(matches!(
        refused(&|request| (request.units, request.direct) = (vec![0], false)),
        MeasureError::Start(StartError::Units { units: 0, .. })
    ));
    assert!(matches!(
        refused(&|request| request.frames[0].crop.width = 65),
        MeasureError::Frame(_)
    ));
}

#[test]
fn a_profile_names_the_solutions_that_it_was_measured_with_and_what_they_take() {
    let package = package();
    let mut request = request();
    request.frames.clear();
    let cores = cpu().cores.len().min(2) as u8;
    request.units = (1..=cores).collect();
    let direct = measure(&cpu(), &package, &request, &mut |_| ()).expect("can be measured");
    assert_eq!(direct.solutions, []);
    assert_eq!(direct.solution_memory, SolutionMemory::default());

    request.direct = false;
    let mut phases = Vec::new();
    let profile = measure(&cpu(), &package, &request, &mut |progress| {
        phases.push(progress.what);
    })
    .expect("can be measured");
    let choosing = |units| Phase::Solutions { units };
    let expected: Vec<Phase> = request.units.iter().copied().map(choosing).collect();
    assert!(phases.starts_with(&expected));
    // Whichever were faster today, a device with them takes what is said.
    let spec = DeviceSpec {
        models: &[ModelSpec {
            solutions: &profile.solutions,
            ..ModelSpec::resident(package.network(), &[1])
        }],
        partitions: &[PartitionSpec::on_cores("main", vec![cpu().cores[0]], None)],
        request_buffers: 1,
        cache: None,
        start: Start::Whole,
    };
    let device = CpuDevice::start(&spec, Arc::new(Doorbell::new())).expect("starts");
    assert_eq!(device.solution_memory(ModelId(0)), profile.solution_memory);
    let special = |choice: &SolutionChoice| choice.solution.starts_with("winograd");
    assert_eq!(
        profile.solutions.iter().any(special),
        profile.solution_memory != SolutionMemory::default()
    );
}

#[test]
fn solutions_are_chosen_for_every_batch_size_of_the_operators_that_gain() {
    let network = networks::residual(5);
    let request = SolutionRequest {
        isa: Isa::detect(),
        batches: &[1, 2],
        mates: &[],
        rounds: 3,
    };
    let choices = measure_solutions(&network, &request).expect("can be measured");
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    for (operator, kind) in operators.map(|operator| &operator.kind).enumerate() {
        let own: Vec<_> = choices
            .iter()
            .filter(|choice| choice.operator as usize == operator)
            .collect();
        let special = |choice: &&&punctual_model::SolutionChoice| choice.solution != "direct";
        if own.is_empty() {
            continue;
        }
        assert!(matches!(kind, punctual_model::OperatorKind::Conv2d(_)));
        assert!(own.iter().any(|choice| special(&choice)));
        let batches: Vec<_> = own.iter().map(|choice| choice.batch).collect();
        assert_eq!(batches, [1, 2]);
    }
}
