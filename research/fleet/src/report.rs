//! What `punctual plan` prints: the plan as plain text tables.

use std::fmt;

use punctual_core::Nanos;
use punctual_report::{Column, Table, WIDTH};

use crate::groups::SessionPlan;
use crate::plan::FleetPlan;

impl fmt::Display for FleetPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(WIDTH);
        writeln!(f, "fleet plan of {}", self.file.display())?;
        writeln!(
            f,
            "\nSessions: what is batched together\n{:width$}",
            self.session_table()
        )?;
        if !self.queries.is_empty() {
            writeln!(
                f,
                "Queries: how their deadlines are divided\n{:width$}",
                self.query_table()
            )?;
        }
        writeln!(
            f,
            "Nodes: each cycle runs one batch of each session; a request waits at most a cycle and its \
             batch\n{:width$}",
            self.node_table()
        )?;
        let used: Vec<String> = self
            .boards
            .iter()
            .map(|board| format!("{} of {} {}", board.used, board.count, board.name))
            .collect();
        write!(
            f,
            "{} partitions in use, on boards: {}",
            self.nodes.len(),
            used.join(", ")
        )?;
        if let Some(fewest) = self.fewest_nodes {
            write!(f, "; the optimum is {fewest} partitions")?;
        }
        writeln!(f)?;
        for excess in &self.unplaced {
            let name = self.sessions[excess.session].title();
            writeln!(
                f,
                "no place: {} of session {} ({name})",
                excess.rate_hz, excess.session
            )?;
        }
        Ok(())
    }
}

impl FleetPlan {
    fn session_table(&self) -> Table {
        let mut table = Table::of([
            Column::number("session"),
            Column::words("for"),
            Column::words("model"),
            Column::number("exit"),
            Column::number("rate"),
            Column::number("deadline"),
            Column::number("shared stages"),
        ])
        .inset();
        for session in &self.sessions {
            for (position, member) in session.members.iter().enumerate() {
                let first = |text: String| if position == 0 { text } else { String::new() };
                let shared = if session.members.len() > 1 {
                    session.shared_stages.to_string()
                } else {
                    "-".to_owned()
                };
                table.row([
                    first(session.session.to_string()),
                    member.names.join(", "),
                    member.model.clone(),
                    member.exit.to_string(),
                    member.rate_hz.to_string(),
                    first(session.deadline.to_string()),
                    first(shared),
                ]);
            }
        }
        table
    }

    fn query_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("query"),
            Column::words("stage"),
            Column::number("deadline"),
            Column::number("boards"),
            Column::number("divided evenly"),
        ])
        .inset();
        for query in &self.queries {
            let even = query.boards_if_even;
            let even = even.map_or_else(|| "late".to_owned(), |boards| format!("{boards:.2}"));
            let deadline = query.deadline.to_string();
            let boards = format!("{:.2}", query.boards);
            table.row([query.name.clone(), "all".to_owned(), deadline, boards, even]);
            for budget in &query.budgets {
                let (stage, deadline) = (budget.stage.clone(), budget.deadline.to_string());
                table.row([String::new(), stage, deadline, String::new(), String::new()]);
            }
        }
        table
    }

    fn node_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("board"),
            Column::number("partition"),
            Column::number("units"),
            Column::number("cycle"),
            Column::number("occupancy"),
            Column::words("session"),
            Column::number("batch"),
            Column::number("time"),
            Column::number("rate"),
            Column::number("latency"),
            Column::number("deadline"),
        ])
        .inset();
        for node in &self.nodes {
            for (position, run) in node.runs.iter().enumerate() {
                let session = &self.sessions[run.session];
                let first = |text: String| if position == 0 { text } else { String::new() };
                table.row([
                    first(format!("{} {}", node.board, node.board_number)),
                    first(node.partition.to_string()),
                    first(node.units.to_string()),
                    first(node.duty_cycle.to_string()),
                    first(format!("{:.1}%", node.occupancy * 100.0)),
                    format!("{} {}", run.session, session.title()),
                    run.batch.to_string(),
                    run.time.to_string(),
                    run.rate_hz.to_string(),
                    run.latency.to_string(),
                    session.deadline.to_string(),
                ]);
            }
        }
        table
    }
}

impl SessionPlan {
    /// The name of the first that it is for, and how many more there are.
    pub(crate) fn title(&self) -> String {
        let mut names = self.members.iter().flat_map(|member| &member.names);
        let first = names.next().cloned().unwrap_or_default();
        match names.count() {
            0 => first,
            more => format!("{first} +{more}"),
        }
    }
}

/// In milliseconds, for axes.
pub(crate) fn ms(span: Nanos) -> f64 {
    span.as_nanos() as f64 / 1e6
}
