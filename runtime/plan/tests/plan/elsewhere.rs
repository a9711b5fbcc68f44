//! Plans for a board that is elsewhere, by its file and a profile that is kept beside the package.

use punctual_diagnostics::Diagnostics;
use punctual_plan::{ElsewhereRule, Files, NoSuchBoard, Plan, PlanInputs, Policies};

use crate::files::{Folder, cause};
use crate::fixture;

const BOARD: &str = "jetson-agx-orin-64gb";
const MANIFEST: &str = "[[task]]\npackage = \"signs.punctual\"\nrate_hz = 30\ndeadline_ms = 50\nallow = { users = [\"robot\"] }\n";

fn judged(folder: &Folder, board: &str) -> Result<Plan, Diagnostics> {
    let files = Files::of(&folder.path(""));
    let manifest = folder.path("demo.toml");
    let inputs = PlanInputs::read_for_board(&manifest, &files, &[], board, Policies::shipped())?;
    Plan::build(&inputs)
}

/// A folder with the manifest; with a profile of the board, in its default power mode on all cores that a partition has there.
fn folder(name: &str, measured: bool) -> Folder {
    let folder = Folder::new(name);
    folder.put("demo.toml", MANIFEST);
    folder.profile_beside_the_package();
    if measured {
        let board = punctual_plan::Board::builtin(BOARD).expect("a board of the program");
        let mode = board.default_power_mode().to_owned();
        let cores = board.power_mode(&mode).and_then(|mode| mode.cores.as_ref());
        let cores = cores.or(board.cores.as_ref()).expect("it says so").value;
        let mut profile = fixture::profile(&fixture::package());
        profile.key.board = BOARD.to_owned();
        profile.key.machine = "ARMv8 Processor rev 1, neon".to_owned();
        profile.key.power_mode = mode;
        for entry in profile.stages.iter_mut().filter(|entry| entry.units == 2) {
            entry.units = cores as u8 - 1;
        }
        let file = folder.path(&format!("signs.{BOARD}.profile.json"));
        profile.write(&file).expect("written");
    }
    folder
}

#[test]
fn a_manifest_is_judged_by_the_boards_file_and_the_profile_that_is_kept_under_its_name() {
    let folder = folder("elsewhere", true);
    let plan = judged(&folder, BOARD).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.board, BOARD);
    let cores = plan.partitions[0].cores.len() + plan.housekeeping_cores.len();
    assert!(cores > 4, "the board's, not this machine's: {cores}");
    folder.put(
        "demo.toml",
        &format!("[daemon]\nboard = \"{BOARD}\"\n{MANIFEST}"),
    );
    let named = judged(&folder, BOARD).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(named.hash, plan.hash);
    folder.put(
        "demo.toml",
        &MANIFEST.replace("deadline_ms = 50", "deadline_ms = 1"),
    );
    assert!(
        judged(&folder, BOARD).is_err(),
        "too little time there, too"
    );
}

#[test]
fn a_board_without_a_profile_is_told_of_with_those_that_there_are() {
    let folder = folder("unmeasured", false);
    let errors = judged(&folder, BOARD).expect_err("nothing was measured there");
    let expected = ElsewhereRule::NoProfile {
        board: BOARD.to_owned(),
        boards: vec!["host".to_owned()],
    };
    assert_eq!(cause::<ElsewhereRule>(&errors), &expected);
    assert!(errors.is_about_files_only());
    let text = errors.to_string();
    assert!(
        text.contains("PACKAGE.jetson-agx-orin-64gb.profile.json"),
        "{text}"
    );
    let errors = judged(&folder, "nowhere").expect_err("no such board");
    assert_eq!(cause::<NoSuchBoard>(&errors).board, "nowhere");
}

#[test]
fn a_board_that_is_found_out_where_it_is_cannot_be_judged_elsewhere() {
    let folder = folder("detected", false);
    let errors = judged(&folder, "host").expect_err("its file says nothing");
    assert_eq!(errors.problems().len(), 2, "{errors}");
    assert!(
        errors.to_string().contains("does not say how many cores"),
        "{errors}"
    );
}

#[test]
fn partitions_of_a_gpu_are_judged_on_the_board() {
    let folder = folder("tpcs", true);
    folder.put("demo.toml", &format!("[[partition]]\ntpcs = 4\n{MANIFEST}"));
    let errors = judged(&folder, BOARD).expect_err("no GPU here");
    assert!(
        matches!(cause(&errors), ElsewhereRule::Device { .. }),
        "{errors}"
    );
}
