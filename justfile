# What a developer types: `just` lists it. Needs just 1.x (`cargo install just`); each recipe is a few plain commands.
set shell := ["bash", "-euo", "pipefail", "-c"]

unit := "-p punctual-core -p punctual-policy-seeb -p punctual-baselines -p punctual-simulator -p punctual-diagnostics -p punctual-plan -p punctual-ipc -p punctual-model -p punctual-device -p punctual-device-cpu -p punctual-client"

_list:
    @just --list --unsorted

# Format, lints and unit tests of what changes most: under three minutes when warm
check:
    cargo fmt --all --check
    cargo clippy --locked --workspace -- -D warnings
    cargo test --locked --lib {{unit}}
    cargo test --locked -p punctual-suite

# Everything that `cargo test` has
test:
    cargo test --workspace --locked

# Did a change that only moves or renames code alter a decision or a figure? A subset, for each commit
golden:
    cargo run --release --locked -p punctual-evaluation --example golden

# The same for every workload, policy and experiment: a quarter of an hour
golden-full:
    cargo run --release --locked -p punctual-evaluation --example golden -- --full

# Is a test missing that was there?
golden-tests:
    python3 testing/golden/tests.py

# Fresh cases for the scheduler's fuzzer, for so many minutes
fuzz minutes="10":
    cargo run --release --locked -p punctual-lab -- simulate --fuzz 1000000000 --seed $((16#$(git rev-parse HEAD | cut -c 1-12))) --seconds $(({{minutes}} * 60))

# The scripts for minutes on a GPU, on the emulated driver
rehearsal:
    cargo test --workspace --locked --no-run && cargo build --workspace --bins --locked
    NO_CARGO=1 PROFILE=debug LIMIT_MIB=1000 bash testing/gpu/build.sh target target/gpu-rehearsal
    PROFILE=debug PARTS="facts detect first" bash testing/gpu/rehearse.sh target target/gpu-rehearsal 4

# The CUDA kernels on the interpreter, with arithmetic as coarse as the manual of PTX allows
kernels-coarse:
    PUNCTUAL_ARITHMETIC=coarse cargo test -p punctual-emulated-driver --test kernels --locked -- --skip machines --skip mutations

# Drawn networks on every engine of this machine, and on onnxruntime where ORT_DYLIB_PATH names it
networks count="100000":
    cargo run --release --locked -p punctual-networks -- --first $((16#$(git rev-parse HEAD | cut -c 1-12))) --count {{count}} --out target/networks

# Files of one operator, which the reference interpreter and onnxruntime (ORT_DYLIB_PATH) must agree on
operators count="100000":
    cargo run --release --locked -p punctual-networks -- operators --first $((16#$(git rev-parse HEAD | cut -c 1-12))) --count {{count}} --out target/networks

# Attacks and faults on the real daemon; `just rig smoke` for one suite
rig suite="smoke,latency,isolation,overload,faults,hostile":
    cargo build --release --locked -p punctual -p punctual-daemon -p punctual-hil -p punctual-torture
    target/release/punctual-hil run --bin target/release --torture target/release/channel-torture --suite {{suite}} --out target/hil

# Python's client library as a wheel, which installs anywhere with glibc 2.31 or later: target/wheels
wheel *arch:
    packaging/portable/wheel {{arch}}

# The GPU in virtual time: DISB and SEEB-GPU by the daemon's own device code
virtual-gpu:
    cargo test --release --locked -p punctual-virtual-gpu -- --ignored

# Prefix batching by the daemon, briefly
prefix:
    cargo build --release --locked -p punctual -p punctual-daemon
    cargo test --release --locked -p punctual-bench --test prefix -- --ignored

# The large networks of robots: exported, compiled, and compared with onnxruntime and float64. Needs 8 GB for PyTorch
robots:
    python3 -m venv target/zoo
    target/zoo/bin/pip install --quiet -r models/zoo/requirements.txt
    cargo build --release --locked -p punctual-networks --example tensors
    target/zoo/bin/python models/zoo/robots_coverage.py --record target/robots.jsonl --write

# The house in figures
house:
    python3 testing/house/figures.py

# Every page that the programs make, as people see it: target/pages. Needs chromium and pdftoppm
pages:
    testing/pages/look target/pages

# What a change must pass
ci:
    bash .ci/run

# All of it, and what takes long: some hours
full: ci rehearsal kernels-coarse virtual-gpu prefix golden-full golden-tests rig (fuzz "20") networks robots
