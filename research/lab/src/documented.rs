//! Every command of this program that a document shows is understood.

#[path = "../../../runtime/cli/tests/documented/mod.rs"]
mod commands;

use clap::{CommandFactory as _, Parser as _};
use commands::{Documented, in_files, in_text};

use crate::Arguments;

/// Those of a command's own help, and of all below it.
fn in_help(command: &clap::Command) -> Vec<Documented> {
    let help = command.get_after_help().map(ToString::to_string);
    let mut found = in_text(command.get_name(), &help.unwrap_or_default());
    found.extend(command.get_subcommands().flat_map(in_help));
    found
}

#[test]
fn every_documented_command_is_understood() {
    let mut shown = in_files();
    shown.extend(in_help(&Arguments::command()));
    shown.retain(|command| {
        ["compare", "plan", "replay", "simulate"].contains(&command.words[1].as_str())
    });
    assert!(shown.len() > 10, "{shown:#?}");
    for Documented { place, words } in shown {
        if let Err(error) = Arguments::try_parse_from(&words[..]) {
            panic!("{place}: {}\n{error}", words.join(" "));
        }
    }
}
