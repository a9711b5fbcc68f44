//! Calibration: held-out pictures through all exits of a package.
//!
//! | module | what it is |
//! |---|---|
//! | `samples`, `annotations` | which pictures there are, and what each shows |
//! | `pictures` | from a picture's file to the network's input |
//! | `run` | all samples through all exits |
//! | `kind` | how answers are compared with the truth: `classes`, `labels`, `detections`, `masks`, `values` |
//! | `report`, `plot` | what came out, as tables, JSON and charts |

pub mod annotations;
pub mod classes;
pub mod detections;
pub mod kind;
pub mod labels;
pub mod masks;
pub mod pictures;
pub mod plot;
pub mod report;
pub mod run;
pub mod samples;
pub mod values;
