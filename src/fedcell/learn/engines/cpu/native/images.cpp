// Kernels that PyTorch has no quick version of for channels-last images on a CPU, called by lowering.py.
//
// Every kernel takes its numbers and its pointers as two arrays, so that a list of kernels is a list of triples.
#include "batch_norm.h"
#include "depthwise.h"
#include "pool.h"
#include "winograd.h"

// Tiles of M x M pixels and kernels of R x R.
#define BY_TILES(n, ...)                                                           \
    if (((const Shape *)n)->high == 5) { const int M = 2, R = 5; __VA_ARGS__; }    \
    else if (n[25] == 4) { const int M = 4, R = 3; __VA_ARGS__; }                  \
    else { const int M = 2, R = 3; __VA_ARGS__; }

extern "C" {

void convolution(Numbers n, Pointers p) {  // x, weight, bias or null, y, packed weights, room or null
    const Shape &s = *(const Shape *)n;
    forward(s, p[0], p[1], p[2], p[3], p[4], p[5]);
}

// sent back, weight, null or the bias of a transposed convolution, found, packed weights, room or null
void convolution_by_input(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    by_input(s, p[0], p[1], p[2], p[3], p[4], p[5]);
}

void convolution_by_weight(Numbers n, Pointers p) {  // x, sent back, found, bias or null, packed, room or null
    const Shape &s = *(const Shape *)n;
    by_weight(s, p[0], p[1], p[2], p[3], p[4], p[5]);
}

// numbers: images, pixels, channels
void channel_sums(Numbers n, Pointers p) {  // images, found
    std::memset(p[1], 0, 4 * n[2]);
    for (long i = 0; i < n[0]; i++) add_pixels(p[0] + i * n[1] * n[2], n[1], n[2], p[1]);
}

// After the shape come how many tiles are worked on at a time, and their side M; pointers end with room for these, N x N
// numbers for each channel that goes in or comes out.
static Images read(const Shape &s, long block) {
    return {s.n, s.height, s.width, s.n_in, s.out_height, s.out_width, s.n_out, s.room_width, s.top, s.left, block};
}

void winograd(Numbers n, Pointers p) {  // as for convolutions, with N x N numbers of the packed weights for R x R, and room
    const Shape &s = *(const Shape *)n;
    BY_TILES(n, kernel_in<M, R>(s, p[1], false, p[4]);
             winograd_images<M, R>(read(s, n[24]), p[0], p[4], p[2], p[3], p[5], p[6]))
}

void winograd_by_input(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    const Images back = {s.n, s.out_height, s.out_width, s.n_out, s.height, s.width, s.n_in, s.room_width, s.top, s.left, n[24]};
    BY_TILES(n, kernel_in<M, R>(s, p[1], true, p[4]);
             winograd_images<M, R>(back, p[0], p[4], p[2], p[3], p[5], p[6]))
}

void winograd_by_weight(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    BY_TILES(n, winograd_kernel<M, R>(read(s, n[24]), s, p[0], p[1], p[2], p[3], p[4], p[5], p[6]))
}

void depthwise(Numbers n, Pointers p) {  // as for convolutions
    const Shape &s = *(const Shape *)n;
    depth_forward(s, p[0], p[1], p[2], p[3], p[4], p[5]);
}

void depthwise_by_input(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    depth_by_input(s, p[0], p[1], p[3], p[4], p[5]);
}

void depthwise_by_weight(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    depth_by_weight(s, p[0], p[1], p[2], p[3], p[4], p[5]);
}

// numbers: images, pixels, channels, groups, relu
void group_norm(Numbers n, Pointers p) {  // most and eps, x, gamma, beta, y, mean, rstd
    group_norm_forward(n[0], n[1], n[2], n[3], n[4], p[0][0], p[0][1], p[1], p[2], p[3], p[4], p[5], p[6]);
}

// most, sent, x, mean, rstd, gamma, output or null, found, by gamma, by beta
void group_norm_by_input(Numbers n, Pointers p) {
    group_norm_backward(n[0], n[1], n[2], n[3], p[1], p[2], p[3], p[4], p[5], p[6], *p[0], p[7], p[8], p[9]);
}

// numbers: images, pixels, channels, relu
void batch_norm(Numbers n, Pointers p) {  // most, eps and momentum, x, gamma, beta, running mean and variance, y, mean, rstd
    batch_norm_forward(n[0], n[1], n[2], n[3], p[0][0], p[0][1], p[0][2], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]);
}

void batch_norm_by_running(Numbers n, Pointers p) {  // most and eps, x, gamma, beta, running mean and variance, y
    batch_norm_running(n[0] * n[1], n[2], n[3], p[0][0], p[0][1], p[1], p[2], p[3], p[4], p[5], p[6]);
}

// numbers: images, pixels, channels, which ReLU; most, sent, x, mean, rstd, gamma, beta, output of the ReLU or null, found,
// by gamma, by beta
void batch_norm_by_input(Numbers n, Pointers p) {
    auto back = n[3] == NO_RELU ? batch_norm_back<NO_RELU> : n[3] == RELU_FOUND ? batch_norm_back<RELU_FOUND> : batch_norm_back<RELU_ANEW>;
    back(n[0], n[1], n[2], p[1], p[2], p[3], p[4], p[5], p[6], p[7], *p[0], p[8], p[9], p[10]);
}

// numbers: those of a pool; places are whole numbers of 64 bits
void max_pool(Numbers n, Pointers p) {  // x, y, places
    const Pool &s = *(const Pool *)n;
    pool_forward(s, p[0], p[1], (long *)p[2]);
}

void max_pool_by_input(Numbers n, Pointers p) {  // sent back, places, found
    const Pool &s = *(const Pool *)n;
    pool_backward(s, p[0], (const long *)p[1], p[2]);
}

// numbers: images, height, width, channels, steps between neighbours of what is sent back, along the same axes
void relu_by_input(Numbers n, Pointers p) {  // sent back, in any order; output; found
    float row[MOST_CHANNELS];
    long channels = n[3], step = n[7];
    for (long i = 0, at = 0; i < n[0]; i++)
        for (long h = 0; h < n[1]; h++)
            for (long w = 0; w < n[2]; w++, at += channels) {
                const float *sent = p[0] + i * n[4] + h * n[5] + w * n[6], *out = p[1] + at;
                float *found = p[2] + at;
                for (long c = 0; c < channels; c++) row[c] = sent[c * step];  // by itself: a choice of it would branch
                for (long c = 0; c < channels; c++) found[c] = out[c] <= 0 ? 0 : row[c];
            }
}
}
