fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("readable");
        match punctual_ptx::Module::read(&text) {
            Ok(m) => {
                let k: Vec<String> = m.kernels().map(|k| format!("{}:{}:{}", k.name(), k.instructions(), k.static_shared())).collect();
                println!("{path}: {} {:?} {}", m.target(), m.version(), k.join(" "));
            }
            Err(e) => println!("{path}: {e}"),
        }
    }
}
