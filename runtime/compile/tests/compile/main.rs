//! Whole ONNX files, compiled and run, against recorded and other engines' results.
#![forbid(unsafe_code)]

mod cases;
mod detections;
mod fuzzed;
mod onnxruntime;
mod recorded;
mod sequences;
mod signs;
mod streets;
