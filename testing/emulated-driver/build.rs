//! Compiles the thread model and the sources of the kernels for the processor.
use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(kernels_compiled)");
    // The name under which programs ask the loader for CUDA's driver: the library is found by it once
    // it is loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    // What it uses of itself is not looked up by name: copies of it lack some names (`library.rs`).
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where"));
    let own = crate_folder.join("cpp");
    let kernels = crate_folder.join("../../kernels/cuda/src");
    println!("cargo::rerun-if-changed={}", own.display());
    println!("cargo::rerun-if-changed={}", kernels.display());
    // For another machine there may be no C++ compiler here; nothing could be run anyway.
    if env::var("TARGET") != env::var("HOST") {
        return;
    }
    println!("cargo::rustc-cfg=kernels_compiled");
    let mut sources = sources_of(&own);
    sources.extend(sources_of(&kernels));
    compile(&sources, &own, &kernels);
}

/// The C++ and CUDA sources in a folder that may not exist, in order of name.
fn sources_of(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "cpp" || e == "cu"))
        .collect();
    found.sort();
    found
}

fn compile(sources: &[PathBuf], own: &Path, kernels: &Path) {
    cc::Build::new()
        .cpp(true)
        // Templates are all that is used of C++: nothing of its library is needed at run time.
        .cpp_link_stdlib(None)
        .std("c++17")
        .opt_level(2)
        .flag("-xc++")
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        // The same sums on every machine, whether or not it multiplies and adds at once.
        .flag("-ffp-contract=off")
        .flag_if_supported("-Wno-unknown-pragmas")
        .include(own)
        .include(kernels)
        .flag("-include")
        .flag(own.join("emulation.hpp").to_str().expect("a path in UTF-8"))
        .files(sources)
        // Kernels register themselves when the library is loaded.
        .link_lib_modifier("+whole-archive")
        .compile("emulated_kernels");
}
