// Parameters of kernels, written by a test (header.rs) from what params.rs and its modules declare. What each field
// means is said there.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f32 = float;

constexpr u32 IMAGES_MAX = 32;
constexpr u32 SOURCES_MAX = 8;
constexpr u32 DIGITS_MAX = 8;

enum Curve : u32 {
    CURVE_NONE = 0,
    CURVE_CLIP = 1,
    CURVE_SIGMOID = 2,
    CURVE_SILU = 3,
    CURVE_HARD_SIGMOID = 4,
    CURVE_HARD_SWISH = 5,
    CURVE_GELU = 6,
    CURVE_TANH = 7,
    CURVE_LEAKY_RELU = 8,
    CURVE_ELU = 9,
    CURVE_MISH = 10,
    CURVE_SOFTPLUS = 11,
    CURVE_SOFTSIGN = 12,
    CURVE_TANH_GELU = 13,
};

enum Kept : u32 {
    KEPT_HALVES = 0,
    KEPT_FLOATS = 1,
    KEPT_BYTES = 2,
};

enum Function : u32 {
    FUNCTION_ADD = 0,
    FUNCTION_SUBTRACT = 1,
    FUNCTION_MULTIPLY = 2,
    FUNCTION_DIVIDE = 3,
    FUNCTION_MINIMUM = 4,
    FUNCTION_MAXIMUM = 5,
    FUNCTION_ABSOLUTE = 6,
    FUNCTION_EXPONENTIAL = 7,
    FUNCTION_RECIPROCAL = 8,
    FUNCTION_SQUARE_ROOT = 9,
    FUNCTION_EQUAL = 10,
    FUNCTION_NOT_EQUAL = 11,
    FUNCTION_LESS = 12,
    FUNCTION_LESS_OR_EQUAL = 13,
    FUNCTION_KEEP_WHERE = 14,
    FUNCTION_KEEP_UNLESS = 15,
    FUNCTION_SLOPE = 16,
    FUNCTION_SIGN = 17,
    FUNCTION_FLOOR = 18,
    FUNCTION_CEILING = 19,
    FUNCTION_ROUND = 20,
    FUNCTION_TRUNCATE = 21,
    FUNCTION_LOGARITHM = 22,
    FUNCTION_POWER = 23,
    FUNCTION_MODULO = 24,
    FUNCTION_REMAINDER = 25,
    FUNCTION_SINE = 26,
    FUNCTION_COSINE = 27,
    FUNCTION_TANGENT = 28,
    FUNCTION_ARC_SINE = 29,
    FUNCTION_ARC_COSINE = 30,
    FUNCTION_ARC_TANGENT = 31,
    FUNCTION_HYPERBOLIC_SINE = 32,
    FUNCTION_HYPERBOLIC_COSINE = 33,
    FUNCTION_ARC_HYPERBOLIC_SINE = 34,
    FUNCTION_ARC_HYPERBOLIC_COSINE = 35,
    FUNCTION_ARC_HYPERBOLIC_TANGENT = 36,
    FUNCTION_ERROR_FUNCTION = 37,
};

enum Type : u32 {
    TYPE_F32 = 0,
    TYPE_I32 = 1,
    TYPE_BOOL = 2,
    TYPE_U8 = 3,
    TYPE_I8 = 4,
};

enum CellCode : u32 {
    CELL_CODE_GRU_OF_PRODUCT = 0,
    CELL_CODE_GRU_OF_STATE = 1,
    CELL_CODE_LSTM = 2,
    CELL_CODE_TANH = 3,
    CELL_CODE_RELU = 4,
};

enum Form : u32 {
    FORM_SOFTMAX = 0,
    FORM_SIGMOID = 1,
    FORM_PROBABILITY = 2,
};

struct Guard {
    u64 epoch_now;
    u64 first_evicted;
    u64 begun;
    u32 epoch;
    u32 index;
    u32 check_stride;
    u32 gap;
};
static_assert(sizeof(Guard) == 40, "as in Rust");

struct TensorView {
    u64 address;
    u32 height;
    u32 width;
    u32 channels;
    u32 pitch;
};
static_assert(sizeof(TensorView) == 24, "as in Rust");

struct Epilogue {
    u32 curve;
    f32 low;
    f32 high;
    f32 rate;
};
static_assert(sizeof(Epilogue) == 16, "as in Rust");

struct Operand {
    u64 address;
    u32 image;
    u32 row;
    u32 column;
    u32 channel;
    u32 kept;
    u32 gap;
};
static_assert(sizeof(Operand) == 32, "as in Rust");

struct Digits {
    u32 extents[DIGITS_MAX];
    u32 steps[DIGITS_MAX];
};
static_assert(sizeof(Digits) == 64, "as in Rust");

struct Rounding {
    f32 zero;
    f32 low;
    f32 high;
    u32 gap;
};
static_assert(sizeof(Rounding) == 16, "as in Rust");

