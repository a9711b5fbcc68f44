//! Serves a daemon's report to Prometheus.
//!
//! | module | what it is |
//! |---|---|
//! | `metric` | what is declared of a metric |
//! | `list` | all metrics, each declared once: [the page](../../../../docs/metrics.md) and the text are made of it |
//! | `exposition` | the text that a scrape gets |
//! | `observation` | what is seen of the daemon, for all scrapes that come at the same time |
//! | `server` | HTTP, for as many connections as it has threads |

mod exposition;
mod list;
mod metric;
mod observation;
mod server;

pub use observation::Observations;
pub use server::Server;

#[cfg(test)]
mod page;
