//! The board files of the repository: each is part of the program, valid, and says where each of
//! its figures comes from.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_plan::Board;

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
        assert!(!board.power_modes.value.is_empty(), "{name}");
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
