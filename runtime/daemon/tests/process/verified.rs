//! What a profile says about its network's answers: a network that was wrong is not served, and for one that was not verified
//! there is a warning.

use std::io::{Read, pipe};

use crate::support::{Daemon, Folder, MANIFEST};
use punctual_model::{Disagreement, Verified};

#[test]
fn a_network_that_answers_wrongly_is_not_served() {
    let folder = Folder::with_profile(MANIFEST, |profile, _| {
        let failure = Disagreement {
            stage: 2,
            batch: 8,
            units: 1,
            member: 4,
            input: 4,
            output: "output".to_owned(),
            position: Some(3),
            found: "1.5".to_owned(),
            expected: "-0.25".to_owned(),
            tolerance: "0.00001".to_owned(),
            solution: None,
        };
        profile.verified = Some(Verified {
            failure: Some(failure),
            ..Verified::default()
        });
    });
    let (code, said) = folder.refusal(&[]);
    assert_eq!(code, Some(3), "{said}");
    let figures = "element 3 of `output` is 1.5, expected -0.25 within 0.00001";
    assert!(
        said.contains("answers wrongly on this machine") && said.contains(figures),
        "{said}"
    );
}

#[test]
fn a_network_that_nobody_verified_is_served_with_a_warning() {
    let (mut reader, writer) = pipe().expect("a pipe");
    let folder = Folder::with_profile(MANIFEST, |profile, _| profile.verified = None);
    let daemon = Daemon::start_as(folder, |command| {
        command.stderr(writer);
    });
    daemon.stop();
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("what was said");
    assert!(
        said.contains("does not say whether its answers are right on this machine"),
        "{said}"
    );
}

#[test]
fn a_profile_that_cannot_be_parsed_is_bad_input_and_no_missing_file() {
    let folder = Folder::with(MANIFEST);
    folder.write("signs.profile.json", b"{\"version\": 2, \"profile\": {}}");
    let (code, said) = folder.refusal(&[]);
    assert_eq!(code, Some(3), "{said}");
    folder.remove("signs.profile.json");
    let (code, said) = folder.refusal(&[]);
    assert_eq!(code, Some(4), "{said}");
}
