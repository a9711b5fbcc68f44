//! Golden files: what `punctual check` prints for good and for bad manifests. After a wanted change,
//! run with `PUNCTUAL_REWRITE=1` and read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_core::StageId;
use punctual_diagnostics::Diagnostics;
use punctual_model::{
    Calibration, Package, SolutionChoice, SolutionMemory, StageProfile, cut_where_they_part,
};
use punctual_plan::{ModelPlan, Needs, PackageInput, Plan, Policies};

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

fn build(path: &Path) -> Result<Plan, Diagnostics> {
    let text = fs::read_to_string(path).expect("a manifest");
    let name = path.file_name().expect("a name").to_string_lossy();
    Plan::build(&crate::fixture::inputs(&text, &name))
}

/// Hashes change with the package format, which is not what is tested here.
fn without_hashes(text: &str, plan: Option<&Plan>) -> String {
    let package = crate::fixture::package().hash().to_string();
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
                let said = format!("{plan:140}");
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

#[test]
fn the_solutions_of_a_profile_are_in_the_plan_and_what_they_take_in_its_memory() {
    let manifest = manifests("good").remove(0);
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let direct = crate::fixture::inputs(&text, "manifest.toml");
    let mut chosen = crate::fixture::inputs(&text, "manifest.toml");
    let profile = chosen.profiles[0].profile.as_mut().expect("a profile");
    profile.solutions = vec![SolutionChoice {
        operator: 0,
        batch: 1,
        units: 1,
        solution: "winograd-4x4".to_owned(),
    }];
    profile.solution_memory = SolutionMemory {
        weight_bytes: 40_000,
        scratch_bytes: 3_000,
    };
    let solutions = profile.solutions.clone();
    let plan = |inputs| Plan::build(inputs).expect("a good manifest");
    let (direct, chosen) = (plan(&direct), plan(&chosen));
    assert_eq!(direct.models[0].solutions, []);
    assert!(!direct.to_json().contains("solution"));
    assert_eq!(chosen.models[0].solutions, solutions);
    assert_ne!(direct.hash, chosen.hash, "another plan");
    let cores: usize = chosen.partitions.iter().map(|p| p.cores.len()).sum();
    let taken = 40_000 * chosen.models.len() as u64 + 3_000 * cores as u64;
    let planned = chosen.memory.total_bytes() - direct.memory.total_bytes();
    assert_eq!(planned, taken);
}

#[test]
fn the_first_exit_counts_unless_the_manifest_names_another_and_a_stage_without_one_is_refused() {
    const ONE: &str = r#"
        partition = [{ name = "main", cores = [2, 3] }]
        task = [{ package = "signs.punctual", rate_hz = 10, deadline_ms = 100 }]
    "#;
    // Of two networks whose first heads differ, what they have in common up to there is a stage without an exit.
    let headless = |text: &str| {
        let mut inputs = crate::fixture::inputs(text, "one.toml");
        let signs = crate::fixture::package().network().clone();
        let mut other = signs.clone();
        let head = signs.stages[0].operators[2].weights[0];
        let mut weights = other.weights.to_vec();
        weights[head.start as usize] += 1.0;
        other.weights = weights.into();
        let cut = cut_where_they_part(&[signs, other]).swap_remove(0);
        let package = Package::new(cut, Calibration::default()).expect("a valid network");
        let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
        profile.key.package = package.hash().to_string();
        profile.key.timing = package.timing().to_string();
        for stages in [&mut profile.stages, &mut profile.beside] {
            let last = stages.iter().filter(|entry| entry.stage == 2);
            let more: Vec<_> = last
                .map(|entry| StageProfile { stage: 3, ..*entry })
                .collect();
            stages.extend(more);
        }
        inputs.packages[0].package = Ok(package);
        Plan::build(&inputs)
    };
    let plan = headless(ONE).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.tasks[0].mandatory_exit, StageId(1));
    let named = |exit| ONE.replace("100 }", &format!("100, mandatory_exit = {exit} }}"));
    let plan = headless(&named(2)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.tasks[0].mandatory_exit, StageId(2));
    let words = headless(&named(0)).expect_err("no exit there").to_string();
    assert!(
        words.contains("stage 0 of the network ends in no exit")
            && words.contains("choose one of 1, 2, 3"),
        "{words}"
    );
}

