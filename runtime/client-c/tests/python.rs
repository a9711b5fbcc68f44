//! The Python package of `runtime/client-python`, on the library that cargo has just built. Skipped,
//! saying so, where Python lacks what it needs. `PUNCTUAL_PYTHON` names another Python.

mod compiler;

use std::path::PathBuf;
use std::process::Command;

use compiler::{here, libraries};

fn package() -> PathBuf {
    here().join("../client-python")
}

/// A Python that has all of `modules`.
fn python(modules: &[&str]) -> Option<Command> {
    let name = std::env::var("PUNCTUAL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = format!(
        "import sys, {}; assert sys.version_info >= (3, 10)",
        modules.join(", ")
    );
    let has = Command::new(&name).args(["-c", &imports]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {name} (3.10 or later) with {modules:?} is not here");
        return None;
    }
    let mut command = Command::new(name);
    command
        .current_dir(package())
        .env("PYTHONPATH", package().join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PUNCTUAL_LIBRARY", libraries().join("libpunctual.so"))
        .env(
            "PUNCTUAL_ECHO_DAEMON",
            libraries().join("../examples/echo_daemon"),
        );
    Some(command)
}

fn must_pass(mut command: Command) {
    let output = command.output().expect("it was found before");
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}");
}

#[test]
fn the_package_passes_its_tests() {
    let Some(mut command) = python(&["numpy", "pytest"]) else {
        return;
    };
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    must_pass(command);
}

#[test]
fn the_package_is_typed() {
    let Some(mut command) = python(&["numpy", "pytest", "mypy"]) else {
        return;
    };
    command.args(["-m", "mypy", "--cache-dir", "/dev/null"]);
    must_pass(command);
}

#[test]
fn the_wheel_says_for_which_platform_it_is_and_needs_nothing_of_the_tree() {
    let Some(mut command) = python(&["numpy", "setuptools.command.bdist_wheel"]) else {
        return;
    };
    let to = std::env::temp_dir().join(format!("punctual-wheel-{}", std::process::id()));
    // Built from a copy: setuptools leaves folders next to the sources.
    let copy = to.join("runtime/client-python");
    std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
    let copied = Command::new("cp")
        .arg("-r")
        .args([package(), copy.clone()])
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    std::fs::copy(here().join("../../Cargo.toml"), to.join("Cargo.toml")).expect("copied");
    command
        .current_dir(&copy)
        .args(["setup.py", "-q", "bdist_wheel", "--dist-dir"])
        .arg(&to);
    must_pass(command);
    let names = std::fs::read_dir(&to).expect("a folder");
    let wheel = names
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .find(|name| name.ends_with(".whl"))
        .expect("a wheel");
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        wheel.starts_with(&format!("punctual-{version}-py3-none-linux_")),
        "{wheel}"
    );
    let installed = to.join("installed");
    let mut unpacked = python(&["numpy", "zipfile"]).expect("it was there");
    unpacked
        .args(["-m", "zipfile", "-e"])
        .args([&to.join(wheel), &installed]);
    must_pass(unpacked);
    let mut used = python(&["numpy"]).expect("it was there");
    used.current_dir("/")
        .env("PYTHONPATH", &installed)
        .env_remove("PUNCTUAL_LIBRARY")
        .args([
            "-c",
            "import punctual; punctual.decode.Head((64, 48)); print(punctual.__file__)",
        ]);
    must_pass(used);
    std::fs::remove_dir_all(&to).expect("removed");
}
