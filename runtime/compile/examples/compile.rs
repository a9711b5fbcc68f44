//! Compiles what an options file describes and prints the report:
//! `cargo run -p punctual-compile --example compile -- models/signs/signs.toml [PACKAGE]`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(options) = arguments.next() else {
        eprintln!("usage: compile OPTIONS.toml [PACKAGE]");
        return ExitCode::FAILURE;
    };
    let compiled = match punctual_compile::compile_file(Path::new(&options)) {
        Ok(compiled) => compiled,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    print!("{}", compiled.report);
    if let Some(path) = arguments.next()
        && let Err(error) = std::fs::write(&path, compiled.package.encode())
    {
        eprintln!("cannot write {}: {error}", Path::new(&path).display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