#[test]
fn a_stage_that_runs_as_another_models_needs_no_solutions_of_its_own() {
    const TWO: &str = r#"
        daemon = { share_stages = true }
        partition = [{ name = "main", cores = [2, 3] }]
        task = [
            { package = "signs.punctual", rate_hz = 10, deadline_ms = 100 },
            { package = "others.punctual", rate_hz = 10, deadline_ms = 100 },
        ]
    "#;
    let signs = crate::fixture::package();
    let mut network = signs.network().clone();
    let mut weights = network.weights.to_vec();
    // The last stage's last.
    *weights.last_mut().expect("it has weights") += 1.0;
    network.weights = weights.into();
    let others = Package::new(network, signs.calibration().clone()).expect("a valid network");
    let models = |text: &str| {
        let mut inputs = crate::fixture::inputs(text, "two.toml");
        inputs.packages.push(PackageInput {
            path: "others.punctual".to_owned(),
            package: Ok(others.clone()),
            ..inputs.packages[0].clone()
        });
        let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
        // One in each stage.
        let choice = |operator| SolutionChoice {
            operator,
            batch: 1,
            units: 1,
            solution: "winograd-4x4".to_owned(),
        };
        profile.solutions = [0, 3, 6].map(choice).to_vec();
        let plan = Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
        let operators = |model: &ModelPlan| {
            let choices = model.solutions.iter();
            choices.map(|it| it.operator).collect::<Vec<_>>()
        };
        [&plan.models[0], &plan.models[1]].map(operators)
    };
    assert_eq!(models(TWO), [vec![0, 3, 6], vec![6]]);
    let apart = TWO.replace("share_stages = true", "share_stages = false");
    assert_eq!(models(&apart), [vec![0, 3, 6], vec![0, 3, 6]]);
}

#[test]
fn a_paged_model_is_profiled_without_solutions() {
    let paged = |name: &str| {
        let manifest = format!("{}/tests/manifests/good/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&manifest).expect("a manifest");
        let needs = Needs::of_manifest(
            &text,
            Path::new(name),
            &Policies::shipped(),
            &crate::fixture::cores(4),
        )
        .expect("a good manifest");
        (text, needs.models.iter().any(|model| model.paged))
    };
    assert!(!paged("demo.toml").1);
    assert!(!paged("idle-weight-cache.toml").1);
    let (text, any) = paged("weight-cache.toml");
    assert!(any);
    let mut inputs = crate::fixture::inputs(&text, "weight-cache.toml");
    let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
    profile.solutions = vec![SolutionChoice {
        operator: 0,
        batch: 1,
        units: 1,
        solution: "winograd-2x2".to_owned(),
    }];
    let refused = Plan::build(&inputs).expect_err("it would run otherwise than measured");
    assert!(
        refused
            .to_string()
            .contains("measured with specialised convolutions")
    );
}

#[test]
fn former_names_of_keys_mean_the_same_and_each_is_warned_of_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/good");
    let former = fs::read_to_string(folder.join("former-keys.toml")).expect("a manifest");
    let of = |text: &str| Plan::build(&crate::fixture::inputs(text, "keys.toml"));
    let plan = of(&former).unwrap_or_else(|errors| panic!("{errors}"));
    let mut renamed = former.clone();
    for key in &plan.renamed_keys {
        let line = |name: &str| format!("\n{name} = ");
        renamed = renamed.replace(&line(key.former), &line(key.now));
    }
    let present = of(&renamed).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        (plan.renamed_keys.len(), present.renamed_keys.len()),
        (8, 0)
    );
    assert_eq!(plan.hash, present.hash);
    assert_eq!(plan.to_json(), present.to_json());

    let twice = renamed.replace("queue_depth = 4", "queue = 4")
        + &former[former.rfind("[[task]]").expect("a task")..]
            .replace("rear-camera", "another")
            .replace("reserved = ", "queue = 4\nreserved = ");
    let warned = of(&twice).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(warned.renamed_keys.len(), 1, "{:?}", warned.renamed_keys);
}
