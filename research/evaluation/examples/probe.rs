//! Prototype figures.
use punctual_core::{PolicySpec, PunctualConfig};
use punctual_evaluation::workloads;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::summary::Tally;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let names: Vec<&str> = args[1].split(',').collect();
    let loads: Vec<f64> = args[2].split(',').map(|x| x.parse().unwrap()).collect();
    let variants: Vec<&str> = args[3].split(',').collect(); // off | cells:corun
    let seeds = 1..=args.get(4).map_or(3, |x| x.parse().unwrap());
    let mut jobs = Vec::new();
    for n in &names {
        for v in &variants {
            for l in &loads {
                jobs.push((*n, *v, *l));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![String::new(); jobs.len()]);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, variant, load)) = jobs.get(i) else {
                        return;
                    };
                    let mut sc = workloads::by_name(name).unwrap();
                    let mut policy = PunctualConfig::default();
                    if *variant == "off" {
                        policy.lending = false;
                    } else {
                        let (c, f) = variant.split_once(':').unwrap();
                        if c != "auto" {
                            let c: u16 = c.parse().unwrap();
                            let homes = punctual_simulator::layout::aligned(&sc, c);
                            sc = sc.with_places(homes, c, 1.0);
                        }
                        if let Some(l) = &mut sc.lending {
                            l.corun = f.parse().unwrap();
                        }
                    }
                    let mut rt = Tally::default();
                    let mut be = 0;
                    let mut steps = 0;
                    let t = std::time::Instant::now();
                    for seed in seeds.clone() {
                        let out = simulate(
                            &sc,
                            &policy,
                            *load,
                            Settings {
                                seed,
                                keep_requests: false,
                            },
                            &mut (),
                        )
                        .unwrap();
                        for (i, tally) in out.tasks.iter().enumerate() {
                            if sc.tasks[i].config.criticality
                                == punctual_core::Criticality::RealTime
                            {
                                rt.add(tally);
                            } else {
                                be += tally.on_time + 0
                            }
                        }
                        steps += out.effort.steps;
                    }
                    let us = t.elapsed().as_secs_f64() * 1e6 / steps as f64;
                    let p = |x: u64| 100.0 * x as f64 / rt.submitted.max(1) as f64;
                    let mut per = String::new();
                    if std::env::var("PER").is_ok() {
                        let homes = sc
                            .lending
                            .as_ref()
                            .filter(|_| policy.lending)
                            .map_or(sc.planned.clone(), |l| l.homes.clone());
                        per = format!(
                            " {:?}",
                            homes
                                .iter()
                                .map(|(u, t)| (u.first, u.count, t.clone()))
                                .collect::<Vec<_>>()
                        );
                        let out = simulate(
                            &sc,
                            &policy,
                            *load,
                            Settings {
                                seed: 1,
                                keep_requests: false,
                            },
                            &mut (),
                        )
                        .unwrap();
                        for (i, t) in out.tasks.iter().enumerate() {
                            per += &format!(
                                "\n      {:12} n {} on time {} right {} exits {:?}",
                                sc.tasks[i].name,
                                t.submitted,
                                t.on_time,
                                t.correct_on_time,
                                t.exits
                            );
                        }
                    }
                    let s = per
                        + &format!(
                            "{:6.2} full {:6.2} miss {:.3} be {} {:.2}us/step",
                            p(rt.correct_on_time),
                            p(rt.correct_at_full_depth),
                            p(rt.submitted - rt.on_time),
                            be,
                            us
                        );
                    results.lock().unwrap()[i] = s;
                }
            });
        }
    });
    let r = results.into_inner().unwrap();
    for (i, (n, v, l)) in jobs.iter().enumerate() {
        println!("{n:24} {v:10} x{l:<4} {}", r[i]);
    }
    let _ = PunctualConfig::default().name();
}
