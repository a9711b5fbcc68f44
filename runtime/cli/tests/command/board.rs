//! `punctual board detect` as a process: without a GPU, and on the emulated driver.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use emulated_cuda::{Config, ENVIRONMENT, Emulator};
use punctual_model::Profile;
use punctual_plan::Board;
use serde_json::Value;

use crate::support::{Folder, MANIFEST};

/// An empty folder of the test's own.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("board")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

/// The command, with records in a folder.
fn detect(records: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["board", "detect", "--records"]).arg(records);
    // Whatever is installed here: there is no libsmctrl.
    command.env("LIBSMCTRL_PATH", "/nowhere/libsmctrl.so");
    command
}

/// The command on an emulated GPU.
fn on_emulated(records: &Path, config: &Config, arguments: &[&str]) -> Command {
    let folder = Emulator::library_folder(config).expect("a folder with the library");
    let mut command = detect(records);
    command.args(arguments);
    command.env("LD_LIBRARY_PATH", folder);
    command.env_remove("CUDA_DEVICE_MAX_CONNECTIONS");
    command.env_remove("CUDA_MODULE_LOADING");
    command.env(ENVIRONMENT, config.to_string());
    command
}

/// The same, run.
fn emulated(records: &Path, config: &Config, arguments: &[&str]) -> Output {
    let mut command = on_emulated(records, config, arguments);
    command.output().expect("the command runs")
}

fn gpu(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    found["gpu"].clone()
}

/// The mechanism, TPCs, their granularity.
fn partitions(output: &Output) -> (String, u64, u64) {
    let partitions = &gpu(output)["partitions"];
    let number = |key: &str| partitions[key].as_u64().expect("a number");
    let mechanism = partitions["mechanism"].as_str().expect("a name").to_owned();
    (mechanism, number("tpcs"), number("granularity"))
}

fn small() -> Config {
    Config {
        tpcs: 4,
        ..Config::default()
    }
}

#[test]
fn without_a_gpu_it_says_so_and_writes_what_there_is() {
    let folder = scratch("no-gpu");
    let file = folder.join("here.toml");
    let config = Config {
        devices: 0,
        ..Config::default()
    };
    let output = emulated(&folder, &config, &["--write", file.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no GPU: "), "{said}");
    let board = fs::read_to_string(&file).expect("the board file");
    let board = Board::parse(&board, &file).expect("a board file");
    assert_eq!(board.gpu, None);
}

#[test]
fn a_gpu_whose_masks_are_obeyed_is_divided_by_them() {
    let folder = scratch("masks");
    let config = Config {
        spread: true,
        ..small()
    };
    let output = emulated(&folder, &config, &["--json"]);
    assert_eq!(partitions(&output), ("stream-mask".to_owned(), 4, 1));
    let gpu = gpu(&output);
    assert_eq!(gpu["compute_capability"], "8.7");
    assert_eq!(gpu["multiprocessors"], 8);
    let second = &gpu["partitions"]["units"][1]["multiprocessors"];
    assert_eq!(second, &serde_json::json!([1, 5]));
}

#[test]
fn what_came_out_is_kept_and_tried_again_only_if_told() {
    let folder = scratch("kept");
    let obeyed = emulated(&folder, &small(), &["--json"]);
    assert_eq!(partitions(&obeyed).0, "stream-mask");
    // The same GPU and driver, as far as the record goes, but masks are not obeyed any more.
    let deaf = Config {
        masks: false,
        ..small()
    };
    let kept = emulated(&folder, &deaf, &["--json"]);
    assert_eq!(partitions(&kept).0, "stream-mask");
    let again = emulated(&folder, &deaf, &["--json", "--again"]);
    assert_eq!(partitions(&again), ("green-contexts".to_owned(), 4, 1));
    let refused = &gpu(&again)["partitions"]["refused"];
    let reason = refused[0]["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("no bit of the mask has an effect"),
        "{reason}"
    );
    assert!(
        refused[1]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("LIBSMCTRL_PATH")),
        "{refused}"
    );
}

#[test]
fn the_driver_is_initialised_with_queues_and_code_as_it_should_be() {
    let folder = scratch("settings");
    let found = gpu(&emulated(&folder, &small(), &["--json"]));
    assert_eq!(found["unmet_settings"], serde_json::json!([]));
    // What the user sets is kept and named.
    let mut command = on_emulated(&folder, &small(), &["--json"]);
    command.env("CUDA_DEVICE_MAX_CONNECTIONS", "8");
    let found = gpu(&command.output().expect("the command runs"));
    let unmet = found["unmet_settings"].as_array().expect("a list");
    let [unmet] = unmet.as_slice() else {
        panic!("{unmet:?}")
    };
    let unmet = unmet.as_str().expect("text");
    assert!(
        unmet.contains("CUDA_DEVICE_MAX_CONNECTIONS=8 is kept"),
        "{unmet}"
    );
}

#[test]
fn what_the_position_of_a_mask_rests_on_is_shown() {
    let folder = scratch("standing");
    let found = gpu(&emulated(&folder, &small(), &["--json"]));
    let masks = &found["partitions"]["stream_masks"];
    assert_eq!(
        masks["known_by"],
        "several public copies of libsmctrl agree"
    );
    assert!(masks["offset"].as_u64().is_some(), "{masks}");
    // Of this version no public source has the position.
    let unknown = Config {
        driver: 12090,
        ..small()
    };
    let output = emulated(&folder, &unknown, &["--json"]);
    assert_eq!(partitions(&output), ("green-contexts".to_owned(), 4, 1));
    let partitions = gpu(&output)["partitions"].clone();
    assert!(partitions["stream_masks"]["offset"].is_null());
    let reason = partitions["refused"][0]["reason"].as_str().expect("text");
    assert!(
        reason.contains("CUDA 12.9") && reason.contains("next one is tried"),
        "{reason}"
    );
}

#[test]
fn masks_of_launches_are_tried_where_they_are_named() {
    let folder = scratch("launch-masks");
    let unknown = Config {
        driver: 12090,
        ..small()
    };
    let mut command = on_emulated(&folder, &unknown, &["--json"]);
    command.env("PUNCTUAL_GPU_MECHANISMS", "stream-mask,launch-mask");
    let output = command.output().expect("the command runs");
    assert_eq!(partitions(&output), ("launch-mask".to_owned(), 4, 1));
    let mut command = on_emulated(&folder, &unknown, &[]);
    command.env("PUNCTUAL_GPU_MECHANISMS", "launch-masks");
    let output = command.output().expect("the command runs");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("\"launch-masks\""), "{said}");
}

