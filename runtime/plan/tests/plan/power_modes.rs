//! A plan is for one power mode: it uses the cores and TPCs that the mode leaves on, and no others.

use std::path::Path;

use punctual_diagnostics::{Diagnostics, Rule};
use punctual_plan::{
    Board, GpuRule, InLayout, LayoutRule, PlacementRule, Plan, PlanInputs, Warning,
};

const GPU: &str = include_str!("../manifests/good/gpu.toml");
const LAYOUTS: &str = include_str!("../manifests/good/layouts-gpu.toml");

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
    inputs.host.cores = (0..12).collect();
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
    inputs.host.cores = (0..12).collect();
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

#[test]
fn layouts_have_no_more_than_the_mode_leaves_on() {
    let narrow = LAYOUTS.replace("tpcs = 2\n", "tpcs = 1\n");
    let narrow = narrow.replace("tpcs = 4\n", "tpcs = 2\n");
    let mut inputs = on_agx(&narrow, "MODE_30W");
    inputs.host.gpu.as_mut().expect("a GPU").granularity = 1;
    let errors = refused(&inputs);
    let cause: InLayout<LayoutRule> = cause(&errors);
    let text = cause.to_string();
    assert!(
        text.contains("has 4 in power mode \"MODE_30W\", from 0 on"),
        "{text}"
    );
}

#[test]
fn a_machine_that_has_less_than_the_mode_says_so_without_it() {
    let mut inputs = on_agx(GPU, "MAXN");
    inputs.host.gpu.as_mut().expect("a GPU").tpcs = 4;
    let text = refused(&inputs).to_string();
    assert!(text.contains("2 TPCs wanted, 0 left of 4\n"), "{text}");
    // The kernel knows which cores are on in the mode that the machine is in.
    let mut inputs = on_agx(
        &GPU.replacen("cores = [0]", "cores = [8]", 1)
            .replacen("cores = [3]", "cores = [11]", 1),
        "MODE_30W",
    );
    inputs.host.cores = vec![0, 1, 2, 3, 8, 9, 10, 11];
    let text = refused(&inputs).to_string();
    assert!(text.contains("core 11 is not available;"), "{text}");
    let settings = [("nvpmodel".to_owned(), "MODE_30W".to_owned())];
    inputs.host.settings = settings.into();
    let text = refused(&inputs).to_string();
    assert!(!text.contains("is not available"), "{text}");
}

#[test]
fn a_machine_in_another_mode_of_its_board_is_warned_of() {
    let in_mode = |now: &str| {
        let mut inputs = on_agx(GPU, "MAXN");
        inputs.host.settings = [("nvpmodel".to_owned(), now.to_owned())].into();
        let warnings = plan(&inputs).warnings.into_iter();
        let modes = warnings.filter_map(|warning| match warning {
            Warning::OtherPowerMode { planned, now } => Some([planned, now]),
            _ => None,
        });
        modes.collect::<Vec<_>>()
    };
    assert_eq!(in_mode("MODE_50W"), [["MAXN", "MODE_50W"]]);
    assert_eq!(in_mode("MAXN"), [[""; 2]; 0]);
    // The board `host` has no mode of the machine's.
    assert_eq!(in_mode("default"), [[""; 2]; 0]);
}

#[test]
fn what_is_recalled_decides_no_plan_without_a_warning() {
    let board = "name = \"gpu-board\"\ntitle = \"For tests\"\ncores = { source = \"detected\" }
memory_gib = { is = 64, source = \"recalled\" }
[power_modes]
15W = { cores = { is = 4, source = \"recalled\" }, tpc = 6, source = \"recalled\" }
[gpu]
architecture = { is = \"Ampere\", source = \"recalled\" }
compute_capability = { is = \"8.7\", source = \"recalled\" }
sm = { is = 16, source = \"recalled\" }
tpc = { is = 8, source = \"recalled\" }";
    let parsed = |text: &str| Board::parse(text, Path::new("boards/gpu-board.toml"));
    let warned = |text: &str| {
        let board = parsed(text).unwrap_or_else(|errors| panic!("{errors}"));
        let plan = plan(&on(board, GPU, "15W"));
        let figures = plan
            .warnings
            .into_iter()
            .filter_map(|warning| match warning {
                Warning::Recalled { figure, .. } => Some(figure),
                _ => None,
            });
        figures.collect::<Vec<_>>()
    };
    let figures = [
        "power mode \"15W\"",
        "4 cores in power mode \"15W\"",
        "6 TPCs in power mode \"15W\"",
        "64 GiB of memory",
    ];
    assert_eq!(warned(board), figures);
    let confirmed = board.replace("\"recalled\"", "\"seen\"") + "\n[sources]\nseen = \"Seen\"";
    assert_eq!(warned(&confirmed), [""; 0]);
    let warning = Warning::Recalled {
        board: "gpu-board".to_owned(),
        figure: figures[1].to_owned(),
    };
    let text = warning.to_string();
    assert!(
        text.contains("4 cores") && text.contains("board detect"),
        "{text}"
    );
}
