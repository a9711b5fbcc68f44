//! Reading the files that a plan is made from: where they are looked for, and what is said when
//! they are not there, damaged, or of another machine.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_diagnostics::{Diagnostics, Invalid, Rule};
use punctual_model::{
    AnswerKind, Calibration, Copy, Embedding, Exit, InputForm, InputSpec, Linear, Network,
    Operator, OperatorKind, Package, Quantised, Stage, Tensor, TensorId, WeightRange,
};
use punctual_plan::{
    Board, Margins, ModelRule, NoSuchBoard, Plan, PlanInputs, Policies, StageNotProfiled, Warning,
};

use punctual_types::Activation;

const MANIFEST: &str = include_str!("../manifests/good/demo.toml");

/// A folder with a manifest and its package, removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let name = format!("punctual-plan-{test}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).expect("a folder");
        folder.put("demo.toml", MANIFEST);
        let package = crate::fixture::package();
        fs::write(folder.path("signs.punctual"), package.encode()).expect("a package");
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn put(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).expect("a file");
    }

    pub fn profile_beside_the_package(&self) {
        let profile = crate::fixture::profile(&crate::fixture::package());
        profile
            .write(&self.path("signs.profile.json"))
            .expect("a profile");
    }

    fn build(&self, profiles: &[PathBuf]) -> Result<Plan, Diagnostics> {
        let inputs = PlanInputs::read(
            &self.path("demo.toml"),
            profiles,
            crate::fixture::host(4),
            Policies::shipped(),
        )?;
        Plan::build(&inputs)
    }

    fn refused(&self, profiles: &[PathBuf]) -> Diagnostics {
        self.build(profiles).expect_err("something is wrong")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The causes of a refusal that are of this kind.
fn causes<T: Rule>(errors: &Diagnostics) -> Vec<&T> {
    let problems = errors.problems().iter();
    problems.filter_map(|problem| problem.cause()).collect()
}

/// The one cause of a refusal, which is of this kind.
pub fn cause<T: Rule>(errors: &Diagnostics) -> &T {
    assert_eq!(errors.problems().len(), 1, "{errors}");
    let problem = &errors.problems()[0];
    problem.cause().unwrap_or_else(|| panic!("{errors}"))
}

#[test]
fn the_profile_beside_the_package_is_found() {
    let folder = Folder::new("beside");
    folder.profile_beside_the_package();
    let plan = folder
        .build(&[])
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        plan.directory().join(&plan.models[0].package),
        folder.path("signs.punctual")
    );
}

#[test]
fn the_profile_of_this_machine_inside_the_package_is_used() {
    let folder = Folder::new("inside");
    let package = crate::fixture::package();
    let ours = crate::fixture::profile(&package);
    let mut others = ours.clone();
    others.key.machine = "another processor".to_owned();
    let path = folder.path("signs.punctual");
    let foreign = package.with_profile(others).expect("of this package");
    foreign.write(&path).expect("a package");
    assert!(folder.build(&[]).is_err(), "only another machine's");
    let both = foreign.with_profile(ours).expect("of this package");
    both.write(&path).expect("a package");
    assert!(folder.build(&[]).is_ok());
}

#[test]
fn a_profile_that_is_named_is_used_instead() {
    let folder = Folder::new("named");
    folder.profile_beside_the_package();
    fs::rename(
        folder.path("signs.profile.json"),
        folder.path("elsewhere.json"),
    )
    .expect("moved");
    assert!(folder.build(&[folder.path("elsewhere.json")]).is_ok());
    let missing = folder.refused(&[]);
    assert!(
        matches!(cause(&missing), ModelRule::ProfileMissing { .. }),
        "{missing}"
    );
    assert!(missing.is_about_files_only());
}

