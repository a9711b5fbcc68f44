//! Every command that a document or a help text shows is understood by the program that it starts.
//! Those that are cheap are also run: `tests/command/documented_commands.rs`.

#[path = "../tests/documented/mod.rs"]
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

fn understood(words: &[String]) -> Result<(), clap::Error> {
    match words[0].as_str() {
        "punctual-v4l2" => punctual_camera::Options::try_parse_from(words).map(drop),
        "punctuald" => {
            let own = ["punctual", "daemon"].map(str::to_owned);
            Arguments::try_parse_from(own.iter().chain(&words[1..])).map(drop)
        }
        // They have tests of their own, in their own crates.
        "punctual-hil" => Ok(()),
        "punctual"
            if ["bench", "compare", "plan", "replay", "simulate"].contains(&words[1].as_str()) =>
        {
            Ok(())
        }
        _ => Arguments::try_parse_from(words).map(drop),
    }
}

#[test]
fn every_documented_command_is_understood() {
    let mut shown = in_files();
    shown.extend(in_help(&Arguments::command()));
    shown.extend(in_help(&punctual_camera::Options::command()));
    let of = |program: &str| {
        shown
            .iter()
            .filter(|command| command.words[0] == program)
            .count()
    };
    assert!(
        of("punctual") > 50 && of("punctuald") > 1 && of("punctual-v4l2") > 2,
        "{shown:#?}"
    );
    for Documented { place, words } in shown {
        if let Err(error) = understood(&words) {
            panic!("{place}: {}\n{error}", words.join(" "));
        }
    }
}
