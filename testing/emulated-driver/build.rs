//! How the library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The name under which programs ask the loader for CUDA's driver: the library is found by it once
    // it is loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    // What it uses of itself is not looked up by name: copies of it lack some names (`library.rs`).
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
