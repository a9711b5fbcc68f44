// What detectors, segmenters and transformers need beside convolutions.
#include "attention.cuh"
#include "copy.cuh"
#include "functions.cuh"
#include "product.cuh"
#include "resize.cuh"
#include "sampling.cuh"
#include "sequence.cuh"
#include "softmax.cuh"
