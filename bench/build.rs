//! What reports contain about this program: the commit that it was built from, the target, and a hash of each archive of kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the commit where there is no working copy to ask.
const COMMIT: &str = "PUNCTUAL_COMMIT";
const IMAGES: &str = "../kernels/cuda/images";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={IMAGES}");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    // Another commit is checked out, or one is made. Changes that are not committed are those of that moment.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = std::env::var(COMMIT).ok().or_else(commit);
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={COMMIT}={commit}");
    let target = std::env::var("TARGET").expect("cargo names the target");
    println!("cargo::rustc-env=PUNCTUAL_TARGET={target}");
    println!("cargo::rustc-env=PUNCTUAL_IMAGES={}", images().join(" "));
}

fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "-uno"]).is_some();
    Some(commit + if changed { " with changes" } else { "" })
}

/// `name:hash` of each archive.
fn images() -> Vec<String> {
    let entries = fs::read_dir(IMAGES).expect("the archives of kernels");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "images"))
        .collect();
    paths.sort();
    let hashed = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy();
        let bytes = fs::read(&path).expect("an archive of kernels");
        format!("{name}:{}", blake3::hash(&bytes).to_hex())
    };
    paths.into_iter().map(hashed).collect()
}

/// What git says, if it is there and says something.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