/// Four tokens of three channels each; the first is answered for.
fn text() -> Package {
    let shape = |channels, width| Tensor {
        channels,
        height: 1,
        width,
    };
    let range = |start, len| WeightRange { start, len };
    let operator = |output: u32, kind: OperatorKind| {
        let name = format!("operator_{output}");
        Operator::new(name, &[TensorId(output - 1)], TensorId(output), kind)
    };
    let linear = Linear {
        activation: Activation::None,
    };
    let network = Network {
        name: "text".to_owned(),
        input: InputSpec {
            channels: 1,
            height: 1,
            width: 4,
            form: InputForm::Tokens { mask: false },
        },
        vectors: vec![],
        answer: AnswerKind::Classes,
        classes: ["yes", "no"].map(str::to_owned).to_vec(),
        tensors: vec![shape(1, 4), shape(3, 4), shape(3, 1), shape(2, 1)],
        stages: vec![Stage {
            inputs: vec![TensorId(0)],
            outputs: vec![],
            operators: vec![
                operator(1, Embedding { channels: 3 }.into()).with_weights([range(0, 6)]),
                operator(2, Copy::of_column(0, 3).into()),
                operator(3, linear.into()).with_weights([range(6, 6), range(12, 2)]),
            ],
            exit: Some(Exit::of_scores(TensorId(3), 2)),
        }],
        weights: vec![0.5; 14].into(),
        quantised: Quantised::default(),
    };
    Package::new(network, Calibration::default()).expect("a valid network")
}

#[test]
fn a_model_that_reads_text_is_none_for_a_camera_and_nothing_else_is_said() {
    let folder = Folder::new("text");
    fs::write(folder.path("signs.punctual"), text().encode()).expect("a package");
    let errors = folder.refused(&[]);
    assert!(
        matches!(cause(&errors), ModelRule::Input { .. }),
        "{errors}"
    );
    assert!(!errors.is_about_files_only());
    let message = errors.to_string();
    assert!(
        message.contains("takes 4 tokens, not one picture or one prepared tensor"),
        "{message}"
    );
}

#[test]
fn files_that_are_missing_or_damaged_are_told_apart_from_bad_manifests() {
    let folder = Folder::new("damaged");
    folder.put("signs.profile.json", "{}");
    let errors = folder.refused(&[]);
    assert!(
        causes(&errors)
            .iter()
            .any(|cause| matches!(cause, ModelRule::ProfileInvalid { .. }))
    );
    // It was read: it is bad input, whatever is missing besides.
    assert!(!errors.is_about_files_only(), "{errors}");
    folder.profile_beside_the_package();

    folder.put("signs.punctual", "not a package");
    let errors = folder.refused(&[folder.path("nowhere.json")]);
    assert!(
        causes(&errors)
            .iter()
            .any(|cause| matches!(cause, ModelRule::PackageInvalid { .. }))
    );
    assert!(errors.to_string().contains("nowhere.json"), "{errors}");
    assert!(errors.is_about_files_only(), "{errors}");

    folder.put(
        "demo.toml",
        &MANIFEST.replace("rate_hz = 30", "rate_hz = -30"),
    );
    assert!(!folder.refused(&[]).is_about_files_only());

    fs::remove_file(folder.path("demo.toml")).expect("removed");
    let errors = folder.refused(&[]);
    assert!(
        matches!(cause(&errors), Invalid::Unreadable { .. }),
        "{errors}"
    );
}

#[test]
fn a_board_of_ones_own_lies_beside_the_manifest() {
    let folder = Folder::new("board");
    folder.profile_beside_the_package();
    folder.put("demo.toml", &MANIFEST.replace("\"host\"", "\"mine\""));
    let errors = folder.refused(&[]);
    assert_eq!(cause::<NoSuchBoard>(&errors).board, "mine");

    fs::create_dir(folder.path("boards")).expect("a folder");
    let host =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards/host.toml"));
    let mine = host.expect("host").replace("\"host\"", "\"mine\"");
    folder.put("boards/mine.toml", &mine);
    let errors = folder.refused(&[]);
    let other =
        |cause: &&ModelRule| matches!(cause, ModelRule::ProfileMismatch { field: "board", .. });
    assert!(causes(&errors).iter().any(other), "{errors}");

    folder.put("boards/mine.toml", &mine.replace("cores", "coers"));
    assert!(
        folder
            .refused(&[])
            .to_string()
            .contains("did you mean `cores`?")
    );
}