struct Answer {
    u32 class_index;
    f32 confidence;
    u32 not_finite;
    u32 gap;
};
static_assert(sizeof(Answer) == 16, "as in Rust");

struct Conv {
    TensorView input;
    TensorView output;
    u64 residual;
    u64 weights;
    u64 bias;
    u64 partial;
    u32 images;
    u32 kernel_height;
    u32 kernel_width;
    u32 stride_height;
    u32 stride_width;
    u32 pad_top;
    u32 pad_left;
    u32 groups;
    u32 splits;
    u32 first_channel;
    u32 channel_count;
    u32 dilation_height;
    u32 dilation_width;
    u32 gap;
    Epilogue epilogue;
};
static_assert(sizeof(Conv) == 152, "as in Rust");

struct Pool {
    TensorView input;
    TensorView output;
    u32 images;
    u32 kind;
    u32 kernel_height;
    u32 kernel_width;
    u32 stride_height;
    u32 stride_width;
    u32 pad_top;
    u32 pad_left;
};
static_assert(sizeof(Pool) == 80, "as in Rust");

struct GlobalPool {
    TensorView input;
    TensorView output;
    u32 images;
    u32 kind;
};
static_assert(sizeof(GlobalPool) == 56, "as in Rust");

struct Linear {
    u64 input;
    u64 output;
    u64 scores;
    u64 weights;
    u64 bias;
    u64 partial;
    u32 images;
    u32 depth;
    u32 features;
    u32 pitch;
    u32 first_feature;
    u32 feature_count;
    u32 splits;
    u32 gap;
    Epilogue epilogue;
};
static_assert(sizeof(Linear) == 96, "as in Rust");

struct Elementwise {
    TensorView output;
    Operand first;
    Operand second;
    u32 images;
    u32 function;
    Epilogue epilogue;
};
static_assert(sizeof(Elementwise) == 112, "as in Rust");

struct Copy {
    TensorView output;
    u64 source;
    u32 source_image;
    u32 start;
    u32 first_channel;
    u32 first_row;
    u32 first_column;
    u32 channels;
    u32 rows;
    u32 columns;
    Digits pixel_digits;
    Digits channel_digits;
    u32 from;
    u32 to;
    u32 images;
    u32 gap;
};
static_assert(sizeof(Copy) == 208, "as in Rust");

struct Output {
    u64 source;
    u64 target;
    u64 counts;
    u64 target_image;
    u32 source_image;
    u32 start;
    u32 elements;
    Digits digits;
    u32 from;
    u32 to;
    u32 first_count;
    u32 all_counts;
    u32 images;
};
static_assert(sizeof(Output) == 128, "as in Rust");

struct Softmax {
    u64 input;
    u64 output;
    u32 images;
    u32 rest;
    u32 rest_step;
    u32 outer;
    u32 inner;
    u32 extent;
    u32 step;
    u32 lanes;
    u32 channels;
    u32 pitch;
    u32 along_channels;
    u32 logarithm;
};
static_assert(sizeof(Softmax) == 64, "as in Rust");

struct Resize {
    TensorView input;
    TensorView output;
    u64 table;
    u32 images;
    u32 kept;
};
static_assert(sizeof(Resize) == 64, "as in Rust");

struct LayerNorm {
    TensorView input;
    u64 output;
    u64 scale;
    u64 bias;
    u32 images;
    f32 epsilon;
};
static_assert(sizeof(LayerNorm) == 56, "as in Rust");

struct Embedding {
    TensorView output;
    u64 input;
    u64 table;
    u32 images;
    u32 rows;
    u32 pitch;
    u32 kept;
    u32 first_channel;
    u32 channel_count;
};
static_assert(sizeof(Embedding) == 64, "as in Rust");

struct Tokens {
    TensorView output;
    u64 input;
    u64 table;
    u32 images;
    u32 prefix;
    u32 first_channel;
    u32 channel_count;
};
static_assert(sizeof(Tokens) == 56, "as in Rust");

struct Attention {
    TensorView query;
    TensorView key;
    TensorView value;
    u64 mask;
    u64 bias;
    u64 output;
    u32 rows;
    u32 queries;
    u32 keys;
    u32 bias_row;
    u32 bias_head;
    u32 images;
    u32 heads;
    f32 scale;
};
static_assert(sizeof(Attention) == 128, "as in Rust");

struct Product {
    TensorView first;
    TensorView second;
    u64 output;
    u32 images;
    u32 gap;
};
static_assert(sizeof(Product) == 64, "as in Rust");

struct Recurrent {
    TensorView gates;
    TensorView output;
    u64 weights;
    u64 bias;
    u64 state;
    u64 carried;
    u32 images;
    u32 cell;
    u32 hidden;
    u32 lanes;
    u32 first_step;
    u32 steps;
    u32 backwards;
    u32 kept;
};
static_assert(sizeof(Recurrent) == 112, "as in Rust");

