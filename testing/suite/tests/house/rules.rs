//! The house rules that no compiler checks. An exception is a line here, so that it shows in a
//! diff; the lists may only get shorter.
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that may contain `unsafe`, and why.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    ("kernels", "vector instructions"),
    (
        "runtime/platform",
        "system calls, the allocator, memory maps",
    ),
    (
        "runtime/ipc",
        "shared memory with processes that are not trusted",
    ),
    ("runtime/client-c", "the client library's C interface"),
    (
        "libsmctrl-sys",
        "a C library, and memory of the CUDA driver",
    ),
    ("runtime/device-cuda", "the CUDA driver's C interface"),
    ("bench/cuda-measuring", "launches of kernels"),
    (
        "testing/emulated-driver",
        "the same interface from the other side",
    ),
    (
        "testing/ptx",
        "two modules: memory that kernels know by its address; vector instructions",
    ),
    (
        "runtime/device",
        "one module: request buffers that threads hand to each other",
    ),
    (
        "runtime/device-cpu",
        "one module: tensors and weights shared between the workers of a partition",
    ),
    (
        "runtime/device-ort",
        "one module: sessions of a C library on a stream and in device memory that are ours",
    ),
    (
        "hil-tests",
        "one module: descriptors and a futex, as an attacker uses them",
    ),
];

/// Lines of a source file before its tests. A file is one concept, mostly of 200 to 1,000 lines: it is
/// divided where state becomes private, not by a count of lines.
const LINES_MAX: usize = 1000;

const EMPTY_NAMES: &[&str] = &[
    "utils", "util", "helpers", "helper", "common", "misc", "stuff",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the root exists")
}

pub(crate) fn sources(extension: &str) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry"))
        {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with("target") && !name.starts_with('.') && name != "corpus" {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path).expect("text");
                let name = path
                    .strip_prefix(&root)
                    .expect("below the root")
                    .display()
                    .to_string();
                found.push((name, text));
            }
        }
    }
    found.sort();
    found
}

fn before_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"))
}

fn lines_before_tests(text: &str) -> usize {
    before_tests(text).count()
}

#[test]
fn source_files_fit_on_a_few_screens() {
    let mut too_long = Vec::new();
    for (name, text) in sources("rs") {
        if name.contains("/tests/") || name.contains("/fuzz/") {
            continue;
        }
        let lines = lines_before_tests(&text);
        if lines > LINES_MAX {
            too_long.push(format!("{name}: {lines} lines, limit {LINES_MAX}"));
        }
    }
    assert_eq!(too_long, Vec::<String>::new());
}

#[test]
fn unsafe_code_lives_only_in_the_named_crates() {
    let mut missing = Vec::new();
    for (name, text) in sources("rs") {
        let is_root = name.ends_with("src/lib.rs") || name.ends_with("src/main.rs");
        if !is_root || name.contains("/fuzz/") {
            continue;
        }
        let allowed = UNSAFE_ALLOWED
            .iter()
            .any(|(folder, _)| name.starts_with(folder));
        if !allowed && !text.contains("#![forbid(unsafe_code)]") {
            missing.push(name);
        }
    }
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "these lack #![forbid(unsafe_code)]"
    );
}

#[test]
fn every_module_is_named_after_a_concept() {
    for (name, _) in sources("rs") {
        let stem = Path::new(&name)
            .file_stem()
            .expect("a stem")
            .to_string_lossy()
            .into_owned();
        assert!(
            !EMPTY_NAMES.contains(&stem.as_str()),
            "{name}: name the concept"
        );
    }
}

#[test]
fn nothing_refers_to_what_lies_outside_the_repository() {
    // The needle is put together so that this file does not contain it.
    let needle = ["..", "/shared"].concat();
    let read_by_tests = ["data", "cases"].map(|folder| format!("{needle}/{folder}"));
    for extension in ["rs", "toml", "md", "py", "sh"] {
        for (name, text) in sources(extension) {
            for line in text.lines().filter(|line| line.contains(&needle)) {
                let is_read = read_by_tests.iter().any(|folder| line.contains(folder));
                assert!(name.contains("tests/") && is_read, "{name}: {line}");
            }
        }
    }
}

/// What was written about hardware before there were marks.
const WITHOUT_A_MARK: &[&str] = &[
    "yet run on hardware",
    "yet run on a jetson",
    "no jetson yet",
    "nothing has run on",
];

