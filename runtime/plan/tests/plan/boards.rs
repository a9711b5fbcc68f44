//! The board files of the repository: each is part of the program, valid, and says where each of
//! its figures comes from.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_plan::{Board, Difference};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards")
}

fn texts() -> Vec<(String, String)> {
    let entries = fs::read_dir(folder()).expect("the folder of boards");
    let mut texts: Vec<(String, String)> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read_to_string(&path).expect("text"))
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn every_board_file_is_part_of_the_program() {
    let files: Vec<String> = texts().into_iter().map(|(name, _)| name).collect();
    let mut names: Vec<&str> = Board::builtin_names().collect();
    names.sort_unstable();
    assert_eq!(files, names);
}

#[test]
fn every_board_file_parses_and_is_named_like_its_board() {
    for name in Board::builtin_names() {
        let board = Board::builtin(name).expect("it is named");
        assert_eq!(board.name, name);
        assert!(!board.power_modes.is_empty(), "{name}");
        assert!(!board.default_power_mode().is_empty(), "{name}");
    }
    assert!(Board::builtin("jetson-nano-banana").is_none());
}

#[test]
fn streaming_multiprocessors_are_shared_out_evenly_among_clusters() {
    for board in Board::builtin_names().filter_map(Board::builtin) {
        let Some(gpu) = board.gpu else { continue };
        let (sm, tpc) = (gpu.sm.value, gpu.tpc.value);
        assert!(tpc > 0 && sm % tpc == 0, "{}: {sm} over {tpc}", board.name);
        if let Some(gpc) = gpu.gpc {
            assert!(gpc.value > 0 && gpc.value <= tpc, "{}", board.name);
        }
    }
}

#[test]
fn every_source_of_a_board_is_used_by_a_figure() {
    for (name, text) in texts() {
        let board = Board::parse(&text, Path::new(&name)).expect("valid");
        let used: BTreeSet<&str> = text
            .split("source = \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        for source in &board.sources {
            assert!(used.contains(source.name.as_str()), "{name}: {source:?}");
        }
    }
}

#[test]
fn a_figure_without_its_source_is_refused() {
    let host = fs::read_to_string(folder().join("host.toml")).expect("text");
    let unsourced = host.replace(", source = \"definition\"", "");
    let unlisted = host.replace("definition =", "nothing =");
    let misspelt = host.replace("memory_gib", "memory_gb");
    for (text, reason) in [
        (unsourced, "`source` is missing"),
        (unlisted, "\"definition\" is not listed under [sources]"),
        (misspelt, "did you mean `memory_gib`?"),
    ] {
        assert_ne!(text, host);
        let errors = Board::parse(&text, Path::new("host.toml")).expect_err("it is wrong");
        assert!(errors.to_string().contains(reason), "{errors}");
    }
}

#[test]
fn no_mode_has_more_on_than_the_board_has_and_one_has_all_of_it() {
    for board in Board::builtin_names().filter_map(Board::builtin) {
        let Some(gpu) = &board.gpu else { continue };
        let cores = board.cores.as_ref().expect("a figure").value;
        let modes = || board.power_modes.iter();
        let most_cores = modes()
            .filter_map(|mode| Some(mode.cores.as_ref()?.value))
            .max();
        let most_tpcs = modes()
            .filter_map(|mode| Some(mode.tpc.as_ref()?.value))
            .max();
        assert_eq!(most_cores, Some(cores), "{}", board.name);
        assert_eq!(most_tpcs, Some(gpu.tpc.value), "{}", board.name);
        let nothing = |mode: &punctual_plan::PowerMode| {
            let mut counts = [&mode.cores, &mode.tpc].into_iter().flatten();
            counts.any(|fact| fact.value == 0)
        };
        assert!(!modes().any(nothing), "{}", board.name);
    }
}

#[test]
fn a_plan_for_a_board_as_delivered_rests_on_nothing_that_is_recalled() {
    for board in Board::builtin_names().filter_map(Board::builtin) {
        let mode = board.power_mode(board.default_power_mode());
        let mode = mode.expect("the default is one of them");
        let counts = [&mode.cores, &mode.tpc].into_iter().flatten();
        let counts = counts.map(|fact| &fact.source);
        let memory = board.memory_bytes.iter().map(|fact| &fact.source);
        let mut sources = counts.chain(memory).chain([&mode.source]);
        assert!(
            !sources.any(|source| source == "recalled"),
            "{}",
            board.name
        );
    }
}

