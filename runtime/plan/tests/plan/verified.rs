//! A network that answers wrongly on this machine is in no plan; for one that was not verified there is a warning.

use punctual_diagnostics::{Diagnostics, Rule};
use punctual_model::{Disagreement, SolutionChoice, Verified};
use punctual_plan::{ModelRule, Plan, Warning};

const MANIFEST: &str = include_str!("../manifests/good/demo.toml");

fn built(verified: Option<Verified>) -> Result<Plan, Diagnostics> {
    let mut inputs = crate::fixture::inputs(MANIFEST, "demo.toml");
    for input in &mut inputs.profiles {
        input.profile.as_mut().expect("a profile").verified = verified.clone();
    }
    Plan::build(&inputs)
}

fn verified() -> Verified {
    Verified {
        inputs: 12,
        batches: vec![1, 4],
        units: vec![1, 2],
        solutions: 7,
        values: 4_321,
        undecided: 3,
        worst_permille: 125,
        poisoned: true,
        took_ms: 900,
        failure: None,
    }
}

fn wrong(solution: Option<SolutionChoice>) -> Verified {
    Verified {
        failure: Some(Disagreement {
            stage: 1,
            batch: 4,
            units: 2,
            member: 3,
            input: 5,
            output: "boxes".to_owned(),
            position: Some(17),
            found: "NaN".to_owned(),
            expected: "0.5".to_owned(),
            tolerance: "0.001".to_owned(),
            solution,
        }),
        ..verified()
    }
}

#[test]
fn what_was_verified_is_in_the_table_and_in_the_json() {
    let plan = built(Some(verified())).unwrap_or_else(|errors| panic!("{errors}"));
    let text = format!("{plan:200}");
    let row = text.lines().find(|line| line.contains("4321"));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(row[1..9], ["12", "1", "4", "1", "2", "7", "4321", "3"]);
    assert_eq!(row[9], "12.5%");
    let json: serde_json::Value = serde_json::from_str(&plan.to_json()).expect("JSON");
    assert_eq!(json["models"][0]["verified"]["values"], 4_321);
}

#[test]
fn a_network_that_answers_wrongly_is_refused_with_its_figures_and_what_to_do() {
    let errors = built(Some(wrong(None))).expect_err("refused");
    let text = errors.to_string();
    let figures = "stage 1 at batch 4 on 2 units, member 3, input 5: element 17 of `boxes` is NaN, expected 0.5 within 0.001";
    assert!(
        text.contains(figures) && text.contains("run the model elsewhere"),
        "{text}"
    );
    assert!(!errors.is_about_files_only());
    let choice = SolutionChoice {
        operator: 9,
        batch: 4,
        units: 2,
        solution: "winograd".to_owned(),
    };
    let text = built(Some(wrong(Some(choice))))
        .expect_err("refused")
        .to_string();
    assert!(
        text.contains("operator 9 is computed by `winograd`"),
        "{text}"
    );
    assert!(
        text.contains("punctual profile --direct MANIFEST"),
        "{text}"
    );
}

#[test]
fn the_rule_and_its_help_are_of_one_line() {
    let found = Box::new(wrong(None).failure.expect("it is wrong"));
    let model = "signs".to_owned();
    let rule = ModelRule::Disagrees { model, found };
    assert!(!rule.rule().contains('\n') && !rule.help().contains('\n'));
    assert!(!rule.is_about_a_file());
}

#[test]
fn what_was_never_verified_or_could_not_be_is_warned_of() {
    let warnings = |verified| {
        let plan = built(verified).unwrap_or_else(|errors| panic!("{errors}"));
        let warnings = plan.warnings.into_iter();
        let about = |warning: &Warning| {
            matches!(
                warning,
                Warning::NotVerified { .. } | Warning::NothingVerified { .. }
            )
        };
        warnings.filter(about).collect::<Vec<_>>()
    };
    assert_eq!(warnings(Some(verified())), []);
    assert!(matches!(
        warnings(None)[..],
        [Warning::NotVerified { .. }, ..]
    ));
    let nothing = Verified {
        values: 0,
        ..verified()
    };
    let nothing = warnings(Some(nothing));
    assert!(matches!(
        nothing[..],
        [Warning::NothingVerified { undecided: 3, .. }, ..]
    ));
}