#[test]
fn a_driver_that_offers_nothing_leaves_one_partition() {
    let folder = scratch("nothing");
    // Green contexts have no streams of their own before CUDA 12.5.
    let config = Config {
        driver: 12040,
        masks: false,
        ..small()
    };
    let output = emulated(&folder, &config, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let table = String::from_utf8(output.stdout).expect("text");
    // However its lines are folded.
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        table.contains("of ours none: no board file of Punctual is of this machine"),
        "{table}"
    );
    assert!(
        table.contains("by priority: 4 TPCs in multiples of 4; nothing keeps partitions apart"),
        "{table}"
    );
    assert!(table.contains("cuGreenCtxStreamCreate"), "{table}");
}

#[test]
fn a_process_that_does_not_come_back_costs_a_mechanism_and_no_more() {
    let folder = scratch("dies");
    // The first launch of each process breaks its context.
    let config = Config {
        launch_faults: vec![emulated_cuda::LaunchFault {
            nth: 0,
            code: Some(719),
        }],
        ..small()
    };
    let output = emulated(&folder, &config, &["--json"]);
    assert_eq!(partitions(&output).0, "priority");
    let reason = gpu(&output)["partitions"]["refused"][0]["reason"].to_string();
    assert!(reason.contains("CUDA_ERROR_LAUNCH_FAILED"), "{reason}");
}

#[test]
fn a_board_file_is_written_once() {
    let folder = scratch("written");
    let file = folder.join("bench.toml");
    let arguments = ["--write", file.to_str().expect("text")];
    let output = emulated(&folder, &small(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(&file).expect("the board file");
    let board = Board::parse(&text, &file).expect("a board file");
    let gpu = board.gpu.expect("it has a GPU");
    assert_eq!((gpu.sm.value, gpu.tpc.value), (8, 4));
    assert!(text.contains("# Partitions by stream-mask: 4 TPCs in multiples of 1."));
    let again = emulated(&folder, &small(), &arguments);
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    assert_eq!(fs::read_to_string(&file).expect("as before"), text);
}

#[test]
fn the_help_does_not_offer_what_is_for_itself_only() {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["board", "--help"])
        .output()
        .expect("the command runs");
    let help = String::from_utf8(output.stdout).expect("text");
    assert!(
        help.contains("detect") && !help.contains("calibrate"),
        "{help}"
    );
}

#[test]
fn without_a_gpu_a_profile_for_one_is_refused_before_anything_is_measured() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpu.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["profile", manifest])
        .env("CUDA_VISIBLE_DEVICES", "")
        .output();
    let output = output.expect("the command starts");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(output.stdout.is_empty(), "nothing is measured");
}

/// A driver that keeps masks at `offset`, where no row has them, and is harmed by who writes elsewhere.
fn moved(driver: u32, offset: u32, seed: u64) -> Config {
    Config {
        driver,
        mask_offset: Some(offset),
        fragile: Some(seed),
        tpcs: 2 + (seed % 4) as u32,
        spread: seed.is_multiple_of(2),
        ..Config::default()
    }
}

