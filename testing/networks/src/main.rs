use punctual_networks::*;
use std::collections::BTreeMap;
fn main() {
    let mut args = std::env::args().skip(1);
    let first: u64 = args.next().unwrap().parse().unwrap();
    let count: u64 = args.next().unwrap().parse().unwrap();
    let engines: Vec<Engine> = args
        .next()
        .unwrap()
        .split(',')
        .map(|e| e.parse().unwrap())
        .collect();
    panics::remember();
    let mut refused = BTreeMap::<String, u32>::new();
    let mut wrong = 0;
    let mut nodes = 0;
    let mut fine = 0;
    let mut values = (0u64, 0u64);
    for seed in first..first + count {
        let drawn = Drawn::of(seed);
        nodes += drawn.graph().node.len();
        match compare(&drawn, &engines) {
            Verdict::Refused(r) => *refused.entry(r).or_default() += 1,
            Verdict::Broken(b) => {
                wrong += 1;
                println!("{seed} broken {b}")
            }
            v => {
                let mut bad = false;
                for (e, f) in v.failures() {
                    bad = true;
                    println!("{seed} {e} {:?} {}", f.kind, f.what);
                }
                if bad {
                    wrong += 1
                } else {
                    fine += 1;
                    if let Verdict::Compared(c) = v {
                        for (_, r) in c {
                            let r = r.unwrap();
                            values.0 += r.values;
                            values.1 += r.undecided;
                        }
                    }
                }
            }
        }
    }
    let mut r: Vec<_> = refused.into_iter().collect();
    r.sort_by_key(|r| std::cmp::Reverse(r.1));
    println!(
        "{fine} fine {wrong} wrong, refused {}, nodes {nodes}, values {values:?}",
        r.iter().map(|r| r.1).sum::<u32>()
    );
    for (r, n) in r.iter().take(60) {
        println!("{n} {r}");
    }
}
