//! Gives the shared library its name for the dynamic linker: programs that were linked with one
//! `libpunctual.so.0` run with any other.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpunctual.so.0");
}
