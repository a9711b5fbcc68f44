//! Every command of this program that a document shows is understood.

#[path = "../../../runtime/cli/tests/documented/mod.rs"]
mod commands;

use clap::Parser as _;
use commands::{Documented, in_files};

use crate::Arguments;

#[test]
fn every_documented_command_is_understood() {
    let mut shown = in_files();
    shown.retain(|command| ["compare", "plan", "simulate"].contains(&command.words[1].as_str()));
    assert!(shown.len() > 20, "{shown:#?}");
    for Documented { place, words } in shown {
        if let Err(error) = Arguments::try_parse_from(&words[..]) {
            panic!("{place}: {}\n{error}", words.join(" "));
        }
    }
}
