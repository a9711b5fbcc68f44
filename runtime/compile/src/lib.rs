//! ONNX to package: parsing, shape folding, fusing, staging.
