use punctual_model::{Calibration, Package, Profile};
use punctual_platform::affinity;

use super::*;
use crate::conformance::networks;

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
        cores: affinity::available_cores().expect("the kernel tells"),
        frames: vec![
            Frame::new(PixelFormat::Rgb8, size, 192, crop),
            Frame::new(PixelFormat::Nv12, size, 64, crop),
            Frame::new(PixelFormat::Nv12, size, 80, crop),
            Frame::new(PixelFormat::Nv12, size, 64, size),
        ],
        effort: Effort::Quick,
    }
}

#[test]
fn a_profile_has_every_stage_batch_and_frame_and_can_be_read_back() {
    let package = package();
    let mut seen = Vec::new();
    let profile = measure(&package, &request(), &mut |progress| seen.push(progress))
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
    assert_eq!(profile.prepare.len(), 3, "one entry whatever the stride");
    assert!(profile.prepare("nv12", [64, 48], [32, 24]).is_some());
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

#[test]
fn what_cannot_be_measured_is_refused_with_its_reason() {
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        measure(&package(), &request, &mut |_| ()).expect_err("cannot be measured")
    };
    assert!(matches!(
        refused(&|request| request.units.clear()),
        MeasureError::NoUnits
    ));
    assert!(matches!(
        refused(&|request| request.units = vec![200]),
        MeasureError::Units { units: 200, .. }
    ));
    assert!(matches!(
        refused(&|request| request.batches = vec![2]),
        MeasureError::Start(_)
    ));
    assert!(matches!(
        refused(&|request| request.frames[0].crop.width = 65),
        MeasureError::Frame(_)
    ));
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
        assert!(matches!(kind, punctual_model::OperatorKind::Conv2d { .. }));
        assert!(own.iter().any(|choice| special(&choice)));
        let batches: Vec<_> = own.iter().map(|choice| choice.batch).collect();
        assert_eq!(batches, [1, 2]);
    }
}
