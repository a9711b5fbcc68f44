// Kernels of quantised networks, whose tensors are bytes.
#include "bytes.cuh"
