//! One `[[task]]` for the packages of a folder.

use punctual_model::{InputSpec, Package};
use punctual_plan::{Diagnostics, PackageInput, Plan, PlanInputs, ProfileInput};

use crate::fixture;

const ZOO: &str = r#"
    daemon = { weight_cache = "16 MiB" }
    partition = [{ name = "main", cores = [2, 3] }]
    [[task]]
    package = "zoo/*.punctual"
    rate_hz = 100
    deadline_ms = 100
    answers = "final"
    clients = 2
    [[task]]
    package = "signs.punctual"
    rate_hz = 10
    deadline_ms = 100
"#;

/// With as many packages of the same network in the folder.
fn inputs(text: &str, packages: usize) -> PlanInputs {
    let mut inputs = fixture::inputs(text, "zoo.toml");
    let like = inputs.packages[0].clone();
    for number in 0..packages {
        inputs.packages.push(PackageInput {
            path: format!("zoo/net-{number:04}.punctual"),
            ..like.clone()
        });
    }
    inputs
}

fn plan(packages: usize) -> Plan {
    Plan::build(&inputs(ZOO, packages)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refusal(text: &str) -> Diagnostics {
    Plan::build(&inputs(text, 3)).expect_err("it cannot be planned")
}

#[test]
fn a_pattern_is_a_task_for_each_package_and_their_clients_share_places() {
    let plan = plan(3);
    let names: Vec<&str> = plan.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["net-0000", "net-0001", "net-0002", "signs"]);
    assert_eq!(plan.models.len(), 4);
    for task in &plan.tasks[..3] {
        assert_eq!(task.client_slots, [0, 1]);
        assert_eq!(task.clients_of, "zoo/*.punctual");
        assert_eq!(task.channel, plan.tasks[0].channel);
    }
    let of: Vec<(usize, usize)> = plan
        .client_slots
        .iter()
        .map(|slot| (slot.task.index(), slot.tasks().len()))
        .collect();
    assert_eq!(of, [(0, 3), (0, 3), (3, 1)]);
    // Two of them and one, each with a port and an intake.
    let clients = plan.threads.iter().filter(|thread| {
        use punctual_plan::Role::{Intake, Port};
        matches!(thread.role, Port { .. } | Intake { .. })
    });
    assert_eq!(clients.count(), 6);
}

#[test]
fn what_a_thousand_tasks_take_is_not_what_a_thousand_clients_take() {
    let (few, many) = (plan(10), plan(1_000));
    assert_eq!(few.threads, many.threads);
    let buffers = |plan: &Plan| plan.scheduler.request_buffers;
    // As many as two clients can have frames without a verdict, and those of the other task.
    assert_eq!(buffers(&many), 2 * 32 + 8);
    assert!(buffers(&few) <= buffers(&many));
    let each = (many.memory.total_bytes() - few.memory.total_bytes()) / 990;
    assert!(each < 128 << 10, "{each} bytes a task");
    assert_eq!(many.scheduler.pages, 64);
    let paged = many
        .scheduler
        .models
        .iter()
        .filter(|model| model.weights.is_some());
    assert_eq!(paged.count(), 1_000);
}

#[test]
fn the_tables_of_a_plan_of_thousands_stay_readable() {
    let plan = plan(2_000);
    let text = plan.to_string();
    assert!(text.lines().count() < 300, "{} lines", text.lines().count());
    assert!(text.contains("1985 more"), "{text}");
    assert!(text.contains("zoo/*.punctual"), "{text}");
    assert!(plan.to_json().contains("net-1999"));
}

#[test]
fn a_pattern_without_packages_and_one_that_makes_no_sense_are_told() {
    for (pattern, problem) in [
        (
            "other/*.punctual",
            "no package is called \"other/*.punctual\"",
        ),
        ("*/net.punctual", "has a `*` in a folder, or more than one"),
    ] {
        let refusal = refusal(&ZOO.replace("zoo/*.punctual", pattern)).to_string();
        assert!(refusal.contains(problem), "{refusal}");
    }
    let named = ZOO.replace("rate_hz = 100", "rate_hz = 100\nname = \"zoo\"");
    let refusal = refusal(&named).to_string();
    assert!(refusal.contains("remove `name`"), "{refusal}");
    let reserved = ZOO.replacen("rate_hz = 100", "rate_hz = 100\nreserved = true", 1);
    let refusal = self::refusal(&reserved).to_string();
    assert!(refusal.contains("have a reservation"), "{refusal}");
}

#[test]
fn what_is_wrong_with_all_tasks_of_a_pattern_is_told_once() {
    let refusal = refusal(&ZOO.replace("clients = 2", "clients = 2\nmandatory_exit = 9"));
    assert_eq!(refusal.problems().len(), 1, "{refusal}");
    let crowded = ZOO.replace("clients = 2", "clients = 64");
    let refusal = self::refusal(&crowded).to_string();
    assert!(
        refusal.contains("65 clients of all tasks together"),
        "{refusal}"
    );
}

#[test]
fn more_names_than_a_client_can_be_told_are_refused() {
    // Each network has classes of its own: a kilobyte of names, told twice at most.
    let of_different_classes = |packages: usize| {
        let mut inputs = inputs(ZOO, packages);
        for (number, package) in inputs.packages[1..].iter_mut().enumerate() {
            let signs = package.package.as_ref().expect("a package");
            let mut network = signs.network().clone();
            for class in &mut network.classes {
                *class = format!("{class:x<240} {number}");
            }
            let named = Package::new(network, signs.calibration().clone());
            package.package = Ok(named.expect("a valid network"));
        }
        Plan::build(&inputs)
    };
    assert!(of_different_classes(1_000).is_ok());
    let refusal = of_different_classes(3_000).expect_err("too much to tell");
    let refusal = refusal.to_string();
    for words in [
        "what a client of \"zoo/*.punctual\" is told takes up to ",
        " MiB, more than 4.0 MiB: names of 3000 tasks",
        "write several `[[task]]`s, each for a part of the packages",
    ] {
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn networks_that_take_different_frames_need_a_frame() {
    let mut inputs = inputs(ZOO, 2);
    let gray = fixture::package_of(InputSpec {
        channels: 1,
        ..InputSpec::rgb(32, 32, [0.5; 3], [0.25; 3])
    });
    let mut profile = fixture::profile(&gray);
    let mut prepare = profile.prepare[0].clone();
    prepare.format = "gray8".to_owned();
    profile.prepare.push(prepare);
    inputs.profiles.push(ProfileInput {
        path: "zoo/net-0001.profile.json".into(),
        lies_with: None,
        profile: Ok(profile),
    });
    inputs.packages[2].package = Ok(gray);
    let refusal = Plan::build(&inputs).expect_err("frames differ").to_string();
    assert!(refusal.contains("take different frames"), "{refusal}");
    assert!(refusal.contains("write `frame`"), "{refusal}");
}
