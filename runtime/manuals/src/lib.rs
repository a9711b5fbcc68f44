//! Manual pages and shell completions, out of the command lines as they are defined. For packagers:
//! each of our programs has a hidden command `manuals`.
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use punctual_platform::termination::{Terminates, Termination};

/// Where to put them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Writes DIR/manN/PROGRAM.N and one page for each command of the program, and completions for bash, zsh and fish below \
DIR/completions. Existing files are replaced.

TERMINATION CODES: 0 done; 4 a file cannot be written.")]
pub struct Options {
    /// The folder to write to; created if it is missing.
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; name a folder that this user may write to with --into")]
pub struct ManualError {
    path: PathBuf,
    source: io::Error,
}

impl Terminates for ManualError {
    fn termination(&self) -> Termination {
        Termination::File
    }
}

/// Writes the pages, in `section` of the manual, and the completions of `program`.
pub fn write(folder: &Path, program: Command, section: &str) -> Result<(), ManualError> {
    let program = program.disable_help_subcommand(true);
    for command in pages(program.clone()) {
        write_page(&folder.join(format!("man{section}")), &command, section)?;
    }
    complete(&folder.join("completions"), program)
}

/// The command and all below it that are not hidden, each with its full name.
fn pages(mut command: Command) -> Vec<Command> {
    command.build();
    let mut found = Vec::new();
    let mut open = vec![command];
    while let Some(command) = open.pop() {
        let below = command.get_subcommands();
        open.extend(below.filter(|below| !below.is_hide_set()).cloned());
        found.push(command);
    }
    found
}

fn write_page(folder: &Path, command: &Command, section: &str) -> Result<(), ManualError> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.{section}"));
    let of_path = |source| ManualError {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(folder).map_err(of_path)?;
    let page = page(command, name, section).map_err(of_path)?;
    fs::write(&path, page).map_err(of_path)
}

/// The page of one command. What its help prints below the options becomes sections of their own.
fn page(command: &Command, name: &str, section: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .section(section)
        .source(concat!("punctual ", env!("CARGO_PKG_VERSION")))
        .manual("Punctual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut own = Roff::new();
    let below: Vec<_> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .collect();
    if !below.is_empty() {
        own.control("SH", ["COMMANDS"]);
        for below in below {
            own.control("TP", []);
            own.text([bold(format!("{name}-{}(1)", below.get_name()))]);
            let about = below.get_about().map(ToString::to_string);
            own.text([roman(about.unwrap_or_default())]);
        }
    }
    if let Some(after) = command.get_after_help() {
        after_help(&mut own, &after.to_string());
    }
    own.control("SH", ["SEE ALSO"]);
    let others = ["punctual(1)", "punctuald(8)", "punctual-manifest(5)"];
    let itself = format!("{name}({section})");
    let others = others.into_iter().filter(|other| *other != itself);
    own.text([roman(others.collect::<Vec<_>>().join(", "))]);
    own.to_writer(&mut page)?;
    Ok(page)
}

/// `HEADING:` at the start of a line opens a section, indented lines stay as they are, others flow.
fn after_help(page: &mut Roff, text: &str) {
    let mut literal = false;
    for line in text.lines() {
        let indented = line.starts_with(' ');
        if indented != literal && !line.is_empty() {
            page.control(if indented { "nf" } else { "fi" }, []);
            literal = indented;
        }
        match heading(line) {
            Some((heading, rest)) => {
                page.control("SH", [heading]);
                if !rest.is_empty() {
                    page.text([roman(rest)]);
                }
            }
            None if line.is_empty() => {
                page.control("PP", []);
            }
            None => {
                page.text([roman(line)]);
            }
        }
    }
    if literal {
        page.control("fi", []);
    }
}

fn heading(line: &str) -> Option<(&str, &str)> {
    let (heading, rest) = line.split_once(':')?;
    let capitals = |c: char| c.is_ascii_uppercase() || c == ' ';
    let is_heading =
        !heading.starts_with(' ') && heading.len() > 1 && heading.chars().all(capitals);
    is_heading.then(|| (heading, rest.trim_start()))
}

fn complete(folder: &Path, mut program: Command) -> Result<(), ManualError> {
    let name = program.get_name().to_owned();
    for (shell, shells) in [
        (Shell::Bash, "bash"),
        (Shell::Zsh, "zsh"),
        (Shell::Fish, "fish"),
    ] {
        let path = folder.join(shells);
        let failed = |source| ManualError {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&path).map_err(failed)?;
        clap_complete::generate_to(shell, &mut program, &name, &path).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(command: &Command) -> String {
        let name = command.get_display_name().unwrap_or("sample");
        String::from_utf8(page(command, name, "1").expect("into memory")).expect("text")
    }

    #[test]
    fn what_help_prints_below_the_options_becomes_sections_with_its_lines_kept() {
        let command = Command::new("sample")
            .after_help("EXAMPLES:\n  sample --now\n  .dotted\n\nWords that\nflow.\nCODES: 0 done");
        let text = text_of(&command);
        let (_, own) = text.split_once(".SH EXAMPLES").expect("a section");
        let (literal, rest) = own.split_once(".fi").expect("the end of the lines");
        assert!(
            literal.contains(".nf\n  sample \\-\\-now\n  .dotted\n"),
            "{literal}"
        );
        assert!(
            rest.contains("Words that\nflow.\n.SH CODES\n0 done"),
            "{rest}"
        );
    }

    #[test]
    fn hidden_commands_have_no_page_and_commands_below_commands_have() {
        let below = Command::new("bench").subcommand(Command::new("gpu"));
        let command = Command::new("sample")
            .disable_help_subcommand(true)
            .subcommand(below.disable_help_subcommand(true))
            .subcommand(Command::new("secret").hide(true));
        let mut names: Vec<_> = pages(command)
            .iter()
            .map(|page| {
                page.get_display_name()
                    .unwrap_or(page.get_name())
                    .to_owned()
            })
            .collect();
        names.sort();
        assert_eq!(names, ["sample", "sample-bench", "sample-bench-gpu"]);
    }
}