#[test]
fn the_place_of_masks_is_found_on_drivers_that_no_row_is_about_and_none_is_harmed() {
    // Versions without a row, and with one that is wrong about them; of both layouts.
    let drivers = [
        (13020, 0x5dc),
        (13020, 0x504),
        (13020, 0x47c),
        (13020, 0x65c),
        (13010, 0x54c),
        (13010, 0x534),
        (12090, 0x50c),
        (12090, 0x4d4),
        (13000, 0x524),
        (12060, 0x484),
        (11080, 0x45c),
        (11040, 0x3ac),
    ];
    for (seed, (driver, offset)) in (1..).zip(drivers) {
        let folder = scratch(&format!("moved-{seed}"));
        let config = moved(driver, offset, seed);
        let output = emulated(&folder, &config, &["--json", "--search"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let partitions = gpu(&output)["partitions"].clone();
        assert_eq!(partitions["mechanism"], "stream-mask", "{driver}: {said}");
        assert_eq!(partitions["tpcs"], config.tpcs);
        let words = if driver < 12000 { 2 } else { 5 };
        let place = format!("stream:{offset:#x}:{words}");
        assert_eq!(partitions["found"][0]["place"], place.as_str());
        assert!(said.contains("of at most"), "{said}");
        // It is used like a row from now on, without another trial.
        let later = emulated(&folder, &config, &["--json"]);
        assert_eq!(gpu(&later)["partitions"]["found"], partitions["found"]);
        assert_eq!(gpu(&later)["partitions"]["units"], partitions["units"]);
        let told = emulated(&folder, &config, &[]);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(
            told.contains("found here on") && told.contains(&place),
            "{told}"
        );
    }
}

#[test]
fn the_mask_in_descriptors_of_an_unknown_version_is_found() {
    let drivers = [
        ((12, 1), 0x52, Some(272)),
        ((11, 0), 0x51, None),
        ((9, 0), 0x42, Some(320)),
    ];
    for (at, (compute, version, moved)) in drivers.into_iter().enumerate() {
        let folder = scratch(&format!("descriptor-{at}"));
        let config = Config {
            compute,
            masks: false,
            descriptor: Some(version),
            descriptor_mask: moved,
            ..small()
        };
        let mut command = on_emulated(&folder, &config, &["--json", "--search"]);
        command.env("PUNCTUAL_GPU_MECHANISMS", "launch-mask");
        let output = command.output().expect("the command runs");
        assert_eq!(
            partitions(&output),
            ("launch-mask".to_owned(), 4, 1),
            "{output:?}"
        );
    }
}

#[test]
fn a_search_that_finds_nothing_says_how_far_it_came_and_green_contexts_divide_the_gpu() {
    let folder = scratch("nowhere");
    let config = Config {
        driver: 13020,
        mask_offset: Some(0x900),
        tpcs: 2,
        ..Config::default()
    };
    let output = emulated(&folder, &config, &["--json", "--search"]);
    assert_eq!(partitions(&output), ("green-contexts".to_owned(), 2, 1));
    let searched = gpu(&output)["partitions"]["searched"].clone();
    let ended = searched[0]["ended"].as_str().expect("text");
    assert!(
        ended.contains("places were tried; none of them had an effect"),
        "{ended}"
    );
}

#[test]
fn a_profile_is_for_the_boards_first_mode_where_none_is_named_and_the_plan_tells_what_is_recalled()
{
    let manifest = MANIFEST.replacen("board = \"host\"", "board = \"bench\"", 1);
    let folder = Folder::with(&manifest);
    let manifest = folder.path("manifest.toml");
    fs::create_dir_all(folder.path("boards")).expect("a folder");
    let board = "name = \"bench\"\ntitle = \"A bench\"\ncores = { source = \"detected\" }
memory_gib = { source = \"detected\" }
[power_modes]
30W = { cores = { is = 64, source = \"recalled\" }, source = \"seen\" }
MAXN = { source = \"seen\" }
[sources]
seen = \"Seen\"";
    fs::write(folder.path("boards/bench.toml"), board).expect("a board file");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        let output = command.args(arguments).arg(&manifest).output();
        output.expect("the command runs")
    };
    let measured = run(&["profile", "--quick"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let profile = Profile::read(&folder.path("signs.profile.json")).expect("a profile");
    assert_eq!(profile.key.power_mode, "30W");
    let checked = run(&["check", "--json"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let plan: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!(plan["power_mode"], "30W");
    let warnings = plan["warnings"].as_array().expect("a list");
    let recalled = warnings.iter().filter(|w| w["warning"] == "recalled");
    let figures: Vec<&Value> = recalled.map(|w| &w["figure"]).collect();
    assert_eq!(figures, ["64 cores in power mode \"30W\""]);
}
