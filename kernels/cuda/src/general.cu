// The module that every network needs.
#include "conv_general.cuh"
#include "elementwise.cuh"
#include "linear.cuh"
#include "members.cuh"
#include "pool.cuh"