struct GridSample {
    TensorView input;
    TensorView grid;
    u64 output;
    u32 images;
    u32 groups;
    u32 nearest;
    u32 outside;
    u32 align_corners;
    u32 gap;
};
static_assert(sizeof(GridSample) == 80, "as in Rust");

struct Take {
    TensorView input;
    TensorView indices;
    TensorView output;
    u32 images;
    u32 axis;
    u32 kept;
    u32 gap;
};
static_assert(sizeof(Take) == 88, "as in Rust");

struct TopK {
    TensorView input;
    u64 output;
    u32 images;
    u32 count;
    u32 largest;
    u32 last;
};
static_assert(sizeof(TopK) == 48, "as in Rust");

struct BestScore {
    TensorView scores;
    TensorView output;
    u64 objectness;
    u32 images;
    u32 first;
    u32 classes;
    u32 logits;
};
static_assert(sizeof(BestScore) == 72, "as in Rust");

struct Detections {
    TensorView best;
    TensorView boxes;
    TensorView scores;
    u64 output;
    u32 images;
    u32 kept;
    u32 boxes_kept;
    u32 first;
    u32 classes;
    u32 form;
    f32 unit_x;
    f32 unit_y;
    f32 width;
    f32 height;
    f32 threshold;
    f32 overlap;
    u32 suppresses;
    u32 by_class;
    u32 averaged;
    u32 rows;
    u32 candidates;
    u32 gap;
};
static_assert(sizeof(Detections) == 152, "as in Rust");

struct Gather {
    TensorView output;
    u64 table;
    u64 sources[SOURCES_MAX];
    u32 pitches[SOURCES_MAX];
    u32 images;
    u32 gap;
};
static_assert(sizeof(Gather) == 136, "as in Rust");

struct ConvBytes {
    TensorView input;
    TensorView output;
    u64 weights;
    u64 bias;
    u64 factors;
    u32 images;
    u32 kernel_height;
    u32 kernel_width;
    u32 stride_height;
    u32 stride_width;
    u32 pad_top;
    u32 pad_left;
    u32 dilation_height;
    u32 dilation_width;
    u32 groups;
    u32 first_channel;
    u32 channel_count;
    u32 zero;
    u32 kept;
    Rounding rounding;
    Epilogue epilogue;
};
static_assert(sizeof(ConvBytes) == 160, "as in Rust");

struct PoolBytes {
    TensorView input;
    TensorView output;
    u32 images;
    u32 kind;
    u32 kernel_height;
    u32 kernel_width;
    u32 stride_height;
    u32 stride_width;
    u32 pad_top;
    u32 pad_left;
    u32 zero;
    f32 ratio;
    Rounding rounding;
};
static_assert(sizeof(PoolBytes) == 104, "as in Rust");

struct AddBytes {
    TensorView output;
    u64 first;
    u64 second;
    u32 images;
    u32 first_zero;
    u32 second_zero;
    f32 first_ratio;
    f32 second_ratio;
    u32 gap;
    Rounding rounding;
};
static_assert(sizeof(AddBytes) == 80, "as in Rust");

struct Convert {
    TensorView input;
    TensorView output;
    u32 images;
    u32 from;
    u32 to;
    u32 zero;
    f32 factor;
    u32 gap;
    Rounding rounding;
};
static_assert(sizeof(Convert) == 88, "as in Rust");

struct Members {
    u64 batch;
    u64 bytes;
    u64 members[IMAGES_MAX];
    u32 images;
    u32 gap;
};
static_assert(sizeof(Members) == 280, "as in Rust");

struct InputPlanar {
    TensorView output;
    u64 members[IMAGES_MAX];
    u32 row_stride;
    u32 plane_stride;
    u32 images;
    u32 kept;
};
static_assert(sizeof(InputPlanar) == 296, "as in Rust");

struct Answers {
    u64 scores;
    u64 confidence;
    u64 counts;
    u64 answers;
    u64 done;
    u32 images;
    u32 classes;
    u32 pitch;
    u32 form;
    u32 all_counts;
    u32 sequence;
};
static_assert(sizeof(Answers) == 64, "as in Rust");

struct Preprocess {
    u64 frame;
    u64 chroma;
    TensorView output;
    u32 stride;
    u32 chroma_stride;
    u32 crop_x;
    u32 crop_y;
    u32 crop_width;
    u32 crop_height;
    f32 mean[3];
    f32 factor[3];
};
static_assert(sizeof(Preprocess) == 88, "as in Rust");

struct ReportEvicted {
    u64 first_evicted;
    u64 report;
};
static_assert(sizeof(ReportEvicted) == 16, "as in Rust");

struct Whereabouts {
    u64 multiprocessors;
    u32 stay_ns;
    u32 gap;
};
static_assert(sizeof(Whereabouts) == 16, "as in Rust");

struct Hold {
    u32 stay_ns;
    u32 check_ns;
};
static_assert(sizeof(Hold) == 8, "as in Rust");
