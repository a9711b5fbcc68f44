//! What the fuzzer and the tests without one have in common: fleet and workload files.

use punctual_diagnostics::Diagnostics;

/// A diagnosis is for people: it does not grow without bound.
const DIAGNOSIS_BYTES_MAX: usize = 1 << 20;

pub fn diagnosed<T>(result: Result<T, Diagnostics>) -> Option<T> {
    let errors = match result {
        Ok(made) => return Some(made),
        Err(errors) => errors,
    };
    assert!(!errors.problems().is_empty(), "refused without a reason");
    for shown in [errors.to_string(), errors.to_json()] {
        let bytes = shown.len();
        assert!(bytes <= DIAGNOSIS_BYTES_MAX, "{bytes} bytes of diagnosis");
    }
    None
}
