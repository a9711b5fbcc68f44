//! The conformance suite on ONNX Runtime on cores.
//!
//! Left out, with the reason: everything about weights that come and go (this device holds all of them);
//! operators on tokens and on bytes (they are not written as ONNX).

mod both;

use std::sync::Arc;

use punctual_conformance::{Subject, networks, suite};
use punctual_device::DeviceSpec;
use punctual_device_ort::{Library, LibraryError, OrtDevice, named};
use punctual_platform::Doorbell;

use both::{conforms, is_there, library};

struct Ort;

impl Subject for Ort {
    type Device = OrtDevice;

    const TOKENS_AND_BYTES: bool = false;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> OrtDevice {
        OrtDevice::start(library(), spec, bell).expect("starts")
    }
}

conforms!(
    Ort,
    answers_equal_the_reference,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
);

#[test]
fn survivors_of_different_batches_run_together() {
    both::survivors_of_different_batches_run_together(&Ort);
}

#[test]
fn copies_equal_the_reference() {
    if is_there() {
        suite::answers_equal_the_reference_on(&Ort, &networks::copies(3));
    }
}

#[test]
fn what_reductions_give_is_carried_to_later_stages() {
    both::what_reductions_give_is_carried_to_later_stages(&Ort);
}

#[test]
fn a_library_that_is_not_there_is_named() {
    if named().is_some() {
        // The library of this process is the one that the environment names.
        return;
    }
    assert!(matches!(Library::load(None), Err(LibraryError::NotNamed)));
    let nowhere = std::path::Path::new("/nowhere/libonnxruntime.so");
    let refused = Library::load(Some(nowhere)).err().expect("no such file");
    assert!(
        refused.to_string().contains("/nowhere/libonnxruntime.so"),
        "{refused}"
    );
}

#[test]
fn paged_weights_are_refused_with_the_models_name() {
    both::paged_weights_are_refused_with_the_models_name(|spec| {
        OrtDevice::start(library(), spec, Arc::new(Doorbell::new())).err()
    });
}
