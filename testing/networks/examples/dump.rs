fn main() {
    let mut a = std::env::args().skip(1);
    let s: u64 = a.next().unwrap().parse().unwrap();
    std::fs::write(a.next().unwrap(), punctual_networks::Drawn::of(s).bytes()).unwrap();
}