#[test]
fn a_profile_of_other_clocks_or_settings_is_used_with_a_warning_that_names_both_values() {
    let settings = |governor: &str| [("governor".to_owned(), governor.to_owned())].into();
    let warnings = |change: &dyn Fn(&mut PlanInputs)| {
        let mut inputs = crate::fixture::inputs(MANIFEST, "demo.toml");
        change(&mut inputs);
        let plan = Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
        let changed = |w: &&Warning| matches!(w, Warning::SettingChanged { .. });
        let texts = plan
            .warnings
            .iter()
            .filter(changed)
            .map(ToString::to_string);
        texts.collect::<Vec<_>>()
    };
    assert_eq!(warnings(&|_| ()), [""; 0]);
    let clocks = warnings(&|inputs| inputs.host.clocks = "powersave to 800 MHz".to_owned());
    assert!(!clocks.is_empty());
    for part in [
        "clocks",
        "unknown",
        "powersave to 800 MHz",
        "measure again",
        "set it back",
    ] {
        assert!(clocks.iter().all(|text| text.contains(part)), "{clocks:?}");
    }
    let governor = warnings(&|inputs| {
        inputs.host.settings = settings("powersave");
        for input in &mut inputs.profiles {
            input.profile.as_mut().expect("it is there").settings = settings("performance");
        }
    });
    assert!(!governor.is_empty());
    for part in ["governor", "performance", "powersave"] {
        assert!(
            governor.iter().all(|text| text.contains(part)),
            "{governor:?}"
        );
    }
    // Of two profiles the one that was measured as the machine is now.
    let both = warnings(&|inputs| {
        inputs.host.settings = settings("powersave");
        let mut others = inputs.profiles.clone();
        for (input, other) in inputs.profiles.iter_mut().zip(&mut others) {
            input.profile.as_mut().expect("it is there").settings = settings("performance");
            other.profile.as_mut().expect("it is there").settings = settings("powersave");
        }
        inputs.profiles.extend(others);
    });
    assert_eq!(both, [""; 0]);
}

#[test]
fn a_profile_of_another_machine_or_power_mode_is_not_used() {
    for (field, change) in [("machine", "another processor"), ("power mode", "15W")] {
        let mut inputs = crate::fixture::inputs(MANIFEST, "demo.toml");
        let profile = inputs.profiles[0].profile.as_mut().expect("it is there");
        match field {
            "machine" => profile.key.machine = change.to_owned(),
            _ => profile.key.power_mode = change.to_owned(),
        }
        let errors = Plan::build(&inputs).expect_err("another's profile");
        let wrong = |cause: &&ModelRule| {
            matches!(cause, ModelRule::ProfileMismatch { field: f, found, .. }
                if *f == field && found == change)
        };
        assert!(causes(&errors).iter().any(wrong), "{errors}");
    }
}

#[test]
fn figures_that_a_profile_lacks_are_one_problem_not_many() {
    let mut inputs = crate::fixture::inputs(MANIFEST, "demo.toml");
    let profile = inputs.profiles[0].profile.as_mut().expect("it is there");
    profile.stages.retain(|entry| entry.batch < 4);
    let errors = Plan::build(&inputs).expect_err("batches 4 and 8 are missing");
    let lacking: &StageNotProfiled = cause(&errors);
    assert_eq!((lacking.stage, lacking.batch, lacking.units), (0, 4, 1));
    assert_eq!(lacking.more, 5);
}

#[test]
fn of_few_samples_the_longest_counts_and_a_warning_says_so() {
    let plan = |samples| {
        let mut inputs = crate::fixture::inputs(MANIFEST, "demo.toml");
        let profile = inputs.profiles[0].profile.as_mut().expect("it is there");
        for entry in &mut profile.stages {
            entry.samples = samples;
        }
        Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let (few, enough) = (
        plan(Margins::SAMPLES_FOR_P99 - 1),
        plan(Margins::SAMPLES_FOR_P99),
    );
    let budget = |plan: &Plan| plan.scheduler.models[0].stages[0].times[0].on[0].budget;
    // The fixture's longest is three times its median.
    assert!(budget(&few) > budget(&enough).saturating_mul(2));
    let warns = |plan: &Plan| {
        plan.warnings
            .iter()
            .any(|w| matches!(w, Warning::FewSamples { .. }))
    };
    assert!(warns(&few) && !warns(&enough));
}

#[test]
fn the_builtin_host_is_what_the_repository_has() {
    let board = Board::builtin("host").expect("it is part of the program");
    assert_eq!(
        (board.cores, board.memory_bytes, board.gpu),
        (None, None, None)
    );
}
