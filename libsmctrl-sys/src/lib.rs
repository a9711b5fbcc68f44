//! Which TPCs a CUDA stream may use: libsmctrl's C API found at run time, and the same effect natively.
//! No policy.
