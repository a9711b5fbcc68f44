//! Whatever stands in a manifest: a diagnosis in bounded time, never a panic.

use std::path::Path;

use punctual_diagnostics::{Diagnostics, Invalid};
use punctual_plan::{Needs, Plan, Policies};

const GOOD: &str = include_str!("../manifests/good/demo.toml");

fn refused(text: &str) -> Diagnostics {
    let errors = Plan::build(&crate::fixture::inputs(text, "hostile.toml")).expect_err("hostile");
    let shown = errors.to_string();
    assert!(
        shown.len() < 1 << 20,
        "a diagnosis of {} bytes",
        shown.len()
    );
    assert!(!errors.to_json().is_empty());
    errors
}

/// The manifest with one value replaced.
fn with(line: &str, replacement: &str) -> String {
    assert!(GOOD.contains(line), "{line}");
    GOOD.replacen(line, replacement, 1)
}

#[test]
fn ten_megabytes_are_not_looked_into() {
    for filling in ["#", "[", "a = 1\n", "[[task]]\n", "\u{1F600}"] {
        let errors = refused(&filling.repeat(10_000_000 / filling.len()));
        let [problem] = errors.problems() else {
            panic!("{errors}");
        };
        assert!(matches!(problem.cause(), Some(Invalid::Refused(..))));
    }
}

#[test]
fn garbage_is_diagnosed_at_bounded_length() {
    for filling in [
        "]",
        "[",
        "{",
        "=",
        "\"",
        "a.",
        "a={",
        "x=[",
        "\n[[task]]\nq",
        "[[model]]\n",
        "é=1\n",
        "0",
        "task=1\n",
        "\u{0}",
        "\r",
        "[a]\n",
        "a.a.a.a=1\n",
    ] {
        // Of the largest size that is read it takes seconds in a debug build.
        refused(&filling.repeat((1 << 16) / filling.len()));
    }
    let cores = "0, ".repeat(30_000);
    refused(&with("units = 1", &format!("cores = [{cores}]")));
    refused(&with("[daemon]", &format!("[daemon]\ncores = [{cores}]")));
    refused(&with("crop = [192, 192]", &format!("crop = [{cores}]")));
}

#[test]
fn hostile_numbers_of_tpcs_are_diagnosed() {
    let gpu = include_str!("../manifests/good/gpu.toml");
    for tpcs in [
        "-1",
        "0",
        "3",
        "1.5",
        "nan",
        "\"4\"",
        "[4]",
        "{}",
        "true",
        "65536",
        "18446744073709551616",
        "0x7fffffffffffffff",
    ] {
        refused(&gpu.replacen("tpcs = 4", &format!("tpcs = {tpcs}"), 1));
    }
    let partition = "[[partition]]\nname = \"front\"\ntpcs = 2\n";
    refused(&format!("{gpu}\n{}", partition.repeat(1_000)));
}

#[test]
fn numbers_that_are_none_and_numbers_beyond_all_limits_are_refused() {
    for (line, key) in [
        ("rate_hz = 30", "rate_hz"),
        ("deadline_ms = 33", "deadline_ms"),
        ("mandatory_exit = 0", "mandatory_exit"),
        ("threshold = 0.9", "threshold"),
        ("batch_max = 4", "batch_max"),
        ("queue_depth = 8", "queue_depth"),
        ("clients = 1", "clients"),
        ("units = 1", "units"),
        ("board = \"host\"", "board = \"host\"\nbudget_factor"),
        ("board = \"host\"", "board = \"host\"\nnoise_us"),
        ("board = \"host\"", "board = \"host\"\ndrain_timeout_ms"),
        ("board = \"host\"", "board = \"host\"\nmemory_mb"),
        ("board = \"host\"", "board = \"host\"\npriority"),
    ] {
        for number in [
            "nan",
            "-nan",
            "inf",
            "-inf",
            "-1",
            "1e308",
            "-1e308",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "0xffffffffffffffffff",
            "-0.1",
        ] {
            let errors = refused(&with(line, &format!("{key} = {number}")));
            let name = key.rsplit('\n').next().expect("a last line");
            let said = errors
                .problems()
                .iter()
                .any(|problem| problem.key.ends_with(name));
            assert!(said, "{key} = {number}:\n{errors}");
        }
    }
}

#[test]
fn a_frame_of_any_size_is_checked_without_overflow() {
    for size in [
        "0",
        "1",
        "16384",
        "16385",
        "4294967296",
        "9223372036854775807",
    ] {
        for key in ["width = 640", "height = 480"] {
            let name = key.split(' ').next().expect("a name");
            // All of these are wrong: too small for the crop, not profiled, or beyond the limits.
            refused(&with(key, &format!("{name} = {size}")));
        }
        refused(&with("crop = [192, 192]", &format!("crop = [{size}, 192]")));
        refused(&with(
            "width = 640",
            &format!("stride = {size}, width = 9640"),
        ));
    }
}

#[test]
fn a_frame_that_no_channel_takes_is_refused() {
    let errors = refused(&with(
        "width = 640, height = 480",
        "width = 16384, height = 16384",
    ));
    assert!(
        errors.to_string().contains("expected 1 to 67108864 bytes"),
        "{errors}"
    );
}

#[test]
fn more_tables_than_there_is_room_for_are_counted_and_not_read() {
    for (table, limit) in [("model", 4_096), ("partition", 32), ("task", 4_096)] {
        let tables = format!("[[{table}]]\nname = \"a\"\n").repeat(5_000);
        let errors = refused(&format!("{GOOD}\n{tables}"));
        let too_many = errors.problems().iter().any(
            |problem| matches!(problem.cause(), Some(Invalid::TooMany { limit: most, .. }) if *most == limit),
        );
        assert!(too_many, "{errors}");
    }
}

#[test]
fn names_of_files_stay_names() {
    for board in [
        "../../etc/passwd",
        "/etc/passwd",
        "host/../host",
        "",
        "host\\u0000",
    ] {
        refused(&with("board = \"host\"", &format!("board = \"{board}\"")));
    }
}

#[test]
fn every_truncation_of_a_good_manifest_is_diagnosed_at_a_place_within_it() {
    for end in (0..GOOD.len()).step_by(7) {
        let text = &GOOD[..end];
        let Err(errors) = Plan::build(&crate::fixture::inputs(text, "cut.toml")) else {
            continue;
        };
        let lines = text.lines().count() as u32 + 1;
        let places = errors
            .problems()
            .iter()
            .filter_map(|problem| problem.place.as_ref());
        for place in places {
            assert!(
                place.line >= 1 && place.line <= lines,
                "{place:?} of {lines}"
            );
        }
        // The problems found in a manifest alone are some of those found in its plan.
        if let Err(alone) = Needs::of_manifest(
            text,
            Path::new("cut.toml"),
            &Policies::shipped(),
            &crate::fixture::cores(4),
        ) {
            assert!(alone.problems().len() <= errors.problems().len());
        }
    }
}
