//! What the fuzzer and the replay of its corpus have in common.

use std::path::Path;
use std::sync::OnceLock;

use punctual_plan::{Board, Diagnostics, Needs, Plan, PlanInputs, Policies};

use crate::fixture;

/// A diagnosis is for people: it does not grow without bound.
const DIAGNOSIS_BYTES_MAX: usize = 1 << 20;

/// Plans from a manifest and, behind a zero byte, a board file. Whatever they say there is a plan,
/// the same one twice, or a diagnosis of bounded length; never a panic.
pub fn plan(text: &[u8]) {
    static GOOD: OnceLock<PlanInputs> = OnceLock::new();
    let text = String::from_utf8_lossy(text);
    let (manifest, board) = text.split_once('\0').unwrap_or((&text, ""));
    let path = Path::new("fuzzed.toml");
    let cores = fixture::cores(4);
    diagnosed(Needs::of_manifest(
        manifest,
        path,
        &Policies::shipped(),
        &cores,
    ));
    let mut inputs = GOOD
        .get_or_init(|| fixture::inputs("", "fuzzed.toml"))
        .clone();
    manifest.clone_into(&mut inputs.manifest_text);
    if let Some(board) = diagnosed(Board::parse(board, path)) {
        inputs.board = board;
    }
    if let Some(plan) = diagnosed(Plan::build(&inputs)) {
        let again = Plan::build(&inputs).expect("the same inputs");
        assert_eq!(plan.to_json(), again.to_json());
    }
}

fn diagnosed<T>(result: Result<T, Diagnostics>) -> Option<T> {
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
