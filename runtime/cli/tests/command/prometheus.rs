//! What is in `monitoring`, and the metrics of a real daemon, in a real Prometheus; where the Debian package `prometheus` is installed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use punctual_platform::clock;
use serde_json::Value;

use crate::documented::root;
use crate::metrics::{Exporter, answer, frames, get};
use crate::support::{Daemon, Folder, LIMIT, MANIFEST};

/// Whether there is a Prometheus, which is said if not.
fn is_installed() -> bool {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let both = runs("prometheus") && runs("promtool");
    if !both {
        eprintln!("skipped: the Debian package prometheus is not installed");
    }
    both
}

fn monitoring(file: &str) -> PathBuf {
    root().join("monitoring").join(file)
}

fn assert_success(output: &Output) {
    let said =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}", said.concat());
}

#[test]
fn the_alerts_are_valid_and_do_what_their_tests_say() {
    if !is_installed() {
        return;
    }
    for arguments in [["check", "rules"], ["test", "rules"]] {
        let file = match arguments {
            ["check", _] => "alerts.yml",
            _ => "alerts.test.yml",
        };
        let mut promtool = Command::new("promtool");
        promtool.args(arguments).arg(monitoring(file));
        assert_success(&promtool.output().expect("it runs"));
    }
}

/// A process and what it keeps; gone with this.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: Folder,
}

impl Prometheus {
    /// Of one exporter, every fifth of a second, with our alerts.
    fn of(exporter: &Exporter) -> Self {
        let folder = Folder::with(MANIFEST);
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let rules = fs::canonicalize(monitoring("alerts.yml")).expect("it is there");
        let configuration = format!(
            "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: punctual, static_configs: [{{targets: ['{}']}}]}}]\n",
            rules.display(),
            exporter.address
        );
        folder.write("prometheus.yml", configuration.as_bytes());
        let child = Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                folder.path("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(["--log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    /// What it answers to a call of its API; none: it does not serve yet.
    fn api(&self, path: &str) -> Option<Value> {
        let answer = answer(self.address, path, "")?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// The result of a query, with its status.
    fn query(&self, expression: &str) -> Option<Value> {
        let encode = |byte: u8| format!("%{byte:02x}");
        let expression: String = expression.bytes().map(encode).collect();
        self.api(&format!("/api/v1/query?query={expression}"))
    }

    fn value(&self, expression: &str) -> Option<f64> {
        let answer = self.query(expression)?;
        answer
            .pointer("/data/result/0/value/1")?
            .as_str()?
            .parse()
            .ok()
    }

    fn wait_for(&self, expression: &str, wanted: f64) {
        let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
        while self.value(expression) != Some(wanted) {
            let now = self.query(expression);
            assert!(clock::now_ns() < limit_ns, "{expression}: {now:?}");
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All expressions of the dashboard, with values in the place of its variables.
fn queries(dashboard: &Path) -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(expression)) = fields.get("expr") {
                    found.insert(expression.clone());
                }
                fields.values().for_each(|value| collect(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(dashboard).expect("it is there");
    let mut found = BTreeSet::new();
    collect(&serde_json::from_str(&text).expect("JSON"), &mut found);
    let filled = found.iter().map(|expression| {
        let expression = expression.replace("$__rate_interval", "1m");
        expression.replace("$instance", ".*").replace("$task", ".*")
    });
    filled.collect()
}

/// Queries without a result: of frames rejected and failed, which there are none, and of figures that a virtual machine has not.
const EMPTY_MAX: usize = 4;

#[test]
fn prometheus_scrapes_a_daemon_and_answers_all_queries_of_the_dashboard() {
    if !is_installed() {
        return;
    }
    let daemon = Daemon::start(MANIFEST);
    let exporter = Exporter::of(&daemon.socket());
    frames(&daemon, 5);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let text = get(exporter.address, "/metrics", "");
    let mut input = promtool.stdin.take().expect("it is piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    assert_success(&promtool.wait_with_output().expect("it ends"));

    let prometheus = Prometheus::of(&exporter);
    prometheus.wait_for(
        r#"sum(punctual_frames_total{task="front",verdict=~"on_time|late"})"#,
        5.0,
    );
    prometheus.wait_for("count(rate(punctual_frames_submitted_total[1m]))", 2.0);
    // Only of OpenMetrics has it units.
    let metadata = prometheus.api("/api/v1/targets/metadata?metric=punctual_latency_seconds");
    let metadata = metadata.expect("an answer");
    assert_eq!(metadata["data"][0]["type"], "histogram", "{metadata}");
    assert_eq!(metadata["data"][0]["unit"], "seconds", "{metadata}");
    let queries = queries(&monitoring("dashboard.json"));
    assert!(queries.len() > 20, "{queries:#?}");
    let is_empty = |expression: &&String| {
        let answer = prometheus.query(expression).expect("an answer");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"] == Value::Array(Vec::new())
    };
    let empty: Vec<&String> = queries.iter().filter(is_empty).collect();
    assert!(empty.len() <= EMPTY_MAX, "{empty:#?}");
    daemon.stop();
    prometheus.wait_for("punctual_up", 0.0);
    prometheus.wait_for("count({__name__=~\"punctual_.*\"})", 1.0);
}