#[test]
fn what_is_said_of_hardware_has_a_mark_that_the_table_of_runs_knows() {
    let table = fs::read_to_string(root().join("docs/results/README.md")).expect("the table");
    let known = |hardware: &str, date: &str| table.contains(&format!("| {hardware} | {date} |"));
    let mut wrong = Vec::new();
    let mut marks = 0;
    for (path, text) in ["md", "rs", "toml"].into_iter().flat_map(sources) {
        if path.ends_with("house/rules.rs") {
            continue;
        }
        let lower = text.to_lowercase();
        let unmarked = WITHOUT_A_MARK
            .iter()
            .filter(|words| lower.contains(**words));
        wrong.extend(
            unmarked
                .map(|words| format!("{path}: {words}: mark it (emulated) or (run on X on DATE)")),
        );
        for mark in text.split("(run on ").skip(1) {
            let mark = mark.split(')').next().unwrap_or_default();
            let Some((hardware, date)) = mark.split_once(" on ") else {
                continue;
            };
            marks += 1;
            if hardware != "X" && !known(hardware, date) {
                wrong.push(format!(
                    "{path}: ({mark}): docs/results/README.md has no such run"
                ));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(marks > 10, "{marks}");
}

#[test]
fn no_test_and_no_product_code_sleeps() {
    let needle = ["thread", "::sleep("].concat();
    for (name, text) in sources("rs") {
        assert!(
            !text.contains(&needle),
            "{name}: wait for an event with a bound instead"
        );
    }
}

/// What real-time threads run: a folder, the beginning of a path, or a file.
const REALTIME: &[&str] = &[
    "kernels/src/",
    "kernels/cuda/src/",
    "runtime/core/src/",
    "runtime/daemon/src/driver.rs",
    "runtime/daemon/src/intake.rs",
    "runtime/daemon/src/metrics/",
    "runtime/daemon/src/pace.rs",
    "runtime/daemon/src/port.rs",
    "runtime/daemon/src/wake_budget.rs",
    "runtime/daemon/src/world",
    "runtime/device",
    "runtime/executor/src/",
    "runtime/policy-seeb/src/",
];

/// Words are made on the heap: these threads write typed values (`runtime/platform/src/rt_log.rs`). The
/// backend of `log` refuses them when they run; this finds it sooner.
#[test]
fn what_real_time_threads_run_says_nothing_in_words() {
    let sources = sources("rs");
    for path in REALTIME {
        let ran: Vec<_> = sources
            .iter()
            .filter(|(name, _)| name.starts_with(path))
            .collect();
        assert!(!ran.is_empty(), "{path} is gone: where is it now?");
        for (name, text) in ran {
            for line in text.lines() {
                let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
                let mut says = words.filter(|word| word.starts_with("log::"));
                assert_eq!(says.next(), None, "{name}: {line}");
            }
        }
    }
}

/// Macros of `log` that say a sentence of their own.
const SAYING: &[&str] = &["error!", "warn!", "info!", "debug!", "trace!", "log!"];

/// Commands of the daemon's program that serve nothing and end: their lines answer the one who started them.
const ANSWERING: &[&str] = &["last_good.rs", "reload.rs"];

/// Lines that say something in words.
fn said_in_words(text: &str) -> Vec<&str> {
    let code = before_tests(text).filter(|line| !line.trim_start().starts_with("//"));
    let is_macro = |word: &str| SAYING.contains(&word);
    let is_apart = |c: char| !(c.is_alphanumeric() || c == '_' || c == '!');
    code.filter(|line| line.split(is_apart).any(is_macro))
        .collect()
}

#[test]
fn the_daemon_says_nothing_but_events_of_the_list() {
    for (name, text) in sources("rs") {
        let Some(file) = name.strip_prefix("runtime/daemon/src/") else {
            continue;
        };
        let said = said_in_words(&text);
        let answers = ANSWERING.contains(&file);
        assert_eq!(
            !said.is_empty(),
            answers,
            "{name}: {said:?}: declare it in runtime/events/src/list.rs"
        );
    }
    let planted = "    log::warn!(\"{client} is late\");\n    // warn!\n    debug_assert!(x);";
    assert_eq!(said_in_words(planted).len(), 1);
}

/// Read the kernel's files, by paths that do not stand on the line.
const KERNEL: &[&str] = &[
    "runtime/daemon/src/host.rs",
    "runtime/device-cpu/src/machine.rs",
    "runtime/platform/src/control_group.rs",
    "runtime/platform/src/dma_buf.rs",
];

/// Programs that print by themselves: tools of this tree's developers, and a library in the place of a driver.
const PRINTING: &[&str] = &["testing/emulated-driver/", "testing/vectors/"];

/// What has a handle to pages or queues of a client, and where the daemon may name it.
const CLIENTS_OWN: &[(&str, &[&str])] = &[
    ("Submissions", &["port.rs", "channels.rs"]),
    ("Results", &["port.rs", "channels.rs"]),
    ("PayloadReader", &["intake.rs", "channels.rs"]),
    ("ServerChannel", &["acceptor.rs", "pools.rs"]),
];

#[test]
fn only_threads_that_serve_one_client_have_a_handle_to_what_it_can_make_slow() {
    let mut found = Vec::new();
    for (name, text) in sources("rs") {
        let Some(file) = name.strip_prefix("runtime/daemon/src/") else {
            continue;
        };
        let code = before_tests(&text).filter(|line| !line.trim_start().starts_with("//"));
        let is_apart = |c: char| !(c.is_alphanumeric() || c == '_');
        let words: Vec<&str> = code.flat_map(|line| line.split(is_apart)).collect();
        for (handle, places) in CLIENTS_OWN {
            let named = words.contains(handle);
            if named && !places.contains(&file) && !file.ends_with("tests.rs") {
                found.push(format!("{name} names {handle}: decision 19"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Words and lines of pages have the colour of their reader's scheme, which only the style sheet knows.
#[test]
fn no_page_or_picture_is_black_or_white_in_itself() {
    let of_one_scheme = ["#000000", "#ffffff", "#000", "#fff", "black", "white"];
    let has = |line: &str| of_one_scheme.map(|colour| line.contains(&format!("\"{colour}\"")));
    let sources = sources("rs").into_iter().chain(sources("js"));
    let found: Vec<String> = sources
        .filter(|(name, text)| {
            // What it replaces in the charts of its library.
            name != "runtime/report/src/plot.rs"
                && !name.starts_with("testing/suite/")
                && before_tests(text).any(|line| has(line).contains(&true))
        })
        .map(|(name, _)| name)
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_program_ends_in_a_panic_when_nobody_reads_what_it_prints() {
    let macros = ["print!(", "println!("];
    let mut found = Vec::new();
    for (name, text) in sources("rs") {
        let product = name.contains("/src/") && !name.contains("tests");
        if !product || PRINTING.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let lines = text.lines().take(lines_before_tests(&text)).enumerate();
        for (at, line) in lines.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if macros.iter().any(|print| line.contains(print)) {
                found.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert_eq!(
        found,
        Vec::<String>::new(),
        "print by punctual_platform::output"
    );
}

#[test]
fn files_that_a_user_names_are_opened_by_one_function() {
    let opening = ["fs::read(", "fs::read_to_string(", " File::open("];
    let mut found = Vec::new();
    for (name, text) in sources("rs") {
        let product = name.contains("/src/") && !name.contains("tests");
        if !product
            || PRINTING
                .iter()
                .chain(KERNEL)
                .any(|file| name.starts_with(file))
        {
            continue;
        }
        let lines = text.lines().take(lines_before_tests(&text)).enumerate();
        // The kernel's own files are what they are.
        let kernel = |line: &str| {
            ["/proc/", "/sys/", "/dev/"]
                .iter()
                .any(|at| line.contains(at))
        };
        let example = |line: &str| line.trim_start().starts_with("//");
        for (at, line) in lines.filter(|(_, line)| !kernel(line) && !example(line)) {
            if opening.iter().any(|open| line.contains(open)) {
                found.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert_eq!(
        found,
        Vec::<String>::new(),
        "read by punctual_platform::read"
    );
}

#[test]
fn every_crate_says_what_it_is() {
    for (name, text) in sources("rs") {
        if name.ends_with("src/lib.rs") || name.ends_with("src/main.rs") {
            assert!(
                text.starts_with("//!"),
                "{name} does not start with its purpose"
            );
        }
    }
}

#[test]
fn every_link_of_a_document_leads_to_a_file() {
    let mut broken = Vec::new();
    for (name, text) in sources("md") {
        let folder = root().join(&name);
        let folder = folder.parent().expect("a folder");
        let links = text.split("](").skip(1);
        let targets = links.filter_map(|link| link.split([')', '#', ' ']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            if !folder.join(target).exists() {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// `runtime/core/src/ids.rs` in a document, but for what the changelog says about the past and for `NAME.rs`.
#[test]
fn every_file_that_a_document_names_is_there() {
    let mut broken = Vec::new();
    for (name, text) in sources("md") {
        let words = text.split('`').skip(1).step_by(2);
        let paths = words.filter(|word| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let (room, rest) = word.split_once('/').unwrap_or_default();
            ROOMS.contains(&room) && !rest.is_empty() && word.chars().all(plain)
        });
        for path in paths.filter(|path| !path.contains("NAME") && name != "CHANGELOG.md") {
            if !root().join(path).exists() {
                broken.push(format!("{name}: {path}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// Top folders whose files documents name.
const ROOMS: [&str; 14] = [
    "bench",
    "boards",
    "docs",
    "examples",
    "hil-tests",
    "kernels",
    "libsmctrl-sys",
    "models",
    "monitoring",
    "packaging",
    "research",
    "runtime",
    "systemd",
    "testing",
];