/// A board file with these lines on its modes.
fn with_modes(modes: &str) -> String {
    let board = "name = \"b\"\ntitle = \"B\"\ncores = { source = \"detected\" }
        memory_gib = { source = \"detected\" }\n";
    format!("{board}{modes}\n[sources]\ntable = \"T\"\nseen = \"S\"")
}

fn parsed(text: &str) -> Board {
    Board::parse(text, Path::new("boards/b.toml")).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn modes_come_in_the_files_order_each_figure_with_the_modes_source_or_its_own() {
    let board = parsed(&with_modes(
        "[power_modes]
        30W = { cores = 8, tpc = 4, gpu_mhz = { is = 612, source = \"seen\" }, source = \"table\" }
        15W = { cores = 4, cpu_mhz = 1113.6, source = \"table\" }",
    ));
    assert_eq!(board.default_power_mode(), "30W");
    let mode = board.power_mode("30W").expect("it is there");
    let cores = mode.cores.as_ref().expect("a figure");
    assert_eq!((cores.value, &cores.source[..]), (8, "table"));
    let clock = mode.gpu_mhz.as_ref().expect("a figure");
    assert_eq!((clock.value, &clock.source[..]), (612.0, "seen"));
    let least = board.power_mode("15W").expect("it is there");
    assert_eq!((&least.tpc, &least.gpu_mhz), (&None, &None));
    assert!(board.power_mode("50W").is_none());
}

#[test]
fn a_list_of_modes_says_their_names_alone() {
    let board = parsed(&with_modes(
        "power_modes = { is = [\"15W\", \"7W\"], source = \"table\" }",
    ));
    assert_eq!(board.default_power_mode(), "15W");
    let mode = board.power_mode("7W").expect("it is there");
    assert_eq!((&mode.cores, &mode.tpc), (&None, &None));
}

#[test]
fn what_is_wrong_with_a_mode_is_said_at_its_line() {
    for (modes, reason) in [
        ("15W = { cores = 4 }", "`source` is missing"),
        (
            "15W = { cores = 4, source = \"hearsay\" }",
            "\"hearsay\" is not listed under [sources]",
        ),
        (
            "15W = { tpcs = 4, source = \"table\" }",
            "did you mean `tpc`?",
        ),
        ("15W = 4", "a table"),
    ] {
        let text = with_modes(&format!("[power_modes]\n{modes}"));
        let errors = Board::parse(&text, Path::new("b.toml")).expect_err("it is wrong");
        let text = errors.to_string();
        assert!(text.contains(reason), "{text}");
        assert!(text.contains("key: power_modes.15W"), "{text}");
    }
    let none = with_modes("").replace("table = \"T\"\nseen = \"S\"", "");
    let errors = Board::parse(&none, Path::new("b.toml")).expect_err("there are none");
    assert!(
        errors.to_string().contains("`power_modes` is missing"),
        "{errors}"
    );
}

#[test]
fn a_machine_is_known_by_its_device_tree_and_where_that_does_not_tell_by_its_memory() {
    let board = |compatible: &[&str], gib: u64| {
        let names: Vec<String> = compatible.iter().map(|&name| name.to_owned()).collect();
        // A part of it is the kernel's.
        let board = Board::of_machine(&names, Some((gib << 30) - (700 << 20)));
        board.map(|board| board.name)
    };
    for (compatible, gib, name) in [
        ("nvidia,p3737-0000+p3701-0005", 64, "jetson-agx-orin-64gb"),
        ("nvidia,p3737-0000+p3701-0004", 32, "jetson-agx-orin-32gb"),
        // A developer kit with the cores and TPCs of the larger one.
        ("nvidia,p3737-0000+p3701-0000", 32, "jetson-agx-orin-64gb"),
        (
            "nvidia,p3768-0000+p3767-0005-super",
            8,
            "jetson-orin-nano-8gb",
        ),
        // On somebody else's carrier.
        ("acme,crane+p3767-0000", 16, "jetson-orin-nx-16gb"),
        ("nvidia,p2972-0000", 32, "jetson-agx-xavier-32gb"),
        ("nvidia,p2972-0000", 64, "jetson-agx-xavier-64gb"),
        ("nvidia,p3834-0008", 128, "jetson-thor-t5000"),
    ] {
        let found = board(&[compatible, "nvidia,tegra"], gib);
        assert_eq!(found.as_deref(), Some(name), "{compatible}");
    }
    assert_eq!(board(&["raspberrypi,5-model-b", "brcm,bcm2712"], 8), None);
    assert_eq!(board(&[], 8), None);
}

#[test]
fn every_board_of_ours_is_known_by_each_string_that_its_file_has() {
    for board in Board::builtin_names().filter_map(Board::builtin) {
        let bytes = board.memory_bytes.as_ref().map(|fact| fact.value);
        for name in board.compatible.iter().flat_map(|fact| &fact.value) {
            let found = Board::of_machine(std::slice::from_ref(name), bytes);
            let found = found.map(|found| found.name);
            assert_eq!(found.as_deref(), Some(&board.name[..]), "{name}");
        }
    }
}

#[test]
fn what_a_machine_has_otherwise_is_told_figure_by_figure() {
    let ours = parsed(&with_modes(
        "[power_modes]
        30W = { cores = 8, tpc = 4, gpu_mhz = 612, source = \"table\" }
        15W = { cores = 4, tpc = 3, source = \"table\" }
        7W = { source = \"table\" }
        [gpu]
        architecture = { is = \"Ampere\", source = \"table\" }
        compute_capability = { is = \"8.7\", source = \"table\" }
        sm = { is = 16, source = \"table\" }
        tpc = { is = 8, source = \"table\" }
        cuda = { oldest = \"11.4\", newest = \"13.2\", source = \"table\" }",
    ));
    let here = parsed(&with_modes(
        "[power_modes]
        30W = { cores = 8, tpc = 4, gpu_mhz = 612.75, source = \"detected\" }
        15W = { cores = 6, cpu_mhz = 960, source = \"detected\" }
        25W = { source = \"detected\" }
        [gpu]
        architecture = { is = \"Ampere\", source = \"detected\" }
        compute_capability = { is = \"8.7\", source = \"detected\" }
        sm = { is = 16, source = \"detected\" }
        tpc = { is = 8, source = \"detected\" }
        cuda = { is = \"13.10\", source = \"detected\" }",
    ));
    let difference = |figure: &str, listed: &str, found: &str| Difference {
        figure: figure.to_owned(),
        listed: listed.to_owned(),
        found: found.to_owned(),
    };
    let expected = [
        difference("CUDA", "11.4 to 13.2", "13.10"),
        difference("cores in 15W", "4", "6"),
        difference("power mode 7W", "listed", "not there"),
        difference("power mode 25W", "not listed", "there"),
    ];
    assert_eq!(ours.differences(&here), expected);
    assert_eq!(ours.differences(&ours), []);
}
