//! A `[[task]]` for all packages of a folder: one client submits to each of its tasks over one connection.

use punctual_client::{Crop, Options, PixelFormat, Response, Verdict, now_ns};
use punctual_model::Package;

use crate::support::{Daemon, Folder, LIMIT, assert_accounts, package, profile};

const MANIFEST: &str = r#"
[daemon]
board = "host"

[[partition]]
name = "main"
units = 1

[[task]]
package = "zoo/*.punctual"
rate_hz = 10
deadline_ms = 500
answers = "final"
frame = { format = "rgb8", width = 320, height = 240, crop = [192, 192] }
"#;

/// The demonstration network, and one that was trained for other classes.
fn folder() -> Folder {
    let folder = Folder::with(MANIFEST);
    let host = punctual_daemon::host::detect().expect("a machine");
    let signs = Package::decode(&package()).expect("a valid package");
    let mut network = signs.network().clone();
    for class in &mut network.classes {
        class.push_str(" of France");
    }
    let french = Package::new(network, signs.calibration().clone()).expect("a valid network");
    std::fs::create_dir(folder.path("zoo")).expect("a folder");
    for (name, package) in [("signs", signs), ("french", french)] {
        let figures = profile(&host.machine, &host.clocks, &package).to_json();
        folder.write(&format!("zoo/{name}.punctual"), &package.encode());
        folder.write(&format!("zoo/{name}.profile.json"), figures.as_bytes());
    }
    folder
}

#[test]
fn one_connection_asks_all_networks_of_a_folder_and_each_answers_in_its_own_words() {
    let daemon = Daemon::start_in(folder());
    let stream = Options::new(daemon.socket(), "signs", PixelFormat::Rgb8);
    let mut client = stream.reconnect(false).connect().expect("a place");
    let mut ask = |task: Option<&str>| -> Response {
        let until = now_ns() + LIMIT.as_nanos() as u64;
        let mut slot = client.slot(Some(until)).expect("a daemon").expect("free");
        slot.pixels().fill(128);
        if let Some(task) = task {
            slot.set_task(task).expect("one of the folder's");
        }
        let crop = Crop { x: 7, y: 9 };
        slot.submit(now_ns(), None, crop).expect("submitted");
        let verdict = client.verdict(Some(until)).expect("a daemon");
        verdict.expect("in time")
    };
    let [own, other, again] = [None, Some("french"), Some("signs")].map(&mut ask);
    for response in [&own, &other, &again] {
        assert_ne!(response.verdict, Verdict::Late, "{response:?}");
        assert!(response.class().is_some(), "{response:?}");
    }
    assert_eq!(
        (own.class(), own.class_name()),
        (again.class(), again.class_name())
    );
    let name = own.class_name().expect("a name");
    assert_eq!(
        other.class_name(),
        Some(format!("{name} of France").as_str())
    );
    let mut slot = client.slot(None).expect("a daemon").expect("free");
    let unknown = slot.set_task("german").expect_err("there is none");
    assert_eq!(
        unknown.to_string(),
        "the stream takes no frames for task \"german\": it is of 2 tasks"
    );
    drop(slot);
    // There is one place for clients, whichever task they ask for.
    let second = Options::new(daemon.socket(), "french", PixelFormat::Rgb8);
    second.connect().expect_err("the place is taken");
    drop(client);
    let report = daemon.stop();
    assert_accounts(&report);
    let counted = report
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), task.submitted));
    let counted: Vec<(&str, u64)> = counted.collect();
    assert_eq!(counted, [("french", 1), ("signs", 2)]);
}
