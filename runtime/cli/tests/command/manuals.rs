//! `punctual manuals` as a process: a page for each command that help lists, and completions.
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_command_that_help_lists_has_a_manual_page_and_both_programs_have_completions() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("manuals");
    let _ = fs::remove_dir_all(&folder);
    let punctual = || Command::new(env!("CARGO_BIN_EXE_punctual"));
    let made = punctual().args(["manuals", "--into"]).arg(&folder).status();
    assert!(made.expect("the command runs").success());

    let help = punctual().arg("--help").output().expect("the command runs");
    let help = String::from_utf8(help.stdout).expect("text");
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let listed = commands.lines().take_while(|line| !line.is_empty());
    let listed = listed.filter_map(|line| line.split_whitespace().next());
    let listed: Vec<_> = listed.filter(|command| *command != "help").collect();
    assert!(
        listed.contains(&"check") && !listed.contains(&"manuals"),
        "{listed:?}"
    );
    for command in listed {
        let page = folder.join(format!("man1/punctual-{command}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(
            text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
            "{text}"
        );
    }
    let daemon = fs::read_to_string(folder.join("man8/punctuald.8")).expect("a page");
    assert!(daemon.contains(".SH \"TERMINATION CODES\""), "{daemon}");
    assert!(folder.join("man1/punctual-v4l2.1").exists());
    for file in ["bash/punctual.bash", "zsh/_punctuald", "fish/punctual.fish"] {
        let completions = fs::read_to_string(folder.join("completions").join(file));
        assert!(completions.expect("a file").contains("punctual"), "{file}");
    }
}
