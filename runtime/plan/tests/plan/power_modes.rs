//! A plan is for one power mode: it uses the cores and TPCs that the mode leaves on, and no others.

use punctual_diagnostics::{Diagnostics, Rule};
use punctual_plan::{Board, GpuRule, PlacementRule, Plan, PlanInputs};

const GPU: &str = include_str!("../manifests/good/gpu.toml");

/// A manifest on an AGX Orin of twelve cores and eight TPCs, for this mode.
fn on_agx(manifest: &str, mode: &str) -> PlanInputs {
    let agx = Board::builtin("jetson-agx-orin-64gb").expect("a board of ours");
    let heading = format!("board = {:?}\npower_mode = {mode:?}", agx.name);
    let manifest = manifest.replacen("board = \"gpu-board\"", &heading, 1);
    on(agx, &manifest, mode)
}

/// Profiles are for this board and mode.
fn on(board: Board, manifest: &str, mode: &str) -> PlanInputs {
    let mut inputs = crate::fixture::inputs(manifest, "gpu.toml");
    inputs.host.cores.available = (0..12).collect();
    for input in &mut inputs.profiles {
        let profile = input.profile.as_mut().expect("of the fixture");
        profile.key.board.clone_from(&board.name);
        profile.key.power_mode = mode.to_owned();
    }
    inputs.board = board;
    inputs
}

fn plan(inputs: &PlanInputs) -> Plan {
    Plan::build(inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(inputs: &PlanInputs) -> Diagnostics {
    Plan::build(inputs).expect_err("something is wrong")
}

/// The first cause of a refusal that is of this kind.
fn cause<T: Rule + Clone>(errors: &Diagnostics) -> T {
    let mut causes = errors.problems().iter().filter_map(|p| p.cause::<T>());
    causes.next().unwrap_or_else(|| panic!("{errors}")).clone()
}

#[test]
fn a_plan_for_all_that_is_on_is_that_of_the_machine() {
    let plan = plan(&on_agx(GPU, "MAXN"));
    assert_eq!(plan.power_mode, "MAXN");
    assert_eq!(plan.partitions[2].tpcs, [4, 5]);
    assert_eq!(plan.warnings, plan_without_modes().warnings);
}

/// On the fixture's board, of whose mode no more is known than its name.
fn plan_without_modes() -> Plan {
    let mut inputs = crate::fixture::inputs(GPU, "gpu.toml");
    inputs.host.cores.available = (0..12).collect();
    plan(&inputs)
}

#[test]
fn tpcs_that_are_off_in_the_mode_are_refused_by_name_number_and_limit() {
    // The mode has three of the eight, and the first partition wants four.
    let errors = refused(&on_agx(GPU, "MODE_15W"));
    let expected = GpuRule::TooFewTpcs {
        asked: 4,
        free: 3,
        there: 3,
        mode: Some("MODE_15W".to_owned()),
    };
    assert_eq!(cause::<GpuRule>(&errors), expected);
    let text = errors.to_string();
    let said = "4 TPCs wanted, 3 left of 3 in power mode \"MODE_15W\"";
    let to_do = "set tpcs = 3 or less, or set `power_mode` to one that leaves more on";
    assert!(text.contains(said) && text.contains(to_do), "{text}");
}

#[test]
fn cores_that_are_off_in_the_mode_are_refused_by_name_number_and_limit() {
    let last = GPU.replacen("cores = [3]", "cores = [11]", 1);
    let errors = refused(&on_agx(&last, "MODE_30W"));
    let expected = PlacementRule::CoreMissing {
        core: 11,
        available: (0..8).collect(),
        mode: Some("MODE_30W".to_owned()),
    };
    assert_eq!(cause::<PlacementRule>(&errors), expected);
    let text = errors.to_string();
    assert!(
        text.contains("core 11 is not available in power mode \"MODE_30W\"; available are 0, 1"),
        "{text}"
    );
    let many = GPU.replacen("units = 1", "units = 8", 1);
    let errors = refused(&on_agx(&many, "MODE_30W"));
    let text = errors.to_string();
    assert!(
        text.contains("8 cores wanted, 6 left of 8 in power mode \"MODE_30W\""),
        "{text}"
    );
}

#[test]
fn the_mode_of_a_manifest_that_names_none_is_the_boards_first() {
    let agx = Board::builtin("jetson-agx-orin-64gb").expect("a board of ours");
    let named = GPU.replacen("gpu-board", &agx.name, 1);
    // Four TPCs are on: those of the second partition are not.
    let errors = refused(&on(agx, &named, "MODE_30W"));
    let text = errors.to_string();
    assert!(
        text.contains("2 TPCs wanted, 0 left of 4 in power mode \"MODE_30W\""),
        "{text}"
    );
}
