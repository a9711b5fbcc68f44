// Quantised networks.
#include "bytes.cuh"
