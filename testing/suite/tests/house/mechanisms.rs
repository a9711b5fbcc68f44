//! Profiles hold for one mechanism of preemption: who changes its sources decides whether its number is raised.

use std::collections::BTreeMap;

use super::rules::root;

const RECORD: &str = "testing/golden/preemption.txt";

/// Where a mechanism has its number, and what makes it.
struct Sources {
    name: &'static str,
    number: &'static str,
    files: &'static [&'static str],
}

const MECHANISMS: [Sources; 2] = [
    Sources {
        name: "cores",
        number: "runtime/device/src/pool/mod.rs",
        files: &[
            "runtime/device/src/pool/cancel.rs",
            "runtime/device/src/pool/priority.rs",
            "runtime/device/src/profile/preemption.rs",
        ],
    },
    Sources {
        name: "gpu",
        number: "runtime/device-cuda/src/queue/mod.rs",
        files: &[
            "kernels/cuda/src/guard.cuh",
            "runtime/device-cuda/src/queue/ledger.rs",
            "runtime/device-cuda/src/queue/virtual_queue.rs",
            "runtime/device-cuda/src/queue/words.rs",
            "runtime/device/src/profile/preemption.rs",
        ],
    },
];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a compiler sees of a source, roughly: comments, tests and spaces may change.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines = code.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// FNV-1a, 64 bits.
fn hash(texts: impl Iterator<Item = String>) -> u64 {
    let bytes = texts.flat_map(String::into_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// `name number hash`, a line each.
fn present() -> String {
    let line = |of: &Sources| {
        let text = read(of.number);
        let number = text.split("MECHANISM: Mechanism = Mechanism(").nth(1);
        let number = number.and_then(|rest| rest.split(')').next());
        let number = number.unwrap_or_else(|| panic!("{} has no MECHANISM", of.number));
        let hash = hash(of.files.iter().map(|file| code(&read(file))));
        format!("{} {number} {hash:016x}\n", of.name)
    };
    MECHANISMS.iter().map(line).collect()
}

#[test]
fn who_changes_how_stages_are_stopped_decides_whether_profiles_are_measured_again() {
    let present = present();
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        std::fs::write(root().join(RECORD), &present).expect("a writable tree");
    }
    let of = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
            .collect()
    };
    assert_eq!(
        of(&present),
        of(&read(RECORD)),
        "the sources of a preemption mechanism changed: raise its MECHANISM if a stage may now be stopped later than before, so that \
         profiles are measured again; then record it with PUNCTUAL_REWRITE=1"
    );
}
