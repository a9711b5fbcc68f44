//! Golden files: what `punctual check` says of good and of bad manifests. After a wanted change,
//! run with `PUNCTUAL_REWRITE=1` and read the difference.

mod fixture;

use std::fs;
use std::path::{Path, PathBuf};

use punctual_plan::{Plan, PlanErrors};

fn manifests(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/manifests")
        .join(folder);
    let entries = fs::read_dir(&folder).expect("the folder of manifests");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no manifests in {}", folder.display());
    found
}

fn build(path: &Path) -> Result<Plan, PlanErrors> {
    let text = fs::read_to_string(path).expect("a manifest");
    let name = path.file_name().expect("a name").to_string_lossy();
    Plan::build(&fixture::inputs(&text, &name))
}

/// Hashes change with the package format, which is not what is tested here.
fn without_hashes(text: &str, plan: Option<&Plan>) -> String {
    let package = fixture::package().hash().to_string();
    let mut text = text
        .replace(&package, "<package>")
        .replace(&package[..8], "<package>");
    if let Some(plan) = plan {
        text = text.replace(&plan.hash.as_str()[..16], "<plan>");
    }
    text
}

fn compare(manifest: &Path, said: &str) {
    let golden = manifest.with_extension("expected");
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        fs::write(&golden, said).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(
        said,
        expected,
        "{} differs; see PUNCTUAL_REWRITE",
        golden.display()
    );
}

#[test]
fn good_manifests_give_the_expected_tables() {
    for manifest in manifests("good") {
        match build(&manifest) {
            Ok(plan) => {
                let said = plan.to_string();
                let tables = said.lines().filter(|line| !line.starts_with("warning"));
                let widest = tables.map(|line| line.chars().count()).max();
                assert!(widest <= Some(140), "{widest:?}\n{said}");
                compare(&manifest, &without_hashes(&said, Some(&plan)));
            }
            Err(errors) => panic!("{}:\n{errors}", manifest.display()),
        }
    }
}

#[test]
fn bad_manifests_give_the_expected_diagnostics() {
    for manifest in manifests("bad") {
        match build(&manifest) {
            Ok(plan) => panic!("{} was accepted:\n{plan}", manifest.display()),
            Err(errors) => compare(&manifest, &without_hashes(&format!("{errors}\n"), None)),
        }
    }
}
